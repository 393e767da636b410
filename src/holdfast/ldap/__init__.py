"""The LDAP door: its language, messages from bytes and into bytes without any IO, and its clients.

:mod:`.ber` cuts a stream into messages and reads and writes their elements; :mod:`.messages` has them as
values, :mod:`.decoding` and :mod:`.encoding` turn them from bytes and into bytes, with filters in
:mod:`.filter_ber`. :mod:`.controls` and :mod:`.extended` say what the controls and extended operations mean
that are known here. What is asked of the directory, and the filter, are values of :mod:`holdfast.directory`.

What is done with them, again without IO but for the last: :mod:`.session` is one client, :mod:`.service` the
suffixes behind one door, each a :mod:`.naming_context`; :mod:`.server` has the sockets, :mod:`.door` is a
host's.
"""
