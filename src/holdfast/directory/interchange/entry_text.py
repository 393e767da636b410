"""One entry as text, with all that is known of it: the source's ``entry2str`` and ``str2entry``.

The source's own forms come first, in its order::

    dn: uid=ada,ou=people,dc=example,dc=com
    dncsn: 069abc00100000001                              when the entry was added
    lastModifiedCSN: 069abc00100000001000c                its youngest change
    telephoneNumber;vucsn-069abc001000000010003: 555-1212     a value, and the change that added it
    telephoneNumber;vdcsn-069abc002000000010000: 555-1213     a value that was removed
    deletedAttribute: description,adcsn-069abc00200000001     an attribute that was removed

What those cannot hold stands in further attributes::

    entryUUID: 8c5a...                                    the id, which no rename changes
    rdnCSN: 069abc00100000001 uid=ada                     a name, and the change that gave it
    parentCSN: 069abc00100000001 PARENT [BEFORE]          ids: where it is, and where it was seen before
    deletedCSN: 069abc00300000001                         the entry is removed: a tombstone
    supersededCSN: WHAT CSN... [<=CSN]                    changes that others replaced (see below)

A name, parent or value that several masters wrote at once has several lines. ``supersededCSN`` says what the
writers of something had seen: WHAT is ``/name``, ``/place``, ``/entry`` (its removal), ``attribute`` (its
removal), ``attribute!`` (the one value of a single-valued attribute) or ``attribute=KEY`` (one value; its key
in base64), and after ``<=`` stands the horizon below which everything was seen.

Values are compared by keys (decision 40), which a reader makes anew by its schema. Where that would give
another key than the entry has, because it was written under another schema, an option says it: ``vkey-`` with
the key in hexadecimal, ``vsingle`` or ``vmulti``; a name is then written as ``rdnCSN;exact``, in msgpack.
"""

import binascii
import re
from collections.abc import Callable, Iterator
from typing import Final

import msgspec
from msgspec import Struct

from holdfast.directory.attribute import SINGLE, AttributeState, ValueWish
from holdfast.directory.dn import Dn, parse_rdn
from holdfast.directory.entry import EntryState, Place, Removal
from holdfast.directory.ldif import EntryRecord, InvalidLdif, write_line
from holdfast.directory.normal_form import name_of
from holdfast.directory.primitives import EntryId, Name, Value, uuid_text
from holdfast.directory.results import DirectoryError, quoted
from holdfast.directory.schema.schema import Schema
from holdfast.directory.seen import NOTHING, Seen
from holdfast.directory.slot import Slot, Write
from holdfast.model.csn import ZERO, Csn, CsnSyntax, parse

UPDATED: Final = "vucsn-"
DELETED: Final = "vdcsn-"
_KEY: Final = "vkey-"
_SINGLE: Final = "vsingle"
_MULTI: Final = "vmulti"
_ATTRIBUTE_DELETED: Final = ",adcsn-"
_HORIZON: Final = "<="
NAME_SLOT: Final = "/name"
PLACE_SLOT: Final = "/place"
ENTRY_SLOT: Final = "/entry"

ADDED: Final = "dncsn"
LINES: Final = (
    ADDED,
    "lastmodifiedcsn",
    "deletedattribute",
    "entryuuid",
    "rdncsn",
    "rdncsn;exact",
    "parentcsn",
    "deletedcsn",
    "supersededcsn",
)
"""The attributes of the form, which are none of the entry's own."""

_UUID: Final = re.compile("[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")

ParentOf = Callable[[Dn], EntryId]
NewId = Callable[[], EntryId]


class _ExactName(Struct, frozen=True, array_like=True):
    csn: Csn
    name: Name


_encoder: Final = msgspec.msgpack.Encoder()
_name_decoder: Final = msgspec.msgpack.Decoder(_ExactName)


# --- writing


def entry2str(entry: EntryState, dn: str, schema: Schema) -> bytes:
    """The entry's record, with the empty line after it."""
    return b"".join(write_line(name, value) for name, value in _lines(entry, dn, schema)) + b"\n"


