"""What becomes of a call between whoever makes it and its one outcome: its id, its copies, and their end.

Owns the requests of one caller to one group: numbers and expirations that never change, copies to whoever may
serve, the failover table, floors, lanes, heartbeats. :mod:`.requests` is the machine; all but ``hosts``,
which binds it to sockets, and ``caller``, which binds it to an event loop, touches no IO and runs in the
simulator.

Invariant: every request ends once, with the group's outcome, an error that says it was not executed, or as
unknown. Users' programs call through ``client``, groups call each other through ``node``; both stand on this.
Executing, ordering and remembering calls is the called group's.
"""
