"""Everything a host does for the groups that have a member on it. This package consists of cores only.

`host_groups` builds and connects all parts. `hosted_group` is one group on this host: its sequence member,
its replication style and its turns (`scheduler`). `lifecycle` and `leaving` create and end members. `catalog`
knows every group of the domain. `call_router` passes clients' calls to the right group. `outbound/` makes
the calls from groups to other groups. All IO goes through `ports`: a host's process binds them to its event
loop, sockets and disk, and the simulator binds them to its simulated world, so both run groups that are wired
identically.

Other packages open the store and the session, load classes, carry frames and prove that processes died.
"""