def _lines(entry: EntryState, dn: str, schema: Schema) -> Iterator[tuple[str, bytes]]:
    yield "dn", dn.encode()
    yield "dncsn", entry.added.text().encode()
    yield "lastModifiedCSN", entry.modified.text().encode()
    for attribute in sorted(entry.attributes):
        state = entry.attributes[attribute]
        for key in sorted(state.values):
            for head in state.values[key].heads:
                yield _value_name(attribute, key, head, schema), head.wish.value.content
    for attribute in sorted(entry.attributes):
        for removed in entry.attributes[attribute].removal.heads:
            yield "deletedAttribute", f"{attribute}{_ATTRIBUTE_DELETED}{removed.csn}".encode()
    yield "entryUUID", uuid_text(entry.id).encode()
    for named in entry.name.heads:
        if _derived_name(named.wish.text, schema) == named.wish:
            yield "rdnCSN", f"{named.csn} {named.wish.text}".encode()
        else:
            yield "rdnCSN;exact", _encoder.encode(_ExactName(named.csn, named.wish))
    for placed in entry.place.heads:
        before = "" if placed.wish.before is None else f" {uuid_text(placed.wish.before)}"
        yield "parentCSN", f"{placed.csn} {uuid_text(placed.wish.parent)}{before}".encode()
    if entry.removal is not None:
        yield "deletedCSN", entry.removal.csn.text().encode()
    for what, seen in _superseded(entry):
        if seen != NOTHING:
            yield "supersededCSN", f"{what} {seen_text(seen)}".encode()


def _value_name(attribute: str, key: bytes, head: Write[ValueWish], schema: Schema) -> str:
    value, is_single = head.wish.value, key == SINGLE
    described = schema.find(attribute)
    name = attribute if described is None else described.name
    name += f";{UPDATED if head.wish.is_present else DELETED}{head.csn}"
    derived, single = _derived(attribute, value.content, schema)
    if derived != value.key:
        name += f";{_KEY}{value.key.hex()}"
    if single is not is_single:
        name += f";{_SINGLE if is_single else _MULTI}"
    return name


def _superseded(entry: EntryState) -> Iterator[tuple[str, Seen]]:
    yield NAME_SLOT, entry.name.known
    yield PLACE_SLOT, entry.place.known
    if entry.removal is not None:
        yield ENTRY_SLOT, entry.removal.seen
    for attribute in sorted(entry.attributes):
        state = entry.attributes[attribute]
        yield attribute, state.removal.known
        for key in sorted(state.values):
            yield _slot_word(attribute, key), state.values[key].known


def _derived(attribute: str, content: bytes, schema: Schema) -> tuple[bytes | None, bool]:
    """Which key the schema gives a value, and whether the attribute has one value at most."""
    described = schema.find(attribute)
    if described is None:
        return None, False
    return described.type.key(content, schema), described.type.is_single_valued


def _derived_name(text: str, schema: Schema) -> Name | None:
    try:
        return name_of(schema, parse_rdn(text))
    except DirectoryError:
        return None


# --- reading


def has_state(record: EntryRecord) -> bool:
    """Whether a record is in this form."""
    return any(each.description.lower() == ADDED for each in record.attributes)


def str2entry(
    record: EntryRecord, schema: Schema, *, new_id: NewId | None = None, parent_of: ParentOf | None = None
) -> EntryState:
    """The entry of a record. One that has the source's lines alone, without id or place, gets these from
    *new_id* and *parent_of*; values without a CSN are as old as the entry.

    Raises ``InvalidLdif`` with the number of the record's line.
    """
    try:
        return _Reading(record, schema).entry(new_id, parent_of)
    except (CsnSyntax, DirectoryError, ValueError, msgspec.MsgspecError) as error:
        if isinstance(error, InvalidLdif):
            raise
        raise InvalidLdif(record.line, f"the entry {quoted(record.dn)}: {error}") from error


