"""The directory: entries that every master may change, ordered by change sequence numbers.

*Changes.* :mod:`.primitives` has the changes that masters send each other. :mod:`.entry` and
:mod:`.attribute` are the state that they make, of :mod:`.slot` registers, and :mod:`.resolving` is how.
:mod:`.tree` is what clients see of it, :mod:`.conflicts` what lost, :mod:`.purging` how old state goes.
:mod:`.issuing` makes changes of what was asked for. :mod:`.store` is where it is kept. ``DESIGN.md`` has what
every pair of operations comes to. Equal sets of changes give equal bytes on every master.

*Values.* :mod:`.operations` has what a client may ask, as values; :mod:`.results` has how it is answered.
:mod:`.dn` has names, :mod:`.filters` the search filter and its evaluation, :mod:`.ldif` entries as text. What
a value means is in :mod:`.syntaxes`, :mod:`.string_preparation` and :mod:`.matching`; :mod:`.schema` says
which attributes and classes there are. :mod:`.normal_form` makes of them what changes carry.

All of it is pure but :mod:`.lmdb_store`: the wire is in :mod:`holdfast.ldap`.
"""
