"""Calling groups from a program: domains, proxies, and a face for programs without an event loop.

Owns futures and names: ``domain`` finds groups, ``proxy`` makes their methods awaitable, ``caller`` and
``queueing`` bind the machine of :mod:`holdfast.calling` to an event loop, ``sync`` hides it, ``ordering``
gives orders about groups. What becomes of a call is decided in ``calling``, not here.
"""
