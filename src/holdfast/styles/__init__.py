"""The replication styles: which members execute a group's operations.

`cold` and `warm` are both `passive`: only the primary executes. In `active` every member executes.
`stateless` has nothing to replicate, and `app_controlled` leaves consistency to the application. All but
`stateless` are a `replica`, the application of a sequence: `serving_state` says whether it takes calls,
`admission` which ones, `replies` answers their callers, `checkpointing` captures its state, `divergence` and
`readiness` tell whether that state is the group's, and `code_change` and `code_replay` handle a class that
has changed.

Nothing is told to a client, sent to another group or kept as a checkpoint before it is committed. Order and
replication belong to `sequence`, running a class belongs to `execution`.
"""
