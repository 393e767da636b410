"""The search filter in BER, as it travels (RFC 4511, 4.5.1.7)."""

from typing import Final

from holdfast.directory.filters.filter import (
    DEPTH_MAX,
    PARTS_MAX,
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
from holdfast.directory.results import DirectoryError, ResultCode
from holdfast.ldap import ber
from holdfast.ldap.ber import BerError, Reader

_AND: Final = 0xA0
_OR: Final = 0xA1
_NOT: Final = 0xA2
_EQUALITY: Final = 0xA3
_SUBSTRINGS: Final = 0xA4
_GREATER: Final = 0xA5
_LESS: Final = 0xA6
_PRESENT: Final = 0x87
_APPROXIMATE: Final = 0xA8
_EXTENSIBLE: Final = 0xA9

_INITIAL: Final = 0x80
_ANY: Final = 0x81
_FINAL: Final = 0x82

_COMPARISONS: Final[dict[int, type[Equality | GreaterOrEqual | LessOrEqual | Approximate]]] = {
    _EQUALITY: Equality,
    _GREATER: GreaterOrEqual,
    _LESS: LessOrEqual,
    _APPROXIMATE: Approximate,
}


def read_filter(reader: Reader) -> Filter:
    """Take the filter that is the next element."""
    return _read(reader, 1, [0])


def _read(reader: Reader, depth: int, parts: list[int]) -> Filter:
    parts[0] += 1
    if depth > DEPTH_MAX or parts[0] > PARTS_MAX:
        raise DirectoryError(
            ResultCode.ADMIN_LIMIT_EXCEEDED,
            f"a filter may nest {DEPTH_MAX} deep and have {PARTS_MAX} parts; this one has more",
        )
    tag = reader.peek()
    comparison = _COMPARISONS.get(tag)
    if comparison is not None:
        inner = reader.inside(tag)
        found = comparison(inner.text(), inner.octets())
        if inner.at < inner.end:
            inner.ignore_rest()
        return found
    if tag == _PRESENT:
        return Present(reader.text(_PRESENT))
    if tag in (_AND, _OR):
        inner = reader.inside(tag)
        operands = []
        while inner.at < inner.end:
            operands.append(_read(inner, depth + 1, parts))
        return And(tuple(operands)) if tag == _AND else Or(tuple(operands))
    if tag == _SUBSTRINGS:
        return _substrings(reader.inside(tag), parts)
    if tag == _NOT:
        inner = reader.inside(tag)
        operand = _read(inner, depth + 1, parts)
        inner.demand_end()
        return Not(operand)
    if tag == _EXTENSIBLE:
        return _extensible(reader.inside(tag))
    if tag == -1:
        raise BerError(f"the data end at byte {reader.at} where a filter should begin")
    reader.header()
    # RFC 4511, 4.5.1: a filter choice that the server does not know is treated as undefined, which
    # an extensible match by an unknown rule is.
    return Extensible(b"", rule=UNKNOWN_CHOICE)


UNKNOWN_CHOICE: Final = "0.0"
"""The rule that stands for a kind of filter of a later version: no rule has this number."""


def _substrings(reader: Reader, parts: list[int]) -> Substrings:
    description = reader.text()
    pieces = reader.inside()
    initial: bytes | None = None
    final: bytes | None = None
    anywhere: list[bytes] = []
    while pieces.at < pieces.end:
        tag = pieces.peek()
        parts[0] += 1
        if final is not None or (tag == _INITIAL and (initial is not None or anywhere)):
            raise _wrong("the initial piece of a substring filter comes first, and the final one last")
        if tag not in (_INITIAL, _ANY, _FINAL):
            raise _wrong(f"a piece of a substring filter has the tag 0x80, 0x81 or 0x82, not 0x{tag:02x}")
        piece = pieces.octets(tag)
        if not piece:
            raise _wrong("a piece of a substring filter is empty")
        if tag == _INITIAL:
            initial = piece
        elif tag == _ANY:
            anywhere.append(piece)
        else:
            final = piece
    if parts[0] > PARTS_MAX:
        raise _wrong(f"a substring filter has more than {PARTS_MAX} pieces")
    if initial is None and final is None and not anywhere:
        raise _wrong("a substring filter has no pieces")
    reader.ignore_rest()
    return Substrings(description, initial, tuple(anywhere), final)


def _extensible(reader: Reader) -> Extensible:
    rule = reader.text(0x81) if reader.peek() == 0x81 else None
    description = reader.text(0x82) if reader.peek() == 0x82 else None
    value = reader.octets(0x83)
    in_dn = reader.boolean(0x84) if reader.peek() == 0x84 else False
    reader.ignore_rest()
    if rule is None and description is None:
        raise _wrong("an extensible filter names a rule, an attribute, or both; this one has neither")
    return Extensible(value, rule, description, in_dn)


def _wrong(what: str) -> DirectoryError:
    return DirectoryError(ResultCode.PROTOCOL_ERROR, what)


def write_filter(filter_: Filter) -> bytes:
    """The filter's bytes."""
    match filter_:
        case And(operands):
            return ber.sequence(*map(write_filter, operands), tag=_AND)
        case Or(operands):
            return ber.sequence(*map(write_filter, operands), tag=_OR)
        case Not(operand):
            return ber.element(_NOT, write_filter(operand))
        case Equality(description, value):
            return _comparison(_EQUALITY, description, value)
        case GreaterOrEqual(description, value):
            return _comparison(_GREATER, description, value)
        case LessOrEqual(description, value):
            return _comparison(_LESS, description, value)
        case Approximate(description, value):
            return _comparison(_APPROXIMATE, description, value)
        case Present(description):
            return ber.text(description, _PRESENT)
        case Substrings(description, initial, anywhere, final):
            pieces = [ber.octets(initial, _INITIAL)] if initial is not None else []
            pieces += [ber.octets(each, _ANY) for each in anywhere]
            pieces += [ber.octets(final, _FINAL)] if final is not None else []
            return ber.sequence(ber.text(description), ber.sequence(*pieces), tag=_SUBSTRINGS)
        case Extensible(value, rule, description, in_dn):
            parts = [ber.text(rule, 0x81)] if rule is not None else []
            parts += [ber.text(description, 0x82)] if description is not None else []
            parts.append(ber.octets(value, 0x83))
            parts += [ber.boolean(True, 0x84)] if in_dn else []
            return ber.sequence(*parts, tag=_EXTENSIBLE)


def _comparison(tag: int, description: str, value: bytes) -> bytes:
    return ber.sequence(ber.text(description), ber.octets(value), tag=tag)
