"""Parts of the scenario `calls`: connections, a group's side of the protocol, and clients with a workload.

The clients run the production core of :mod:`holdfast.calling`; the group is a model of what the protocol
promises its clients, with the production table of requests and replies.
"""
