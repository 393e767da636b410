"""Replication: how the masters of one suffix come to have the same changes.

:mod:`.replicator` puts it together for one replica; it has one :mod:`.link` for each peer, which greets, and
then is :mod:`.supplier` and :mod:`.consumer` at once. :mod:`.messages` has what they say. :mod:`.statement`
is how a replica says, in its own stream, what it has; :mod:`.roster` has what is known of all replicas, and
derives from it how far may be trimmed (G5) and purged (G7), and which id may be retired. :mod:`.identity`
decides which replica a store is (G3). :mod:`.giving` and :mod:`.taking` are the two ends of a full copy,
:mod:`.acknowledging` waits for a second store.

All of it is pure: the replica is a port (:mod:`holdfast.directory.replica.seam`), connections are a port
(:mod:`.ports`), and nobody here reads a clock or a disk.
"""
