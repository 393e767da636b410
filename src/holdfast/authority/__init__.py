"""The authority: names, sessions, views, transactions; who decides when hosts disagree (A).

A small *contract* (:mod:`.contract`: get, list, txn, lease, watch) with two backends under one test-suite:
the embedded one on SQLite and :mod:`.etcd`. Everything else is written once on that contract as *recipes*
(:mod:`.recipe`): :mod:`.identity`, :mod:`.sessions`, :mod:`.names`, :mod:`.stores`, :mod:`.groups`,
:mod:`.views`, :mod:`.membership`, :mod:`.transactions`, :mod:`.election`. How they end, and how a doubt is
settled, is in :mod:`.recipe`; where things stand is in :mod:`.keys`.

Invariants: a change is applied once or never, and its writer can find out which (A1); numbers that are issued
(incarnations, openings, epochs, group ids, terms, CAS) are never issued twice. What the records are for is
left to others: a view is opaque here but for its epoch.
"""
