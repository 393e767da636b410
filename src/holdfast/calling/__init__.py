"""What happens to a call between its caller and its one outcome: its id, its copies, and how it ends.

`requests` is the core: the requests of one caller to one group. It builds on `request_ids`, which never
change, `in_flight`, `targets`, `retry`, `ordered_lane` and `outcomes`. Only `connections`, which binds it to
sockets, and `group_client`, which binds it to an event loop, do IO; everything else runs in the simulator.

Every request ends once: with the group's outcome, with an error that says it was not executed, or as unknown.
Users' programs call through `client`, and groups call each other through `groups`; both use this package.
"""
