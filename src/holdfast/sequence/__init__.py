"""One group's replicated sequence: an order of operations that survives its members.

A core. It replicates opaque records from a primary to its backups and decides, with the authority's views,
who may order them (V, S, R, M, K, D2): :class:`.member.Member`, one per group and host, on the
:class:`.ports.HostPorts` of its host. `primary`, `submission`, `progress` and `membership` are what a primary
does, `acceptance`, `catchup` and `claim` what a backup does. `retention` is the table by which each call is
executed exactly once (X). What an operation means is left to the styles. `DESIGN.md` tells how it is built.
"""
