"""Who executes a group's operations: the replication styles.

`cold` and `warm` are both `passive`: only the primary executes. In `active` every member does. `stateless`
has nothing to replicate, `app_controlled` leaves consistency to the application. All but `stateless` are a
`replica`, the application of a sequence: `serving_state` says whether it takes calls, `admission` which,
`replies` tells their callers, `checkpointing` captures its state, `divergence` and `readiness` say whether
that is the group's, `code_change` and `code_replay` what happens when its class has changed.

Nothing is told to a client, sent to another group or kept as a checkpoint before it is committed. Order and
replication belong to `sequence`, running a class to `execution`.
"""
