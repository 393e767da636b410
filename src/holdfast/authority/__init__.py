"""The authority: the one place that decides when hosts disagree (A).

It keeps names, sessions, views and transactions. A small *contract* (:mod:`.contract`: get, list, txn, lease,
watch) has two backends, which pass the same test suite: the embedded one on SQLite (:mod:`.sqlite`) and
:mod:`.etcd`. Everything else is written once, on top of that contract, as *recipes*: :mod:`.identity`,
:mod:`.sessions`, :mod:`.names`, :mod:`.stores`, :mod:`.groups`, :mod:`.views`, :mod:`.membership`,
:mod:`.transactions`, :mod:`.election`. :mod:`.recipe` explains how a recipe ends and how an unknown outcome
is settled; :mod:`.keys` lists every key.

Invariants: a change is applied once or never, and its writer can find out which (A1). A number that was
issued (incarnation, opening, epoch, group id, term, CAS) is never issued again. This package stores records
and does not interpret them: of a view it looks only at the epoch.
"""