class _Reading:
    """Gathers the lines of one record."""

    def __init__(self, record: EntryRecord, schema: Schema) -> None:
        self._record = record
        self._schema = schema
        self._own: dict[str, list[str]] = {}
        self._exact: list[bytes] = []
        self._values: dict[str, dict[bytes, list[Write[ValueWish]]]] = {}
        self._seen: dict[str, Seen] = {}
        for each in record.attributes:
            word = each.description.lower()
            if word == "rdncsn;exact":
                self._exact += each.values
            elif word in LINES:
                self._own.setdefault(word, []).extend(value.decode() for value in each.values)
        self._added = self._one_csn(ADDED) or ZERO

    def entry(self, new_id: NewId | None, parent_of: ParentOf | None) -> EntryState:
        for each in self._record.attributes:
            if each.description.lower() not in LINES:
                self._take(each.description, each.values)
        for text in self._own.get("supersededcsn", ()):
            what, *words = text.split(" ")
            self._seen[what] = read_seen(words)
        identity = self._id(new_id)
        removed = self._one_csn("deletedcsn")
        removal = None if removed is None else Removal(removed, self._take_seen(ENTRY_SLOT))
        entry = EntryState(
            id=identity,
            added=self._added,
            modified=self._one_csn("lastmodifiedcsn") or ZERO,
            name=Slot(self._names(), self._take_seen(NAME_SLOT)),
            place=Slot(self._places(parent_of), self._take_seen(PLACE_SLOT)),
            removal=removal,
            attributes=self._attributes(),
        )
        if self._seen:
            raise self._wrong(f"supersededCSN is about {quoted(next(iter(self._seen)))}, which is not here")
        if entry.modified == ZERO:
            csns = [head.csn for _, _, head in entry.heads()]
            entry = msgspec.structs.replace(entry, modified=max(self._added, *csns, removed or ZERO))
        return entry

    def _wrong(self, problem: str) -> InvalidLdif:
        return InvalidLdif(self._record.line, f"the entry {quoted(self._record.dn)}: {problem}")

    def _one_csn(self, word: str) -> Csn | None:
        values = self._own.get(word, [])
        if len(values) > 1:
            raise self._wrong(f"{word} is there {len(values)} times")
        return parse(values[0]) if values else None

    def _id(self, new_id: NewId | None) -> EntryId:
        values = self._own.get("entryuuid", [])
        if len(values) == 1:
            return read_uuid(values[0])
        if values or new_id is None:
            raise self._wrong(f"one entryUUID is expected, not {len(values)}")
        return new_id()

    def _names(self) -> tuple[Write[Name], ...]:
        heads = []
        for data in self._exact:
            exact = _name_decoder.decode(data)
            heads.append(Write(exact.csn, exact.name))
        for text in self._own.get("rdncsn", ()):
            csn, _, rdn = text.partition(" ")
            heads.append(Write(parse(csn), name_of(self._schema, parse_rdn(rdn))))
        if not heads and self._added != ZERO:
            heads.append(Write(self._added, name_of(self._schema, Dn.parse(self._record.dn).rdn)))
        return tuple(sorted(heads, key=_csn))

    def _places(self, parent_of: ParentOf | None) -> tuple[Write[Place], ...]:
        heads = []
        for text in self._own.get("parentcsn", ()):
            csn, *ids = text.split(" ")
            if not 0 < len(ids) < 3:
                raise self._wrong("parentCSN has a CSN, the entryUUID of the parent, and of the one before")
            place = Place(read_uuid(ids[0]), read_uuid(ids[1]) if len(ids) == 2 else None)
            heads.append(Write(parse(csn), place))
        if not heads and self._added != ZERO:
            if parent_of is None:
                raise self._wrong("parentCSN is expected")
            heads.append(Write(self._added, Place(parent_of(Dn.parse(self._record.dn)))))
        return tuple(sorted(heads, key=_csn))

    def _take(self, description: str, contents: tuple[bytes, ...]) -> None:
        name, *options = description.split(";")
        csn, is_present, key, is_single = self._added, True, None, None
        kept = []
        for option in options:
            lower = option.lower()
            if lower.startswith((UPDATED, DELETED)):
                csn, is_present = parse(lower[len(UPDATED) :]), lower.startswith(UPDATED)
            elif lower.startswith(_KEY):
                key = bytes.fromhex(lower[len(_KEY) :])
            elif lower in (_SINGLE, _MULTI):
                is_single = lower == _SINGLE
            else:
                kept.append(option)
        if csn == ZERO:
            raise self._wrong(f"a value of {quoted(description)} has no CSN, and the entry has no dncsn")
        plain = ";".join([name, *kept])
        described = self._schema.find(plain)
        attribute = plain.lower() if described is None else described.name.lower()
        slots = self._values.setdefault(attribute, {})
        for content in contents:
            derived, single = _derived(attribute, content, self._schema)
            found = derived if key is None else key
            if found is None:
                raise self._wrong(f"there is no attribute {quoted(plain)} in the schema, and no key is given")
            value = Value(found, content)
            slot = SINGLE if (single if is_single is None else is_single) else b"=" + found
            slots.setdefault(slot, []).append(Write(csn, ValueWish(value, is_present)))

    def _attributes(self) -> dict[str, AttributeState]:
        removals: dict[str, list[Write[None]]] = {}
        for text in self._own.get("deletedattribute", ()):
            attribute, sign, csn = text.rpartition(_ATTRIBUTE_DELETED)
            if not sign:
                raise self._wrong(f"deletedAttribute looks like attribute,adcsn-CSN, not {quoted(text)}")
            removals.setdefault(attribute.lower(), []).append(Write(parse(csn), None))
        for what in list(self._seen):
            if what not in (NAME_SLOT, PLACE_SLOT, ENTRY_SLOT):
                attribute, key = _slot_named(what)
                slots = self._values.setdefault(attribute, {})
                if key is not None:
                    slots.setdefault(key, [])
        attributes = {}
        for attribute in sorted({**self._values, **removals}):
            values = {
                key: Slot(tuple(sorted(heads, key=_csn)), self._take_seen(_slot_word(attribute, key)))
                for key, heads in sorted(self._values.get(attribute, {}).items())
            }
            gone = tuple(sorted(removals.get(attribute, ()), key=_csn))
            attributes[attribute] = AttributeState(Slot(gone, self._take_seen(attribute)), values)
        return attributes

    def _take_seen(self, what: str) -> Seen:
        return self._seen.pop(what, NOTHING)


