"""Faults: what is told of them, and who wants to hear it.

Owns the structured events of the source and the reports they carry (:mod:`.events`, :mod:`.reports`), and the
filters by which consumers choose among them (:mod:`.filters`). Values and pure functions: whoever detects,
forwards and stores events builds on these. And the detector of members that are asked (:mod:`.monitor`), a
core on ports.
"""
