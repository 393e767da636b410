"""What a master sees when it judges an operation: all that it has accepted so far, committed or not."""

from typing import Final

from holdfast.directory.attribute import slot_key
from holdfast.directory.dn import Ava, Dn, rdn_key
from holdfast.directory.entry import EntryState
from holdfast.directory.normal_form import value_of
from holdfast.directory.primitives import ENTRY_ID_BYTES, ROOT, EntryId, Value
from holdfast.directory.replica.shown import key_of
from holdfast.directory.replica.snapshot import Suffix
from holdfast.directory.replica.view import REFERRAL
from holdfast.directory.resolving import DirectoryState
from holdfast.directory.results import DirectoryError, ResultCode
from holdfast.directory.schema.schema import Schema
from holdfast.directory.tree import Tree

ENTRY_UUID = "entryuuid"
FOUND_MAX: Final = 10_000
"""How many names are kept with their entries: those of a busy hour's changes."""
STAMPS_MAX: Final = 1_000


class Sight:
    """The state, the tree and the schema of one master, with entries by name."""

    def __init__(self, state: DirectoryState, tree: Tree, schema: Schema, suffix: Suffix) -> None:
        self.state = state
        self.tree = tree
        self.schema = schema
        self.suffix = suffix
        self._found: dict[Dn, EntryId] = {}
        """Entries by name, as the tree of that version has them."""
        self._version = tree.version
        self._stamps: dict[tuple[str, str], Value] = {}
        self._referral = slot_key(value_of(schema, "objectClass", REFERRAL), is_single=False)

    def stamp(self, attribute: str, who: str) -> Value:
        """Who changed something, as the value of an attribute; a few clients make nearly all changes."""
        known = self._stamps.get((attribute, who))
        if known is None:
            if len(self._stamps) >= STAMPS_MAX:
                self._stamps.clear()
            known = self._stamps[attribute, who] = value_of(self.schema, attribute, who.encode())
        return known

    def top(self) -> EntryId | None:
        return self.tree.holder(ROOT, self.suffix.rdn_key)

    def find(self, dn: Dn) -> EntryId:
        """The visible entry of a name. Raises ``DirectoryError`` with the part of it that exists."""
        if self._version != self.tree.version or len(self._found) >= FOUND_MAX:
            self._version = self.tree.version
            self._found.clear()
        known = self._found.get(dn)
        if known is None:
            known = self._found[dn] = self._find(dn)
        return known

    def _find(self, dn: Dn) -> EntryId:
        if not self.suffix.covers(dn, self.schema):
            raise DirectoryError(ResultCode.NO_SUCH_OBJECT, "the name is below no suffix that is here")
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

    def may_refer(self, dn: Dn) -> bool:
        """Whether the entry of a name may be a referral; its view tells for sure, and takes long to make."""
        state = self.state.entries.get(self.find(dn))
        classes = None if state is None else state.attributes.get("objectclass")
        return classes is not None and self._referral in classes.values

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
