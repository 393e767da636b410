"""The groups of one host, made of cores alone.

`host_groups` puts everything together; `hosted_group` is one group here: its member, its style and its turns
(`scheduler`). `lifecycle` and `leaving` say how members come and go, `catalog` what is known of all groups of
the domain, `call_router` hands clients' calls to the group they are for, `outbound_*` makes the calls of
groups to other groups. Everything goes through `ports`: a host's process binds them to its event loop,
sockets and disk, the simulator to its world, and neither wires a group in a way of its own.

Left to others: opening the store and the session, loading classes, carrying frames, proof of deaths.
"""
