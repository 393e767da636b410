"""What the replication manager does about the difference between desired and observed state.

`spec` holds both, `planner` computes the actions that bring one to the other, `criteria` are what factories
are told, `reactions` what follows from a reported fault.
"""
