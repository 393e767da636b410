"""Faults: how they are detected and reported, and who is told of them.

This package has the structured events of Fault Tolerant CORBA, which its docstrings call the source, and the
reports they carry (:mod:`.events`, :mod:`.reports`). It has the filters by which consumers choose among them
(:mod:`.filters`). These are values and pure functions, on which everything that detects, forwards and stores
events is built. The :mod:`.notifier` is the class of the group that keeps and forwards them to
:mod:`.consumers`, and the :mod:`.analyzer` makes few reports of many. The :mod:`.monitor` asks members
whether they are alive; it is a core on ports.
"""
