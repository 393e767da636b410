"""Many new entries at once: what LDIF has of them is made into rows of the store without operations between.

An entry gets the very state that a client's add of it would have given it, with a CSN of its own, and is
checked by the same rules. What is left out is what a single operation needs and a load does not: the
changelog (whoever replicates takes a full copy after a load, as after any new data), the tree in memory, and
a commit for each. Lines that are wrong raise ``InvalidLdif`` with their number.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from holdfast.directory.dn import Dn, Rdn, rdn_key
from holdfast.directory.interchange.entry_text import read_uuid
from holdfast.directory.ldif import EntryRecord, InvalidLdif
from holdfast.directory.matching import NotComparable
from holdfast.directory.normal_form import name_of
from holdfast.directory.primitives import ROOT, EntryId, Value
from holdfast.directory.replica.indexes import PIECE_BYTES, SUBSTRINGS, rows_of, type_name
from holdfast.directory.replica.judging import check_passwords, check_size
from holdfast.directory.replica.maps import (
    ENTRIES,
    EQUALITY,
    INDEX,
    NAMES,
    PIECES,
    SHOWN,
    index_prefix,
    index_value,
    name_row,
)
from holdfast.directory.replica.ready import ready
from holdfast.directory.replica.shown import Shown
from holdfast.directory.replica.snapshot import Suffix
from holdfast.directory.results import DirectoryError, ResultCode, quoted
from holdfast.directory.schema.checking import check_entry
from holdfast.directory.schema.schema import Schema
from holdfast.directory.store import Batch, Reader
from holdfast.model.csn import SUB_SEQUENCE_MAX, Csn

KNOWN_VALUES_MAX: Final = 50_000
"""How many values are kept with keys and index rows: classes and places are the same in most entries."""
KNOWN_BYTES_MAX: Final = 64
PARENTS_MAX: Final = 10_000
"""How many parents are kept by name."""
SHAPES_MAX: Final = 1_000
"""How many combinations of classes and attributes are kept as allowed."""

SERVER_S: Final = frozenset(
    (
        *("contextcsn", "createtimestamp", "entrycsn", "entrydn", "entryid", "hassubordinates"),
        *("lastmodifiedcsn", "modifytimestamp", "nsuniqueid", "numsubordinates", "parentid"),
        *("structuralobjectclass", "subschemasubentry", "conflict"),
    )
)
"""Attributes that servers put into their exports and every server sets for itself: they are left out."""

_NO_CSN: Final = (0, 0, 0, 0)
_NOTHING: Final = ((), _NO_CSN)
_EMPTY: Final = ((), _NOTHING)
"""What a slot looks like that nobody wrote to."""

_Csn = tuple[int, int, int, int]
_Slot = tuple[tuple[tuple[_Csn, object], ...], object]


class _Known(NamedTuple):
    """A value that was seen: its key, and under what it stands in the indexes."""

    key: bytes
    rows: tuple[bytes, ...]


class _Kind(NamedTuple):
    """What the schema says of an attribute description."""

    attribute: str
    spelling: str
    is_single: bool
    fault_in: Callable[[bytes], str | None]
    key: Callable[[bytes], bytes]
    is_left_out: bool
    searchable: Callable[[bytes], bytes] | None = None
    """The text in which pieces of a value are looked for, where they are."""
    equal: bytes = b""
    begins: bytes = b""
    """How rows of whole values and of pieces begin."""


_encoder: Final = msgspec.msgpack.Encoder()


class Loading:
    """Gathers the rows of new entries. Whoever commits them says so (:meth:`committed`)."""

    def __init__(
        self,
        schema: Schema,
        suffix: Suffix,
        reader: Reader,
        who: str,
        *,
        ignored: frozenset[str] = frozenset(),
    ) -> None:
        """*ignored* are names of attributes, in lower case, that are left out wherever they stand."""
        self._schema = schema
        self._suffix = suffix
        self._reader = reader
        self._who = who.encode()
        self._ignored = SERVER_S | ignored
        self._pending: dict[bytes, EntryId] = {}
        self._ids: dict[EntryId, None] = {}
        self._batch = Batch()
        self._kinds: dict[str, _Kind] = {}
        self._known: dict[tuple[str, bytes], _Known] = {}
        self._parents: dict[str, EntryId] = {}
        self._shapes: dict[object, None] = {}
        self.entries = 0
        """How many wait in the batch."""

    @property
    def size(self) -> int:
        return self._batch.bytes

    def take_batch(self) -> Batch:
        """What was gathered; :meth:`committed` must follow before more is added."""
        batch, self._batch, self.entries = self._batch, Batch(), 0
        return batch

    def committed(self, reader: Reader) -> None:
        """What was taken is in the store, and *reader* sees it."""
        self._reader = reader
        self._pending.clear()
        self._ids.clear()

    def add(self, record: EntryRecord, csn: Csn, new_id: EntryId) -> None:
        """Take one entry; it has *new_id* unless it has an entryUUID of its own."""
        try:
            self._add(record, csn, new_id)
        except DirectoryError as error:
            raise InvalidLdif(record.line, f"{quoted(record.dn)}: {error.diagnostic}") from error

    def _add(self, record: EntryRecord, csn: Csn, entry: EntryId) -> None:
        values: dict[str, list[bytes]] = {}
        kinds: dict[str, _Kind] = {}
        for each in record.attributes:
            kind = self._kinds.get(each.description) or self._kind(each.description)
            if kind.is_left_out:
                continue
            if kind.attribute == "entryuuid":
                entry = _id_of(each.values)
                continue
            if kind.attribute in values:
                raise _wrong(
                    ResultCode.ATTRIBUTE_OR_VALUE_EXISTS, f"the attribute {kind.spelling} is given twice"
                )
            values[kind.attribute] = list(each.values)
            kinds[kind.attribute] = kind
        parent, rdn = self._place(record.dn)
        key = rdn_key(rdn, self._schema)
        row = name_row(parent, key)
        if row in self._pending or self._reader.get(NAMES, row) is not None:
            raise _wrong(ResultCode.ENTRY_ALREADY_EXISTS, "an entry of that name is there already")
        if entry in self._ids or self._reader.get(ENTRIES, entry) is not None:
            raise _wrong(ResultCode.ENTRY_ALREADY_EXISTS, "an entry of that entryUUID is there already")
        self._write(csn, entry, parent, rdn, key, row, values, kinds)

    def _write(
        self,
        csn: Csn,
        entry: EntryId,
        parent: EntryId,
        rdn: Rdn,
        key: bytes,
        row: bytes,
        values: dict[str, list[bytes]],
        kinds: dict[str, _Kind],
    ) -> None:
        schema = self._schema
        t, s, r, part = csn.timestamp, csn.sequence, csn.replica, 0
        name = name_of(schema, rdn)
        slots: dict[str, dict[bytes, _Slot]] = {}
        rows: dict[bytes, None] = {}
        named: dict[tuple[str, bytes], bytes] = {}
        spoken: dict[tuple[str, bytes], bytes] = {}
        for ava in rdn:
            part += 1
            kind = self._kinds.get(ava.attribute) or self._kind(ava.attribute)
            kinds.setdefault(kind.attribute, kind)
            given = values.setdefault(kind.attribute, [])
            # RFC 4511, 4.7: what the name says may be left out.
            known = self._value(kind, ava.value)
            if ava.value not in given and all(self._value(kind, one).key != known.key for one in given):
                given.append(ava.value)
            named[kind.attribute, known.key] = ava.value
            slot = b"" if kind.is_single else b"=" + known.key
            wish = (((t, s, r, part), ((known.key, ava.value), True)),)
            slots.setdefault(kind.attribute, {})[slot] = (wish, _NOTHING)
            spoken[kind.attribute, slot] = ava.value
        self._check(values, kinds, rdn)
        values.setdefault("creatorsname", [self._who])
        values.setdefault("modifiersname", [self._who])
        for attribute, contents in values.items():
            kind = kinds.get(attribute) or self._kinds.get(attribute) or self._kind(attribute)
            below = slots.setdefault(attribute, {})
            written: dict[bytes, None] = {}
            for content in contents:
                known = self._value(kind, content)
                if known.key in written:
                    raise _wrong(
                        ResultCode.ATTRIBUTE_OR_VALUE_EXISTS,
                        f"the value {quoted(content)} of {kind.spelling} is there twice",
                    )
                written[known.key] = None
                rows.update(dict.fromkeys(known.rows))
                if named.get((attribute, known.key)) == content:
                    continue
                part += 1
                slot = b"" if kind.is_single else b"=" + known.key
                spoken[attribute, slot] = content
                below[slot] = ((((t, s, r, part), ((known.key, content), True)),), _NOTHING)
        if part > SUB_SEQUENCE_MAX:
            raise _wrong(
                ResultCode.ADMIN_LIMIT_EXCEEDED, f"an entry is added with at most {SUB_SEQUENCE_MAX} values"
            )
        first = (t, s, r, 0)
        state = (
            entry,
            first,
            (t, s, r, part),
            (((first, name),), _NOTHING),
            (((first, (parent, None)),), _NOTHING),
            None,
            {each: (_EMPTY, dict(sorted(slots[each].items()))) for each in sorted(slots)},
        )
        data = _encoder.encode(state)
        self._batch.put(ENTRIES, entry, data)
        ordered = {each: sorted(below.items()) for each, below in slots.items()}
        contents_of = {each: [spoken[each, key] for key, _ in found] for each, found in ordered.items()}
        shown = ready(schema, Shown(parent, name.text, key), contents_of, len(data))
        self._batch.put(SHOWN, entry, _encoder.encode(shown))
        self._batch.put(NAMES, row, entry)
        self._batch.put_keys(INDEX, [each + entry for each in rows])
        self._pending[row] = entry
        self._ids[entry] = None
        self.entries += 1

    def _check(self, values: dict[str, list[bytes]], kinds: dict[str, _Kind], rdn: Rdn) -> None:
        """As an add is checked. Whether classes and attributes fit together is the same for all entries of
        one shape."""
        shape = (
            tuple(values.get("objectclass", ())),
            *values,
            *(each.attribute for each in rdn),
        )
        spelled = {kinds[each].spelling: contents for each, contents in values.items()}
        check_size(spelled)
        check_passwords(values.get("userpassword", []))
        if shape not in self._shapes:
            user = {name: each for name, each in spelled.items() if name not in _OWN}
            check_entry(self._schema, user, rdn=rdn)
            if len(self._shapes) >= SHAPES_MAX:
                self._shapes.clear()
            self._shapes[shape] = None
            return
        for attribute, contents in values.items():
            kind = kinds[attribute]
            if not contents or (kind.is_single and len(contents) > 1):
                raise _wrong(
                    ResultCode.CONSTRAINT_VIOLATION,
                    f"the attribute {kind.spelling} has one value, and {len(contents)} are given",
                )

    def _value(self, kind: _Kind, content: bytes) -> _Known:
        known = self._known.get((kind.attribute, content))
        if known is None:
            fault = kind.fault_in(content)
            if fault is not None:
                raise _wrong(
                    ResultCode.INVALID_ATTRIBUTE_SYNTAX,
                    f"{quoted(content)} is no value of {kind.spelling}: {fault}",
                )
            key = kind.key(content)
            known = _Known(key, self._rows(kind, key, content))
            if len(content) <= KNOWN_BYTES_MAX:
                if len(self._known) >= KNOWN_VALUES_MAX:
                    self._known.clear()
                self._known[kind.attribute, content] = known
        return known

    def _rows(self, kind: _Kind, key: bytes, content: bytes) -> tuple[bytes, ...]:
        """Under what a value stands in the indexes, as :func:`rows_of` says it; most values are plain text,
        for which this is quicker."""
        if kind.searchable is None or len(content) > KNOWN_BYTES_MAX or not content.isascii():
            return tuple(rows_of(self._schema, kind.attribute, Value(key, content)))
        try:
            text = kind.searchable(content)
        except NotComparable:
            return (kind.equal + index_value(key),)
        found = {kind.begins + text[at : at + PIECE_BYTES]: None for at in range(len(text) - PIECE_BYTES + 1)}
        return (kind.equal + index_value(key), *found)

    def _kind(self, description: str) -> _Kind:
        schema = self._schema
        word = description.lower()
        if word.partition(";")[0] in self._ignored:
            kind = _Kind(word, description, False, lambda value: None, bytes, True)
        else:
            described = schema.describe(description)
            made = described.type
            kind = _Kind(
                described.name.lower(),
                described.name,
                made.is_single_valued,
                made.syntax.fault_in,
                lambda value: made.key(value, schema),
                False,
            )
            word, pieces = type_name(made), made.substrings
            if word in SUBSTRINGS and pieces is not None and made.equality is not None:
                kind = kind._replace(
                    searchable=lambda value: pieces.key(value, schema),
                    equal=index_prefix(word, EQUALITY),
                    begins=index_prefix(word, PIECES),
                )
            if made.is_read_only and kind.attribute not in ("entryuuid", "creatorsname", "modifiersname"):
                raise _wrong(
                    ResultCode.CONSTRAINT_VIOLATION,
                    f"the attribute {kind.spelling} is set by the server alone",
                )
        self._kinds[description] = kind
        return kind

    # --- names

    def _place(self, text: str) -> tuple[EntryId, Rdn]:
        """Below which entry a name is, and the rest of it."""
        dn = Dn.parse(text)
        if len(dn) == len(self._suffix.dn) and self._suffix.covers(dn, self._schema):
            return ROOT, dn.rdn
        for ava in dn.rdn:
            if self._schema.describe(ava.attribute).type.is_operational:
                raise _wrong(
                    ResultCode.NAMING_VIOLATION,
                    f"an entry cannot be named by {ava.attribute}: the server sets it (resolve conflicts "
                    "before entries are taken elsewhere)",
                )
        above = Dn(dn.rdns[1:])
        _, _, word = text.partition(",")
        found = self._parents.get(word) if "\\" not in text and '"' not in text else None
        if found is None:
            found = self._find(above)
            if len(self._parents) >= PARENTS_MAX:
                self._parents.clear()
            if "\\" not in text and '"' not in text:
                self._parents[word] = found
        return found, dn.rdn

    def _find(self, dn: Dn) -> EntryId:
        schema, suffix = self._schema, self._suffix
        if not suffix.covers(dn, schema):
            raise _wrong(ResultCode.NO_SUCH_OBJECT, f"it is not below {suffix.text}")
        found = ROOT
        keys = [rdn_key(each, schema) for each in dn.rdns[: len(dn) - len(suffix.dn)]]
        for key in (suffix.rdn_key, *reversed(keys)):
            row = name_row(found, key)
            below = self._pending.get(row) or self._reader.get(NAMES, row)
            if below is None:
                raise _wrong(
                    ResultCode.NO_SUCH_OBJECT,
                    "the entry above it is not there: parents stand before children",
                )
            found = EntryId(bytes(below))
        return found


_OWN: Final = ("creatorsName", "modifiersName")


def _id_of(values: tuple[bytes, ...]) -> EntryId:
    try:
        (text,) = values
        return read_uuid(text.decode())
    except ValueError as error:
        raise _wrong(
            ResultCode.INVALID_ATTRIBUTE_SYNTAX, "entryUUID has one value, such as 8c5a0a3e-..."
        ) from error


def _wrong(result: ResultCode, text: str) -> DirectoryError:
    return DirectoryError(result, text)
