"""Calling groups: proxies, transparent reinvocation, and a face for programs without an event loop.

Owns what happens to a call between the user's ``await`` and its one outcome: its id, its copies, whom they
are sent to, and when they stop. The machine is :mod:`.invocation` (with :mod:`.failover`, :mod:`.addresses`,
:mod:`.floor`, :mod:`.deadline`, :mod:`.lane`, :mod:`.heartbeats`), which touches no IO and runs in the
simulator; ``domain``, ``proxy`` and ``sync`` bind it to sockets and futures. Leaves executing, ordering and
remembering calls to the group.
"""
