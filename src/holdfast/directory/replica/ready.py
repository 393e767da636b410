"""Attributes as answers have them: written once, when an entry changes, and sent as they are.

Beside what is shown of an entry stands the list of its user attributes as LDAP has it (RFC 4511, 4.5.2), so
that a search of a directory that is larger than any cache takes a look-up and no more. It has no name in it:
renaming the top of a large subtree changes no row below. It is derived (G6), and changes in the transaction
of the entry (G1). Passwords are left out of it; of an entry that has one that is said, and of what is special
(referrals, aliases, glue, large groups) there is none: those who ask are answered from the entry itself.
"""

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Final

import msgspec

from holdfast.directory.primitives import Value
from holdfast.directory.replica.shown import Shown
from holdfast.directory.schema.schema import Schema

READY_BYTES_MAX: Final = 8 << 10
"""How large an entry may be of which answers are kept ready. Each change of a larger one, such as a group of
thousands, would write all of it once more."""

SPELLED_MAX: Final = 4_096
"""Of how many attributes the spelling is kept."""

OPEN: Final = 1
"""All user attributes are in the list."""
HIDES: Final = 2
"""All but those that only administrators see."""

HIDDEN: Final = "userpassword"
SPECIAL: Final = ("objectclass", "aliasedobjectname", HIDDEN)
"""Attributes that decide about the whole list."""
ALIAS: Final = "aliasedobjectname"
REFERRAL: Final = b"referral"

Values = Mapping[str, Sequence[bytes]]


class Ready(Shown, frozen=True, array_like=True):
    """What is shown of an entry, and its attributes for answers."""

    kind: int = 0
    """0 if there is no list."""
    attributes: bytes = b""
    schema: int = 0
    """The mark of the schema by which they are spelled."""


_decoder: Final[msgspec.msgpack.Decoder[Ready]] = msgspec.msgpack.Decoder(Ready)
decoded_ready: Final = _decoder.decode


def ready(schema: Schema, shown: Shown, values: Values, size: int) -> Ready:
    """The row of an entry with these visible *values*, that has some *size*."""
    if shown.oddity or size > READY_BYTES_MAX or _is_elsewhere(values):
        return Ready(shown.parent, shown.name, shown.key, shown.oddity)
    parts = [
        attribute(spelled, values[name])
        for name in sorted(values)
        if (spelled := _spelled(schema, name)) is not None
    ]
    return _with(schema, shown, HIDES if any(map(_is_hidden, values)) else OPEN, parts)


def renewed(
    schema: Schema, before: Ready, changed: Collection[str], values: Mapping[str, Sequence[Value]]
) -> Ready | None:
    """The row when attributes have *changed*, by their names without options, to *values*; None if all of it
    is to be made anew."""
    if not before.kind or before.schema != schema.mark:
        return None
    for each in SPECIAL:
        if each in changed:
            return None
    found = {}
    gone = dict.fromkeys([each.encode() for each in changed])
    for name, part in parts_of(before.attributes).items():
        word = name.lower()
        if (word.partition(b";")[0] if b";" in word else word) not in gone:
            found[word] = part
    for described, contents in values.items():
        if described.partition(";")[0] in changed:
            spelled = _spelled(schema, described)
            if spelled is not None:
                found[spelled.lower()] = attribute(spelled, [each.content for each in contents])
    row = _with(schema, before, before.kind, [found[each] for each in sorted(found)])
    return row if len(row.attributes) <= READY_BYTES_MAX else None


def _with(schema: Schema, shown: Shown, kind: int, parts: list[bytes]) -> Ready:
    return Ready(shown.parent, shown.name, shown.key, 0, kind, b"".join(parts), schema.mark)


@lru_cache(maxsize=SPELLED_MAX)
def _spelled(schema: Schema, name: str) -> bytes | None:
    """A user attribute that all may see, as the schema spells it; None for another."""
    if _is_hidden(name):
        return None
    described = schema.find(name)
    if described is None:
        return name.encode()
    return None if described.type.is_operational else described.name.encode()


def _is_hidden(name: str) -> bool:
    return name.partition(";")[0] == HIDDEN


def _is_elsewhere(values: Values) -> bool:
    return ALIAS in values or any(each.lower() == REFERRAL for each in values.get("objectclass", ()))


# --- bytes


def attribute(name: bytes, values: Sequence[bytes]) -> bytes:
    """One attribute with its values.

    This is what a server writes most, so short lengths are written in place.
    """
    written = []
    for value in values:
        length = len(value)
        written.append(
            b"%c%c%b" % (0x04, length, value) if length < 0x80 else b"\x04" + _length(length) + value
        )
    content = b"".join(written)
    size, length = len(name), len(content)
    if size < 0x80 and length < 0x7C - size:
        return b"%c%c%c%c%b%c%c%b" % (0x30, size + length + 4, 0x04, size, name, 0x31, length, content)
    inner = b"\x04" + _length(size) + name + b"\x31" + _length(length) + content
    return b"\x30" + _length(len(inner)) + inner


def parts_of(attributes: bytes) -> dict[bytes, bytes]:
    """The attributes of a list that was written here, in order: by name, all bytes of each."""
    found = {}
    at, end = 0, len(attributes)
    while at < end:
        start, length = at + 2, attributes[at + 1]
        if length >= 0x80:
            start, length = _header(attributes, at)
        name_at, size = start + 2, attributes[start + 1]
        if size >= 0x80:
            name_at, size = _header(attributes, start)
        stop = start + length
        found[attributes[name_at : name_at + size]] = attributes[at:stop]
        at = stop
    return found


def _header(data: bytes, at: int) -> tuple[int, int]:
    """Where the content of the element at *at* begins, and how long it is."""
    length = data[at + 1]
    if length < 0x80:
        return at + 2, length
    count = length & 0x7F
    return at + 2 + count, int.from_bytes(data[at + 2 : at + 2 + count], "big")


def _length(length: int) -> bytes:
    if length < 0x80:
        return bytes((length,))
    count = (length.bit_length() + 7) // 8
    return bytes((0x80 | count,)) + length.to_bytes(count, "big")
