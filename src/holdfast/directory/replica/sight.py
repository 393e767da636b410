"""What a master sees when it judges an operation: all that it has accepted so far, committed or not."""

from holdfast.directory.dn import Ava, Dn, rdn_key
from holdfast.directory.entry import EntryState
from holdfast.directory.primitives import ENTRY_ID_BYTES, ROOT, EntryId
from holdfast.directory.replica.shown import key_of
from holdfast.directory.replica.snapshot import Suffix
from holdfast.directory.resolving import DirectoryState
from holdfast.directory.results import DirectoryError, ResultCode
from holdfast.directory.schema.schema import Schema
from holdfast.directory.tree import Tree

ENTRY_UUID = "entryuuid"


class Sight:
    """The state, the tree and the schema of one master, with entries by name."""

    def __init__(self, state: DirectoryState, tree: Tree, schema: Schema, suffix: Suffix) -> None:
        self.state = state
        self.tree = tree
        self.schema = schema
        self.suffix = suffix

    def top(self) -> EntryId | None:
        return self.tree.holder(ROOT, self.suffix.rdn_key)

    def find(self, dn: Dn) -> EntryId:
        """The visible entry of a name. Raises ``DirectoryError`` with the part of it that exists."""
        if not self.suffix.covers(dn, self.schema):
            raise DirectoryError(ResultCode.NO_SUCH_OBJECT, f"this server holds {self.suffix.text} alone")
        found = self.top()
        if found is None:
            raise DirectoryError(ResultCode.NO_SUCH_OBJECT, "the suffix has no entry yet")
        for at in range(len(dn) - len(self.suffix.dn) - 1, -1, -1):
            below = self._child(found, dn.rdns[at])
            if below is None:
                raise DirectoryError(
                    ResultCode.NO_SUCH_OBJECT,
                    "there is no such entry",
                    matched_dn=str(Dn(dn.rdns[at + 1 :])),
                )
            found = below
        return found

    def live(self, dn: Dn) -> tuple[EntryId, EntryState]:
        """As :meth:`find`, for an entry that is to be changed: glue has no state to change."""
        entry = self.find(dn)
        state = self.state.entries.get(entry)
        if state is None or not state.is_live:
            raise DirectoryError(
                ResultCode.UNWILLING_TO_PERFORM,
                "the entry was removed, and is shown for what is below it: move or delete that instead",
            )
        return entry, state

    def name_holder(self, parent: EntryId, rdn: tuple[Ava, ...]) -> EntryId | None:
        return self._child(parent, rdn)

    def _child(self, parent: EntryId, rdn: tuple[Ava, ...]) -> EntryId | None:
        marked = [each for each in rdn if each.attribute.lower() == ENTRY_UUID]
        if not marked:
            return self.tree.holder(parent, rdn_key(rdn, self.schema))
        # An entry that lacks its name: it is shown with its id.
        try:
            entry = EntryId(bytes.fromhex(marked[0].value.decode().replace("-", "")))
        except ValueError:
            return None
        if len(entry) != ENTRY_ID_BYTES or not self.tree.is_visible(entry):
            return None
        place = self.tree.parent(entry)
        is_here = place == parent or (place == ROOT and parent == self.top())
        same = key_of(self.schema, self.tree.name(entry)) == rdn_key(rdn, self.schema)
        return entry if is_here and same else None
