"""Moves a domain from one authority to another while it runs (A8).

:mod:`.place` says where an authority is and :mod:`.seat` whether it serves. :mod:`.mover` seals the old
one, has :mod:`.copying` copy it into the new one, which :mod:`.filling` keeps alive meanwhile, and releases
the new one; :mod:`.finding` finds the one that serves and gives up a move that nobody finishes. A
:class:`~.follower.Follower` is the client that every process uses: it follows the domain to its new place.
All of these are pure; :mod:`.following` binds them to an event loop, and :mod:`.place_file` remembers the
last place on disk. :mod:`.revisions` keeps revisions growing across moves.

Invariants: at any time at most one authority carries out requests of the domain's processes. A move is
decided by one compare-and-set, at the new authority. Whatever ends in between, the domain continues at one of
the two.
"""
