"""Parts of the scenario `groups`: hosts on the production housing, objects in every style, clients that call.

Hosts are the production cores from the log to the answer (:mod:`holdfast.housing`), clients the production
invocation core (:mod:`holdfast.calling`); between them everything passes its encoding on the wire.
"""
