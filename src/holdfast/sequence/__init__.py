"""One group's replicated sequence: an ordered log of operations that survives the failure of members.

The package replicates opaque records from a primary to its backups and decides, together with the views in
the authority, which member may order them (rules V, S, R, M, K and D2). A host runs one
:class:`.member.Member` per group, on top of its :class:`.ports.HostPorts`. `primary`, `submission`,
`progress` and `membership` implement the primary's side; `acceptance`, `catchup` and `claim` implement the
backup's side. `retention` is the table that makes each call execute exactly once (X). The replication styles
decide what an operation means. `DESIGN.md` explains how the package is built.
"""
