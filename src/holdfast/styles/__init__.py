"""Who executes a group's operations, and what a class must be like to be one.

A core. `interface` reads a class: which methods are operations, which are queries, what their arguments may
be. `capture` turns an object's state into bytes and back. `context` is what a method may ask for instead of a
clock, a die or a socket. Order and replication belong to `sequence`; loading classes and running them in a
process belong to `node`.
"""