def _csn(write: Write[Name] | Write[Place] | Write[ValueWish] | Write[None]) -> Csn:
    return write.csn


def _slot_word(attribute: str, key: bytes) -> str:
    if key == SINGLE:
        return f"{attribute}!"
    return f"{attribute}={binascii.b2a_base64(key[1:], newline=False).decode()}"


def _slot_named(what: str) -> tuple[str, bytes | None]:
    if what.endswith("!"):
        return what[:-1], SINGLE
    attribute, sign, key = what.partition("=")
    return attribute, b"=" + binascii.a2b_base64(key, strict_mode=True) if sign else None


def seen_text(seen: Seen) -> str:
    """What someone had seen, in one line: CSNs, and after a sign the horizon."""
    horizon = [] if seen.horizon == ZERO else [f"{_HORIZON}{seen.horizon}"]
    return " ".join([*(csn.text() for csn in seen.newest), *horizon])


def read_seen(words: list[str]) -> Seen:
    horizon = ZERO
    if words and words[-1].startswith(_HORIZON):
        horizon = parse(words.pop()[len(_HORIZON) :])
    seen = Seen(tuple(map(parse, words)), horizon)
    if Seen.of(seen.newest, horizon) != seen:
        raise ValueError("CSNs that were seen are repeated or unsorted")
    return seen


def read_uuid(text: str) -> EntryId:
    """The id that an entryUUID tells."""
    if _UUID.fullmatch(text) is None:
        raise ValueError(f"{quoted(text)} is no entryUUID")
    return EntryId(bytes.fromhex(text.replace("-", "")))
