"""The directory: entries that every master may change, in the terms that LDAP clients know.

:mod:`.operations` has what a client may ask, as values; :mod:`.results` has how it is answered. :mod:`.dn`
has names, :mod:`.filter` the search filter and its evaluation, :mod:`.ldif` entries as text. What a value
means is in :mod:`.syntaxes`, :mod:`.string_preparation` and :mod:`.matching`; :mod:`.schema` says which
attributes and classes there are. All of it is pure: the wire is in :mod:`holdfast.ldap`.
"""
