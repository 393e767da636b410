"""Which entries may match a filter, by the indexes; without them, a search looks at every entry of its scope.

An index may find too much, never too little. Where it finds exactly what the filter asks for, that is said,
and nobody asks the entries again.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from holdfast.directory.filters.filter import (
    And,
    Approximate,
    Equality,
    Extensible,
    Filter,
    GreaterOrEqual,
    LessOrEqual,
    Not,
    Or,
    Present,
    Substrings,
)
from holdfast.directory.matching import NotComparable, prepared_pieces
from holdfast.directory.primitives import ENTRY_ID_BYTES, EntryId
from holdfast.directory.replica.indexes import LONG, SUBSTRINGS, UNINDEXED, pieces, type_name
from holdfast.directory.replica.maps import EQUALITY, INDEX, PIECES, PRESENCE, index_prefix, index_value
from holdfast.directory.schema.checking import OBJECT_CLASS
from holdfast.directory.schema.schema import AttributeType, Described, Schema
from holdfast.directory.store import Reader, prefix_end

CANDIDATES_MAX: Final = 20_000
"""How many entries an index may find: they are found at one go, and nobody else has a turn meanwhile. With
more, all entries of the scope are looked at, a few at a time."""
FEW: Final = 64
"""So few candidates that looking for fewer costs more than looking at them."""
BOUND_BYTES: Final = 200
"""How much of a bound is compared with an index, whose long keys end in a digest."""
ENTRY_UUID: Final = "1.3.6.1.1.16.4"


@dataclass(frozen=True, slots=True)
class Candidates:
    """The entries that may match, in the order of their ids, each once."""

    entries: tuple[EntryId, ...]
    is_exact: bool = False
    """Whether all of them do match."""


NONE: Final = Candidates((), is_exact=True)


def candidates(filter_: Filter, schema: Schema, reader: Reader) -> Candidates | None:
    """Who may match; None if the indexes cannot tell."""
    return _Planning(schema, reader).of(filter_)


@dataclass(frozen=True, slots=True)
class EqualityIndex:
    """The index that tells exactly which entries have a value of an attribute, whatever the value is."""

    attribute: AttributeType
    prefix: bytes

    def find(self, value: bytes, schema: Schema, reader: Reader, most: int) -> list[bytes]:
        """The first *most* entries that have *value*, by id. Raises ``NotComparable``."""
        key = self.attribute.assertion_key(value, schema)
        return reader.tails(INDEX, self.prefix + index_value(key), most)


def equality_index(description: str, schema: Schema) -> EqualityIndex | None:
    """The one index for an attribute description; None if there is none, or if there are several."""
    described = schema.find(description)
    if described is None or described.options:
        return None
    covered = schema.covered[described.type.oid]
    if len(covered) != 1 or not _is_indexed(covered[0]) or covered[0].oid == ENTRY_UUID:
        return None
    return EqualityIndex(covered[0], index_prefix(type_name(covered[0]), EQUALITY))


class _Planning:
    def __init__(self, schema: Schema, reader: Reader) -> None:
        self._schema = schema
        self._reader = reader

    def of(self, filter_: Filter, most: int = CANDIDATES_MAX) -> Candidates | None:
        match filter_:
            case And(operands):
                return self._all(operands, most)
            case Or(operands):
                return self._any(operands, most)
            case Equality(description=description) | Approximate(description=description):
                return self._simple(filter_, description, most)
            case Present(description) | Substrings(description=description):
                return self._simple(filter_, description, most)
            case GreaterOrEqual(description=description) | LessOrEqual(description=description):
                return self._simple(filter_, description, most)
            case _:
                return None

    def _all(self, operands: tuple[Filter, ...], most: int) -> Candidates | None:
        best: Candidates | None = None
        for each in sorted(operands, key=_cost):
            found = self.of(each, most if best is None else len(best.entries))
            if found is not None and (best is None or len(found.entries) < len(best.entries)):
                best = found
            if best is not None and len(best.entries) <= FEW:
                break
        return None if best is None else Candidates(best.entries, best.is_exact and len(operands) == 1)

    def _any(self, operands: tuple[Filter, ...], most: int) -> Candidates | None:
        found: dict[EntryId, None] = {}
        is_exact = True
        for each in operands:
            part = self.of(each, most)
            if part is None:
                return None
            found.update(dict.fromkeys(part.entries))
            is_exact = is_exact and part.is_exact
            if len(found) > most:
                return None
        return Candidates(tuple(sorted(found)), is_exact)

    def _simple(self, filter_: Filter, description: str, most: int) -> Candidates | None:
        described = self._schema.find(description)
        if described is None:
            return NONE  # undefined, so true of no entry
        found: dict[EntryId, None] = {}
        for attribute in self._schema.covered[described.type.oid]:
            try:
                part = self._of_type(filter_, attribute)
            except NotComparable:
                return NONE
            if part is None:
                return None
            found.update(dict.fromkeys(islice(part, most + 1)))
            if len(found) > most:
                return None
        is_exact = not described.options and isinstance(filter_, Equality | Present)
        return Candidates(tuple(sorted(found)), is_exact)

    def _of_type(self, filter_: Filter, attribute: AttributeType) -> Iterator[EntryId] | None:
        word = type_name(attribute)
        if attribute.oid == ENTRY_UUID:
            return self._of_id(filter_, attribute)
        if not _is_indexed(attribute):
            if not isinstance(filter_, Present) or attribute.is_read_only:
                return None
            return self._ids(index_prefix(word, PRESENCE))
        match filter_:
            case Present():
                return self._ids(index_prefix(word, EQUALITY))
            case Equality(value=value) | Approximate(value=value):
                key = attribute.assertion_key(value, self._schema)
                return self._ids(index_prefix(word, EQUALITY) + index_value(key))
            case Substrings():
                return self._of_pieces(filter_, attribute, word)
            case GreaterOrEqual(value=value) if _is_ordered(attribute):
                start = index_prefix(word, EQUALITY) + self._bound(attribute, value)
                return self._ids(start, end=prefix_end(index_prefix(word, EQUALITY)))
            case LessOrEqual(value=value) if _is_ordered(attribute):
                prefix = index_prefix(word, EQUALITY)
                return self._ids(prefix, end=prefix_end(prefix + self._bound(attribute, value)))
        return None

    def _of_id(self, filter_: Filter, attribute: AttributeType) -> Iterator[EntryId] | None:
        if not isinstance(filter_, Equality):
            return None
        return iter((EntryId(bytes.fromhex(attribute.assertion_key(filter_.value, self._schema).decode())),))

    def _of_pieces(
        self, filter_: Substrings, attribute: AttributeType, word: str
    ) -> Iterator[EntryId] | None:
        if word not in SUBSTRINGS or attribute.substrings is None:
            return None
        wanted = prepared_pieces(attribute.substrings, filter_.initial, filter_.any, filter_.final)
        parts = [piece for each in (wanted.initial, *wanted.anywhere, wanted.final) for piece in pieces(each)]
        if not parts:
            return None
        prefix = index_prefix(word, PIECES)
        found: dict[EntryId, None] | None = None
        for each in parts:
            rows = self._ids(prefix + each)
            found = dict.fromkeys(rows if found is None else (one for one in rows if one in found))
            if len(found) <= FEW:
                break
        return iter({**(found or {}), **dict.fromkeys(self._ids(prefix + LONG))})

    def _bound(self, attribute: AttributeType, value: bytes) -> bytes:
        if attribute.ordering is None:
            raise NotComparable("the attribute has no order")
        key = attribute.ordering.key(value, self._schema)[:BOUND_BYTES]
        return key.replace(b"\x00", b"\x00\xff")

    def _ids(self, start: bytes, *, end: bytes | None = None) -> Iterator[EntryId]:
        rows = self._reader.rows(INDEX, start=start, end=end or prefix_end(start))
        return (EntryId(bytes(key[-ENTRY_ID_BYTES:])) for key, _ in rows)


def _is_indexed(attribute: AttributeType) -> bool:
    """Whether each of its values has a row; what the server derives (times, names) has none."""
    if attribute.equality is None or type_name(attribute) in UNINDEXED:
        return False
    return not attribute.is_read_only or type_name(attribute) in ("creatorsname", "modifiersname")


def _is_ordered(attribute: AttributeType) -> bool:
    """Whether the order of its rows is that of its ordering rule."""
    return (
        attribute.ordering is not None
        and attribute.equality is not None
        and attribute.ordering.key is attribute.equality.key
        and attribute.oid != OBJECT_CLASS
    )


_COSTS: Final = (Equality, Approximate, Substrings, GreaterOrEqual, LessOrEqual, Or, And, Present)


def _cost(filter_: Filter) -> int:
    """Which part of an ``and`` to look up first: equality finds the fewest, except of a class."""
    if isinstance(filter_, Equality) and filter_.description.lower() == "objectclass":
        return len(_COSTS)
    return next((at for at, each in enumerate(_COSTS) if isinstance(filter_, each)), len(_COSTS) + 1)


def described_in(filter_: Filter, schema: Schema) -> Iterator[Described | None]:
    """What the parts of a filter are about; None for a part that looks at every attribute."""
    for each in _simple_parts(filter_):
        name = each.description
        yield None if name is None else schema.find(name)


def parts_of(filter_: Filter) -> int:
    """How many comparisons a filter may take."""
    return sum(1 for _ in _simple_parts(filter_))


def looks_at_names(filter_: Filter) -> bool:
    """Whether the parts of an entry's name count as its attributes for some part of a filter."""
    return any(isinstance(each, Extensible) and each.in_dn for each in _simple_parts(filter_))


SimplePart = Equality | Approximate | Substrings | GreaterOrEqual | LessOrEqual | Present | Extensible


def _simple_parts(filter_: Filter) -> Iterator[SimplePart]:
    waiting = [filter_]
    while waiting:
        match waiting.pop():
            case And(operands) | Or(operands):
                waiting.extend(operands)
            case Not(operand):
                waiting.append(operand)
            case part:
                yield part
