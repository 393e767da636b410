"""Who executes a group's operations, and what a class must be like to be one.

A core. What a class is: `interface` reads its operations, `capture` turns its state into bytes and back,
`definition` is both together, `context` is what its methods may ask for instead of a clock, a die or a
socket. What is executed: `operation` has the records of a sequence, `execution` applies them, `line` runs
methods one at a time. Who executes when: `cold` and `warm` (both `passive`), `active`, `stateless`; each but
the last is a `replica`, the application of a sequence. Of a replica, `office` says whether it takes calls,
`admission` which frames of them, and `answering` tells their callers.

Invariants. The same records give the same state and the same replies on every member. Nothing is told to a
client, sent to another group or kept as a checkpoint before it is committed.

Order and replication belong to `sequence`; loading classes and running them in a process belong to `node`.
"""
