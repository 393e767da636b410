"""The changelog as text, for support: one LDIF record for every change, in the order of their CSNs::

    dn: cn=changelog,cn=config
    replicaSuffix: dc=example,dc=com
    fromVector: 2f6c                                  it has all changes after these ...
    replicaVector: 2f6c 069abc00100000001             ... up to these

    # 2026-02-25T18:10:24Z #0 replica 1 part 3
    dn: csn=069abc001000000010003,cn=changelog
    changeKind: add-value
    entryUUID: 8c5a...
    seenCSN: 069abc00000000001                        what its issuer had seen of the thing it changes
    changeAttribute: telephonenumber
    changeValue: 555-1212
    changeKey: 5551212                                by which the value is compared, if that is not itself

A name is there twice: ``changeName`` is for people, ``nameState`` is exact. Read back, a text gives the very
updates that it was written from; a replica takes them as it takes another master's.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec
from msgspec import Struct

from holdfast.clock.vector import Vector
from holdfast.directory.interchange.entry_text import read_seen, read_uuid, seen_text
from holdfast.directory.ldif import VERSION, EntryRecord, InvalidLdif, Record, write_line
from holdfast.directory.primitives import (
    AddEntry,
    AddValue,
    EntryId,
    MoveEntry,
    Name,
    Primitive,
    RemoveAttribute,
    RemoveEntry,
    RemoveValue,
    RenameEntry,
    Value,
    uuid_text,
)
from holdfast.directory.replica.update import Update, decoded_update, encoded_update
from holdfast.directory.results import quoted
from holdfast.directory.seen import NOTHING
from holdfast.model.csn import Csn, parse
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import ReplicaId

CHANGELOG_DN: Final = "cn=changelog,cn=config"
FOLLOWS: Final = "followsCSN"
_PREFIX: Final = "csn="
_SUFFIX: Final = ",cn=changelog"


class ChangelogHead(Struct, frozen=True, kw_only=True):
    """Which changes a text has: those of *up_to* that *after* lacks."""

    suffix: str
    after: Vector
    up_to: Vector


_encoder: Final = msgspec.msgpack.Encoder()
_name_decoder: Final = msgspec.msgpack.Decoder(Name)


# --- writing


def head2str(head: ChangelogHead) -> bytes:
    return (
        VERSION
        + b"\n"
        + write_line("dn", CHANGELOG_DN.encode())
        + write_line("replicaSuffix", head.suffix.encode())
        + write_line("fromVector", head.after.text().encode())
        + write_line("replicaVector", head.up_to.text().encode())
        + b"\n"
    )


def update2str(update: Update, follows: Csn | None = None) -> bytes:
    """*follows* is the update of the same replica before this one in the text: whoever reads it notices if
    records were cut out in between."""
    first, *rest = update.changes
    return _change2str(first, follows) + b"".join(map(_change2str, rest))


def _change2str(change: Primitive, follows: Csn | None = None) -> bytes:
    lines = [f"# {change.csn.describe()}\n".encode()]
    lines += [write_line(name, value) for name, value in _lines(change)]
    if follows is not None:
        lines.append(write_line(FOLLOWS, follows.text().encode()))
    return b"".join(lines) + b"\n"


def _lines(change: Primitive) -> Iterator[tuple[str, bytes]]:
    yield "dn", f"{_PREFIX}{change.csn}{_SUFFIX}".encode()
    yield "changeKind", str(change.__struct_config__.tag).encode()
    yield "entryUUID", uuid_text(change.entry).encode()
    if change.seen != NOTHING:
        yield "seenCSN", seen_text(change.seen).encode()
    match change:
        case AddEntry(parent=parent, name=name):
            yield "parentUUID", uuid_text(parent).encode()
            yield from _name(name)
        case RenameEntry(name=name):
            yield from _name(name)
        case MoveEntry(parent=parent, leaves=leaves):
            yield "parentUUID", uuid_text(parent).encode()
            yield from (("leavesUUID", uuid_text(each).encode()) for each in leaves)
        case (
            AddValue(attribute=attribute, value=value, is_single=is_single)
            | RemoveValue(attribute=attribute, value=value, is_single=is_single)
        ):
            yield "changeAttribute", attribute.encode()
            yield "changeValue", value.content
            if value.key != value.content:
                yield "changeKey", value.key
            if is_single:
                yield "singleValued", b"TRUE"
        case RemoveAttribute(attribute=attribute):
            yield "changeAttribute", attribute.encode()
        case RemoveEntry():
            pass


def _name(name: Name) -> Iterator[tuple[str, bytes]]:
    yield "changeName", name.text.encode()
    yield "nameState", _encoder.encode(name)


# --- reading


def read_changelog(records: Iterable[Record]) -> Iterator[ChangelogHead | Update]:
    """The head, and then the updates. Raises ``InvalidLdif`` where a line is wrong, where updates are missing
    that one follows on, and when the text ends within an update: then that one is not given out."""
    found = iter(records)
    first = next(found, None)
    if not isinstance(first, EntryRecord) or first.dn.lower() != CHANGELOG_DN:
        raise InvalidLdif(
            1 if first is None else first.line, f"a changelog begins with the record {CHANGELOG_DN}"
        )
    yield _head(first)
    gathered: list[Primitive] = []
    line = first.line
    last: dict[ReplicaId, Csn] = {}
    for record in found:
        change = _change(record)
        _check_follows(record, change.csn, last)
        last[change.csn.replica] = change.csn.operation
        if gathered and not change.csn.is_same_operation(gathered[0].csn):
            yield _update(gathered, line)
            gathered = []
        if not gathered:
            line = record.line
        gathered.append(change)
    if gathered:
        yield _update(gathered, line)


def _check_follows(record: Record, csn: Csn, last: Mapping[ReplicaId, Csn]) -> None:
    assert isinstance(record, EntryRecord), "it was read as a change"
    follows = next(iter(_values(record).get(FOLLOWS.lower(), ())), None)
    if follows is None:
        return
    try:
        wanted = parse(follows.decode("ascii", "replace"))
    except InvalidRequest as error:
        raise InvalidLdif(record.line, str(error)) from error
    if last.get(csn.replica) != wanted:
        raise InvalidLdif(record.line, f"the update {csn} follows on {wanted}, which is missing")


def _head(record: EntryRecord) -> ChangelogHead:
    values = _values(record)
    try:
        return ChangelogHead(
            suffix=_text(values, "replicasuffix"),
            after=Vector.parse(_text(values, "fromvector")),
            up_to=Vector.parse(_text(values, "replicavector")),
        )
    except (InvalidRequest, ValueError) as error:
        raise InvalidLdif(record.line, f"what {CHANGELOG_DN} says cannot be read: {error}") from error


def _update(changes: list[Primitive], line: int) -> Update:
    try:
        # As from another master: every length and count is looked at.
        return decoded_update(encoded_update(Update(tuple(changes))))
    except InvalidRequest as error:
        raise InvalidLdif(line, str(error)) from error


def _values(record: EntryRecord) -> Mapping[str, tuple[bytes, ...]]:
    return {each.description.lower(): each.values for each in record.attributes}


def _one(values: Mapping[str, tuple[bytes, ...]], name: str) -> bytes:
    found = values.get(name, ())
    if len(found) != 1:
        raise ValueError(f"one {name} is expected, not {len(found)}")
    return found[0]


def _text(values: Mapping[str, tuple[bytes, ...]], name: str) -> str:
    return _one(values, name).decode()


def _change(record: Record) -> Primitive:
    if not isinstance(record, EntryRecord):
        raise InvalidLdif(
            record.line, "a changelog has no changetype: its changes are told in their own form"
        )
    try:
        return _read(record.dn, _values(record))
    except (InvalidRequest, ValueError, msgspec.MsgspecError) as error:
        raise InvalidLdif(record.line, f"the change {quoted(record.dn)}: {error}") from error


def _read(dn: str, values: Mapping[str, tuple[bytes, ...]]) -> Primitive:
    if not (dn.startswith(_PREFIX) and dn.endswith(_SUFFIX)):
        raise ValueError(f"a change is called {_PREFIX}CSN{_SUFFIX}")
    csn = parse(dn[len(_PREFIX) : -len(_SUFFIX)])
    entry = read_uuid(_text(values, "entryuuid"))
    seen = read_seen(_text(values, "seencsn").split(" ")) if "seencsn" in values else NOTHING
    match _text(values, "changekind"):
        case "add-entry":
            return AddEntry(csn=csn, entry=entry, seen=seen, parent=_parent(values), name=_read_name(values))
        case "rename":
            return RenameEntry(csn=csn, entry=entry, seen=seen, name=_read_name(values))
        case "move":
            leaves = tuple(read_uuid(each.decode()) for each in values.get("leavesuuid", ()))
            if not leaves:
                raise ValueError("a move has a leavesUUID")
            return MoveEntry(csn=csn, entry=entry, seen=seen, parent=_parent(values), leaves=leaves)
        case "remove-entry":
            return RemoveEntry(csn=csn, entry=entry, seen=seen)
        case "add-value" | "remove-value" as kind:
            content = _one(values, "changevalue")
            key = _one(values, "changekey") if "changekey" in values else content
            made = AddValue if kind == "add-value" else RemoveValue
            return made(
                csn=csn,
                entry=entry,
                seen=seen,
                attribute=_text(values, "changeattribute"),
                value=Value(key, content),
                is_single=values.get("singlevalued") == (b"TRUE",),
            )
        case "remove-attribute":
            return RemoveAttribute(
                csn=csn, entry=entry, seen=seen, attribute=_text(values, "changeattribute")
            )
        case other:
            raise ValueError(f"there is no changeKind {quoted(other)}")


def _parent(values: Mapping[str, tuple[bytes, ...]]) -> EntryId:
    return read_uuid(_text(values, "parentuuid"))


def _read_name(values: Mapping[str, tuple[bytes, ...]]) -> Name:
    return _name_decoder.decode(_one(values, "namestate"))
