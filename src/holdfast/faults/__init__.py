"""Faults: how they are detected and reported, and who is told of them.

This package has the structured events of Fault Tolerant CORBA, which its docstrings call the source, and the
reports they carry (:mod:`.events`, :mod:`.reports`). It has the filters by which consumers choose among them
(:mod:`.filters`). These are values and pure functions, on which everything that detects, forwards and stores
events is built. It also has the detector that checks whether members are alive (:mod:`.monitor`), which is a
core on ports.
"""
