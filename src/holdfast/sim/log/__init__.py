"""The parts of the `log` scenario: a host that keeps a log, checkpoints and an identity on a faulty disk.

Owns what is known about a host outside of it (:mod:`.account`) and the host itself: how it identifies its
store and recovers (:mod:`.host`), what it does once it is open
(:mod:`.work`), and the faults aimed at its store (:mod:`.faults`).
"""
