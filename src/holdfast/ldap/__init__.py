"""The LDAP door's language: messages from bytes and into bytes, without any IO.

:mod:`.ber` cuts a stream into messages and reads and writes their elements; :mod:`.messages` has them as
values, :mod:`.decoding` and :mod:`.encoding` turn them from bytes and into bytes, with filters in
:mod:`.filter_ber`. :mod:`.controls` and :mod:`.extended` say what the controls and extended operations mean
that are known here. What is asked of the directory, and the filter, are values of :mod:`holdfast.directory`.
"""
