"""Executing a group's operations: a class's operations, its state as bytes, its timers, and its records.

`interface` reads the operations of a class. `capture` turns an object's state into bytes and back, and
`read_back` checks that it comes back unchanged. `definition` combines both. `records` defines what a group's
sequence contains; `execution` applies the records to the object held by `object_state`; `queue` runs the
operations one at a time or interleaved; `method` runs a single one. `context` gives methods deterministic
replacements for a clock, a random source and a socket.

The same records produce the same state and the same replies on every member. Which member executes when is
decided by :mod:`holdfast.styles`.
"""
