"""``holdfast directory``: run a master of an LDAP directory.

:mod:`.commands` has what people type, :mod:`.serving` puts a master and its LDAP door together.
"""
