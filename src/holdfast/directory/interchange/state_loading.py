"""A replica made of an export with state: every entry as it was, and what follows from all of them together.

Entries come in any order, so what is shown of them is worked out when all are there. A wrong line raises
``InvalidLdif`` with its number.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import msgspec

from holdfast.directory.dn import Dn
from holdfast.directory.entry import decoded_entry, encoded_entry
from holdfast.directory.interchange.entry_text import NewId, has_state, str2entry
from holdfast.directory.interchange.replica_text import ReplicaText
from holdfast.directory.ldif import EntryRecord, InvalidLdif, Record
from holdfast.directory.primitives import ROOT, EntryId
from holdfast.directory.replica.indexes import write_difference
from holdfast.directory.replica.maps import (
    ENTRIES,
    LEFT,
    NAMES,
    PURGED,
    REPLICA,
    SHOWN,
    TRIMMED,
    VECTOR,
    name_row,
)
from holdfast.directory.replica.ready import ready
from holdfast.directory.replica.shown import encoded_shown, shown_now
from holdfast.directory.replica.snapshot import Suffix
from holdfast.directory.replica.view import visible_values
from holdfast.directory.results import DirectoryError, ResultCode, quoted
from holdfast.directory.schema.schema import Schema
from holdfast.directory.store import Batch, Reader
from holdfast.directory.tree import Tree
from holdfast.model.csn import Csn

BATCH_ROWS: Final = 20_000
"""How many rows one transaction writes, about."""


class StateLoading:
    """Gathers the rows of one export. First all :meth:`add`, then :meth:`derived`."""

    def __init__(self, schema: Schema, suffix: Suffix, head: ReplicaText, new_id: NewId) -> None:
        self._schema = schema
        self._suffix = suffix
        self._head = head
        self._new_id = new_id
        self._tree = Tree()
        self._batch = Batch()
        self._names: dict[bytes, EntryId] = {}
        self._ids: dict[EntryId, None] = {}
        self.newest: Csn | None = head.vector.newest()

    @property
    def entries(self) -> int:
        return len(self._ids)

    @property
    def is_full(self) -> bool:
        return len(self._batch.changes) >= BATCH_ROWS or self._batch.bytes >= 16 << 20

    def take_batch(self) -> Batch:
        batch, self._batch = self._batch, Batch()
        return batch

    def add(self, record: Record) -> None:
        if not isinstance(record, EntryRecord) or not has_state(record):
            raise InvalidLdif(record.line, "an export with state has entries with a dncsn, and nothing else")
        entry = str2entry(record, self._schema, new_id=self._new_id, parent_of=self._parent_of)
        if entry.id in self._ids:
            raise InvalidLdif(record.line, f"the entryUUID of {quoted(record.dn)} is there twice")
        if not self._head.vector.covers(entry.modified):
            raise InvalidLdif(
                record.line,
                f"{quoted(record.dn)} has the change {entry.modified}, which the vector of the export lacks",
            )
        row = encoded_entry(entry)
        try:
            decoded_entry(row)  # every length and count is looked at
        except msgspec.MsgspecError as error:
            raise InvalidLdif(record.line, f"{quoted(record.dn)}: {error}") from error
        self._ids[entry.id] = None
        with suppress(DirectoryError):  # a name that another schema alone can read has nobody below it here
            self._names[Dn.parse(record.dn).key(self._schema)] = entry.id
        self._tree.update(entry)
        self._batch.put(ENTRIES, entry.id, row)

    def _parent_of(self, dn: Dn) -> EntryId:
        if len(dn) <= len(self._suffix.dn):
            return ROOT
        found = self._names.get(Dn(dn.rdns[1:]).key(self._schema))
        if found is None:
            raise DirectoryError(
                ResultCode.NO_SUCH_OBJECT, "the entry above it is not there: parents stand before children"
            )
        return found

    def derived(self, reader: Reader) -> Iterator[Batch]:
        """The rows that follow from the entries, which *reader* sees; the last batch has the vectors."""
        tree, schema = self._tree, self._schema
        for entry in tree.visible():
            now = shown_now(tree, schema, entry)
            if now is None:
                continue
            row = reader.get(ENTRIES, entry)
            state = None if row is None else decoded_entry(row)
            values = visible_values(state, now.oddity)
            contents = {name: [each.content for each in found] for name, found in values.items()}
            size = 0 if state is None else state.bytes_most()
            self._batch.put(SHOWN, entry, encoded_shown(ready(schema, now, contents, size)))
            self._batch.put(NAMES, name_row(now.parent, now.key), entry)
            write_difference(schema, entry, {}, values, self._batch)
            if self.is_full:
                yield self.take_batch()
        head, batch = self._head, self.take_batch()
        for parent, csn in sorted(head.left.items()):
            batch.put(LEFT, parent, csn.text().encode())
        if head.purged is not None:
            batch.put(REPLICA, PURGED, head.purged.text().encode())
        # There is no changelog: whoever lacks any of these changes takes a full copy.
        batch.put(REPLICA, TRIMMED, head.vector.text().encode())
        batch.put(REPLICA, VECTOR, head.vector.text().encode())
        yield batch
