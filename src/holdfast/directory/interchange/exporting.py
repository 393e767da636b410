"""A snapshot as LDIF, piece by piece: entries as clients see them, or all state that the replica has.

Without state an export has what ``ldapadd`` or another server can take in: visible entries, parents first,
with their attributes and, if asked for, operational ones. With state (:mod:`.entry_text`) it has every entry
that the replica knows, tombstones included, and the record that says which changes that is; a replica made of
it is equal to the byte. An entry that lacks its name to another is written as it is shown, and counted.
"""

from collections.abc import Callable, Iterator
from typing import Final

from holdfast.clock.vector import Vector
from holdfast.directory.entry import EntryState, decoded_entry
from holdfast.directory.interchange.entry_text import entry2str
from holdfast.directory.interchange.replica_text import ReplicaText, replica2str
from holdfast.directory.ldif import VERSION, write_entry
from holdfast.directory.operations import Attribute
from holdfast.directory.primitives import EntryId, uuid_text
from holdfast.directory.replica.changelog import vector_in
from holdfast.directory.replica.maps import ENTRIES, LEFT, PURGED, REPLICA
from holdfast.directory.replica.shown import Oddity
from holdfast.directory.replica.snapshot import Snapshot
from holdfast.directory.replica.view import EntryView
from holdfast.directory.store import Reader
from holdfast.model.csn import parse
from holdfast.model.errors import InvalidRequest

RULES: Final = ("administrator", "anonymousRead")
"""Operational attributes that people set: without them an export would give other access than before."""
BOOKKEEPING: Final = ("conflict", "entryDN", "hasSubordinates", "numSubordinates", "subschemaSubentry")
"""Operational attributes that say nothing about an entry in another directory."""

CHUNK_BYTES: Final = 256 * 1024
"""How much text is given out at a time."""

Progress = Callable[[int], None]


class Exporting:
    """Writes the entries of one snapshot. ``odd`` counts those that other entries make look otherwise than
    they were meant: they cannot be taken in elsewhere as they are."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self.entries = 0
        self.odd = 0

    def plain(self, base: EntryId | None, *, is_operational: bool = False) -> Iterator[bytes]:
        """Visible entries below *base*, parents first, in pieces of text."""
        snapshot = self._snapshot
        start = snapshot.top() if base is None else base

        def records() -> Iterator[bytes]:
            for each in () if start is None else snapshot.subtree(start):
                view = snapshot.view(each)
                if view is None:
                    continue
                self.odd += view.oddity != Oddity.NONE
                yield write_entry(view.dn, self._attributes(view, is_operational))

        return self._pieces(VERSION + b"\n", records())

    def _attributes(self, view: EntryView, is_operational: bool) -> Iterator[Attribute]:
        # Other servers expect the classes first.
        names = sorted(view.attributes, key=lambda name: (name != "objectClass", name))
        yield from (Attribute(name, view.attributes[name]) for name in names)
        for name, values in sorted(view.operational().items()):
            if name in RULES or (is_operational and name not in BOOKKEEPING):
                yield Attribute(name, values)

    def with_state(self) -> Iterator[bytes]:
        """All that the replica knows, by entryUUID, in pieces of text."""
        snapshot = self._snapshot
        reader, schema = snapshot.reader, snapshot.schema

        def records() -> Iterator[bytes]:
            for key, row in reader.rows(ENTRIES):
                entry = decoded_entry(bytes(row))
                yield entry2str(entry, self._dn(EntryId(bytes(key)), entry), schema)

        return self._pieces(
            VERSION + b"\n" + replica2str(replica_of(reader, snapshot.suffix.text)), records()
        )

    def _dn(self, entry: EntryId, state: EntryState) -> str:
        """The entry's name where it is visible; a tombstone is told by its id and its last name."""
        shown = self._snapshot.shown(entry)
        if shown is not None:
            self.odd += shown.oddity != Oddity.NONE
            return self._snapshot.dn(entry)[0]
        name = "" if state.name.winner is None else f"+{state.name.winner.wish.text}"
        return f"entryUUID={uuid_text(entry)}{name},{self._snapshot.suffix.text}"

    def _pieces(self, head: bytes, records: Iterator[bytes]) -> Iterator[bytes]:
        gathered, size = [head], len(head)
        for each in records:
            gathered.append(each)
            size += len(each)
            self.entries += 1
            if size >= CHUNK_BYTES:
                yield b"".join(gathered)
                gathered, size = [], 0
        yield b"".join(gathered)


def replica_of(reader: Reader, suffix: str) -> ReplicaText:
    """What a snapshot knows that belongs to no entry."""
    vector = vector_in(reader)
    if vector is None:
        raise InvalidRequest("the store holds no replica yet")
    purged = reader.get(REPLICA, PURGED)
    return ReplicaText(
        suffix=suffix,
        vector=vector,
        purged=None if purged is None else Vector.parse(purged.decode()),
        left={EntryId(bytes(key)): parse(bytes(value).decode()) for key, value in reader.rows(LEFT)},
    )
