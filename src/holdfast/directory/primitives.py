"""The seven changes that masters send each other, and the values that they are made of.

An operation of a client (add, delete, modify, modify DN) becomes one or more of these (:mod:`.issuing`). Each
has the operation's CSN with a sub-sequence number of its own, and the id of the entry, which never changes,
whatever the entry is called. ``seen`` is what the issuer had seen of the thing that the change replaces: the
CSN picks the winner, and a loser that the winner had not seen is a conflict (:mod:`.conflicts`).

They are data for resolution alone. What a name or a value means, and which attributes have one value, the
issuer takes from its schema and says in the change; so masters whose schemas differ for a while still end
with the same entries.
"""

from typing import Annotated, Final, NewType

import msgspec
from msgspec import Meta, Struct

from holdfast.directory.seen import NOTHING, Seen
from holdfast.model.csn import Csn
from holdfast.model.errors import InvalidRequest

EntryId = NewType("EntryId", bytes)
"""An entry's entryUUID, its 16 bytes."""

ENTRY_ID_BYTES: Final = 16
ROOT: Final = EntryId(bytes(ENTRY_ID_BYTES))
"""Where the suffix's own entry stands. No entry has this id."""


def random_id(bits: int) -> EntryId:
    """The id of a new entry, a UUID of 128 random *bits* (RFC 4122, 4.4)."""
    digits = bytearray(bits.to_bytes(ENTRY_ID_BYTES, "big"))
    digits[6] = digits[6] & 0x0F | 0x40
    digits[8] = digits[8] & 0x3F | 0x80
    return EntryId(bytes(digits))


def uuid_text(entry: EntryId) -> str:
    """The id as the attribute entryUUID shows it (RFC 4530)."""
    digits = bytes(entry).hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


VALUE_BYTES_MAX: Final = 1 << 20
"""The longest value: a photo fits, and a change with it fits into one frame of the wire."""
KEY_BYTES_MAX: Final = 1 << 20
"""The longest normalised value; normalising may change the length of a value, not its order of size."""
ATTRIBUTE_CHARACTERS_MAX: Final = 256
"""The longest attribute description, options included."""
NAME_VALUES_MAX: Final = 16
"""How many values one name has at most (``cn=a+sn=b`` has two)."""
REPLICAS_MAX: Final = 256
"""How many masters one change may name; far more than a mesh of masters can feed."""
HEADS_MAX: Final = REPLICAS_MAX
"""How many earlier places of an entry a move may name: one for each master."""

_Id = Annotated[EntryId, Meta(min_length=ENTRY_ID_BYTES, max_length=ENTRY_ID_BYTES)]
_Key = Annotated[bytes, Meta(max_length=KEY_BYTES_MAX)]
_Attribute = Annotated[str, Meta(min_length=1, max_length=ATTRIBUTE_CHARACTERS_MAX)]


class Value(Struct, frozen=True, array_like=True, gc=False):
    """A value as it was given, and its normalised key: values with one key are the same value."""

    key: _Key
    content: Annotated[bytes, Meta(max_length=VALUE_BYTES_MAX)]


class NameValue(Struct, frozen=True, array_like=True, gc=False):
    """One ``attribute=value`` of a name."""

    attribute: _Attribute
    value: Value
    is_single: bool = False
    """Whether the attribute has one value at most."""


class Name(Struct, frozen=True, array_like=True, gc=False):
    """A relative distinguished name. Names with one key are the same name."""

    key: Annotated[bytes, Meta(min_length=1, max_length=KEY_BYTES_MAX)]
    """The normalised form of the whole name."""
    text: Annotated[str, Meta(max_length=VALUE_BYTES_MAX)]
    """The name as it was given."""
    values: Annotated[tuple[NameValue, ...], Meta(max_length=NAME_VALUES_MAX)] = ()


class Change(Struct, frozen=True, kw_only=True, tag_field="kind", gc=False):
    """What all changes have."""

    csn: Csn
    entry: _Id
    seen: Seen = NOTHING


class AddEntry(Change, frozen=True, kw_only=True, tag="add-entry"):
    """A new entry begins, below *parent*."""

    parent: _Id
    name: Name


class MoveEntry(Change, frozen=True, kw_only=True, tag="move"):
    """The entry gets another parent."""

    parent: _Id
    leaves: Annotated[tuple[_Id, ...], Meta(min_length=1, max_length=HEADS_MAX)]
    """The parent below which the issuer saw the entry, and then the other parents that it replaces."""


class RenameEntry(Change, frozen=True, kw_only=True, tag="rename"):
    """The entry gets another name below its parent."""

    name: Name


class RemoveEntry(Change, frozen=True, kw_only=True, tag="remove-entry"):
    """The entry ends. *seen* is all that the issuer had seen of the whole entry."""


class AddValue(Change, frozen=True, kw_only=True, tag="add-value"):
    """An attribute gets a value; that of a single-valued attribute replaces the one before."""

    attribute: _Attribute
    value: Value
    is_single: bool = False


class RemoveValue(Change, frozen=True, kw_only=True, tag="remove-value"):
    """An attribute loses a value."""

    attribute: _Attribute
    value: Value
    is_single: bool = False


class RemoveAttribute(Change, frozen=True, kw_only=True, tag="remove-attribute"):
    """An attribute loses all values older than this. *seen* is what the issuer had seen of the attribute."""

    attribute: _Attribute


Primitive = AddEntry | MoveEntry | RenameEntry | RemoveEntry | AddValue | RemoveValue | RemoveAttribute

_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final[msgspec.msgpack.Decoder[Primitive]] = msgspec.msgpack.Decoder(Primitive)


def encoded(primitive: Primitive) -> bytes:
    return _encoder.encode(primitive)


def decoded(data: bytes) -> Primitive:
    """Read one change that another master sent. Raises ``InvalidRequest`` that says what is wrong."""
    try:
        change = _decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as fault:
        raise InvalidRequest(f"not a change of the directory: {fault}") from None
    check(change)
    return change


def check(change: Primitive) -> None:
    """Raise ``InvalidRequest`` if no master can have issued *change*, whatever it knew."""
    if change.entry == ROOT:
        raise InvalidRequest("not a change of the directory: no entry has the id of the root")
    if len(change.seen.newest) > REPLICAS_MAX:
        raise InvalidRequest(
            f"not a change of the directory: it names {len(change.seen.newest)} replicas, over {REPLICAS_MAX}"
        )
    # A generator's next CSN is above all that it has heard of: one that names its future would win over
    # changes that nobody has made yet.
    if max((*change.seen.newest, change.seen.horizon)) >= change.csn:
        raise InvalidRequest(f"not a change of the directory: {change.csn} names a CSN that is not older")
    if not change.seen.is_canonical:
        raise InvalidRequest("not a change of the directory: what it has seen is repeated or unsorted")
