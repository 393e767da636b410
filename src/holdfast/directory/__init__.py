"""The directory: entries that every master may change, ordered by change sequence numbers.

:mod:`.primitives` has the changes that masters send each other. :mod:`.entry` and :mod:`.attribute` are the
state that they make, of :mod:`.slot` registers, and :mod:`.resolving` is how. :mod:`.tree` is what clients
see of it, :mod:`.conflicts` what lost, :mod:`.purging` how old state goes. :mod:`.issuing` makes changes
of what was asked for. :mod:`.store` is where it is kept. ``DESIGN.md`` has what every pair of operations
comes to. All of it is pure: equal sets of changes give equal bytes on every master.
"""
