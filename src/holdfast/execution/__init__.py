"""Running a class: its operations, its state as bytes, its timers, and the records that are replayed.

`interface` reads a class's operations, `capture` turns its state into bytes and back (`read_back` proves that
it comes back), `definition` is both together. `records` are what a sequence holds; `execution` applies them
to the object of `object_state`, `queue` runs its operations one at a time or interleaved, `method` runs one.
`context` is what a method may ask for instead of a clock, a die or a socket.

The same records give the same state and the same replies on every member. Who executes when is a matter of
:mod:`holdfast.styles`.
"""
