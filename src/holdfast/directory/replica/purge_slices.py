"""A purge of the stored state: a slice at a time, each a transaction of its own, with changes in between.

That a purge is under way is in the store from its first transaction to its last: if the process ends in
between, the next one that opens the store begins it again.
"""

from typing import Final

from holdfast.clock.vector import Vector
from holdfast.directory.primitives import EntryId
from holdfast.directory.purging import Purging
from holdfast.directory.replica.maps import LEFT, PURGED, PURGING, REPLICA
from holdfast.directory.replica.overlay import Overlay, StoredEntries
from holdfast.directory.resolving import DirectoryState
from holdfast.directory.store import Batch
from holdfast.directory.tree import Tree
from holdfast.model.ports import Token

PURGE_SLICE: Final = 64
"""How much of a purge is done before others have their turn: passing by so many entries, or purging
four of them, takes two or three milliseconds."""


class PurgeSlices:
    def __init__(
        self, state: DirectoryState, tree: Tree, entries: StoredEntries, overlay: Overlay, slice_entries: int
    ) -> None:
        self._state = state
        self._tree = tree
        self._entries = entries
        self._overlay = overlay
        self._slice = slice_entries
        self._purging: Purging | None = None
        self._tokens: tuple[Token, ...] = ()

    @property
    def is_under_way(self) -> bool:
        return self._purging is not None

    def begin(self, vector: Vector, token: Token, batch: Batch) -> None:
        """Begin another, which does all that one that is under way would have done."""
        self._purging = Purging(self._state, vector, self._entries.after)
        if token is not None:
            self._tokens += (token,)
        batch.put(REPLICA, PURGED, vector.text().encode())
        batch.put(REPLICA, PURGING, vector.text().encode())
        for key, _ in list(self._overlay.reader().rows(LEFT)):
            if EntryId(bytes(key)) not in self._state.left:
                batch.erase(LEFT, bytes(key))

    def go_on(self, batch: Batch) -> tuple[Token, ...]:
        """Do one slice; return who is to hear that the purge is done, if it is. What has changed of entries
        is to be written with *batch*."""
        purging = self._purging
        if purging is None:
            return ()
        for entry in purging.step(self._slice):
            self._tree.forget(entry)
        # Purging changes nothing that is shown, so what the tree touched needs no look.
        self._tree.take_touched()
        if not purging.is_done:
            return ()
        self._purging = None
        batch.erase(REPLICA, PURGING)
        tokens, self._tokens = self._tokens, ()
        return tokens
