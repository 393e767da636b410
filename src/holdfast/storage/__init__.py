"""What a host keeps on its disk: the write-ahead log of all its groups, checkpoints, the store's identity.

Owns the promise "durable before acknowledged" (D): nothing is reported durable before a sync that
covers it, a failed sync ends the store, damage below the synced mark is reported and never cut away.
Everything but :mod:`.disk` and :mod:`.lock` is a state machine on the Disk port, so the simulator runs the
same code on a disk that tears, rots and forgets. What a record means is left to the packages above.
"""
