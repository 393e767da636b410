"""A host's storage: the write-ahead log of all its groups, their checkpoints, and the store's identity.

This package keeps the promise "durable before acknowledged" (D): nothing is reported durable before a sync
that covers it, a failed sync ends the store, and damage below the synced mark is reported and never cut away.
Everything except :mod:`.disk`, :mod:`.volume`, :mod:`.lock` and :mod:`.aside_file` is a state machine on the
Disk port, so that the simulator runs the same code on a disk that tears writes, rots and forgets. This
package does not know what a record means; the packages above do.
"""
