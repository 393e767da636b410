"""A replica's state as a snapshot of its store has it, for whoever looks at files that others serve.

Entries are read when they are asked for, so that a large directory need not fit into memory decoded.
"""

from holdfast.clock.vector import Vector
from holdfast.directory.conflicts import Conflict, Disputes, conflicts
from holdfast.directory.entry import decoded_entry
from holdfast.directory.primitives import EntryId
from holdfast.directory.replica.maps import ENTRIES, LEFT, PURGED, REPLICA
from holdfast.directory.replica.overlay import Overlay, StoredEntries
from holdfast.directory.resolving import DirectoryState
from holdfast.directory.store import Batch, Reader
from holdfast.directory.tree import Tree
from holdfast.model.csn import parse
from holdfast.model.errors import InvalidRequest
from holdfast.model.ports import Token


class _OneMoment:
    """A store of which there is one snapshot, and which nobody writes to."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def read(self) -> Reader:
        return self._reader

    def write(self, batch: Batch, token: Token) -> None:
        raise InvalidRequest("a snapshot is not written to")


def stored_state(reader: Reader) -> tuple[DirectoryState, Tree, Disputes]:
    """The state, the tree that is derived from it, and which entries have conflicts within them."""
    state = DirectoryState(StoredEntries(Overlay(_OneMoment(reader))))
    purged = reader.get(REPLICA, PURGED)
    state.purged = None if purged is None else Vector.parse(purged.decode())
    for key, value in reader.rows(LEFT):
        state.left[EntryId(bytes(key))] = parse(bytes(value).decode())
    tree, disputes = Tree(), Disputes()
    for _, row in reader.rows(ENTRIES):
        entry = decoded_entry(bytes(row))
        tree.update(entry)
        disputes.update(entry)
    return state, tree, disputes


def stored_conflicts(reader: Reader) -> list[Conflict]:
    """All conflicts that nobody has resolved, as of the snapshot."""
    state, tree, disputes = stored_state(reader)
    return list(conflicts(state, tree, disputes))
