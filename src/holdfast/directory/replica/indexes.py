"""Indexes: which entries have an attribute, a value, a value in an order, a piece of a value.

There is a row for each value of each visible entry, under the value's *key* (decision 40), so that equal
values are neighbours and, where an attribute has an ordering rule, a range of rows is a range of values. A
row for each three bytes of a value finds substrings. That an attribute is there is told by any row of it.
An index tells who may match; whether an entry does match is asked of the entry itself.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from holdfast.directory.matching import NotComparable
from holdfast.directory.primitives import EntryId, Value
from holdfast.directory.replica.maps import EQUALITY, INDEX, PIECES, PRESENCE, index_prefix, index_value
from holdfast.directory.schema.checking import OBJECT_CLASS
from holdfast.directory.schema.schema import AttributeType, Schema
from holdfast.directory.store import Batch

PIECE_BYTES: Final = 3
"""How long the indexed pieces of a value are. Shorter ones find too much, longer ones cost more rows."""
PIECES_MAX: Final = 256
"""Of how many pieces of one value there are rows. A value with more has one row instead, which every search
for a piece finds."""
LONG: Final = b"\xff" * PIECE_BYTES
"""The piece under which such values stand. No text has it: these bytes are not UTF-8."""

SUBSTRINGS: Final = ("cn", "sn", "givenname", "displayname", "mail", "uid", "ou", "o", "telephonenumber")
"""The attributes whose values people look for by a part of them. Rows for all would cost more than searches
for the others gain: those look at the entries themselves."""

UNINDEXED: Final = ("userpassword", "jpegphoto", "audio", "photo")
"""Attributes that nobody looks for by value; that they are there has a row."""

Values = Mapping[str, Sequence[Value]]


def type_name(attribute: AttributeType) -> str:
    """Under which name an attribute type stands in the indexes, with all its options."""
    return attribute.name.lower()


def rows_of(schema: Schema, name: str, value: Value) -> Iterator[bytes]:
    """The keys, without the entry, under which one value of the attribute *name* stands."""
    described = schema.find(name)
    if described is None:
        return
    attribute = described.type
    word = type_name(attribute)
    if attribute.equality is None or word in UNINDEXED:
        yield index_prefix(word, PRESENCE)
        return
    prefix = index_prefix(word, EQUALITY)
    if attribute.oid == OBJECT_CLASS:
        found = schema.find_class(value.content.decode("utf-8", "replace"))
        for oid in (value.key.decode("utf-8", "replace"),) if found is None else found.lineage:
            yield prefix + index_value(oid.encode())
        return
    yield prefix + index_value(value.key)
    if word in SUBSTRINGS and attribute.substrings is not None:
        try:
            text = attribute.substrings.key(value.content, schema)
        except NotComparable:
            return
        parts = pieces(text)
        prefix = index_prefix(word, PIECES)
        yield from [prefix + piece for piece in (parts if len(parts) <= PIECES_MAX else (LONG,))]


def pieces(text: bytes) -> list[bytes]:
    """The pieces of a prepared text, each once."""
    return list(dict.fromkeys(text[at : at + PIECE_BYTES] for at in range(len(text) - PIECE_BYTES + 1)))


def write_difference(schema: Schema, entry: EntryId, before: Values, now: Values, batch: Batch) -> None:
    """Write the rows of *now* where *before* were the values."""
    changed = [name for name in dict.fromkeys((*before, *now)) if before.get(name, ()) != now.get(name, ())]
    words = dict.fromkeys(name.partition(";")[0] for name in changed)
    for word in words:
        # Descriptions of one type with different options share their rows.
        names = [each for each in dict.fromkeys((*before, *now)) if each.partition(";")[0] == word]
        if names == [word] and word not in SUBSTRINGS and word != "objectclass":
            # No two values share a row here: what stays of a group's thousands of members is not looked at.
            old, new = dict.fromkeys(before.get(word, ())), dict.fromkeys(now.get(word, ()))
            gone = _rows(schema, [(word, each) for each in old if each not in new])
            come = _rows(schema, [(word, each) for each in new if each not in old])
            stays = not gone.keys().isdisjoint(come) or index_prefix(word, PRESENCE) in gone
            if not stays:
                _write(entry, gone, come, batch)
                continue
        gone = _rows(schema, [(name, each) for name in names for each in before.get(name, ())])
        come = _rows(schema, [(name, each) for name in names for each in now.get(name, ())])
        _write(entry, gone, come, batch)


def _rows(schema: Schema, values: list[tuple[str, Value]]) -> dict[bytes, None]:
    found: dict[bytes, None] = {}
    for name, value in values:
        found.update(dict.fromkeys(rows_of(schema, name, value)))
    return found


def _write(entry: EntryId, gone: dict[bytes, None], come: dict[bytes, None], batch: Batch) -> None:
    for row in gone:
        if row not in come:
            batch.erase(INDEX, row + entry)
    batch.put_keys(INDEX, [row + entry for row in come if row not in gone])
