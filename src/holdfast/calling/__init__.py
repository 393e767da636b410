"""What becomes of a call between whoever makes it and its one outcome: its id, its copies, and their end.

`requests` is the machine: the requests of one caller to one group. It stands on `request_ids`, which never
change, `in_flight`, `targets`, `retry`, `ordered_lane` and `outcomes`. All but `connections`, which binds it
to sockets, and `group_client`, which binds it to an event loop, touches no IO and runs in the simulator.

Every request ends once: with the group's outcome, with an error that says it was not executed, or as unknown.
Users' programs call through `client`, groups call each other through `groups`; both stand on this.
"""
