"""Entries and changes as text (RFC 2849): read from a stream and written.

Reading takes bytes in any pieces and holds one record at a time, whose size is bounded. A mistake is raised
with the number of its line. A value that stands in a file or behind a URL (``:<``) is refused unless the
caller gives a function that fetches it, because the text may come from somebody who must not read the
server's files.
"""

import binascii
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from msgspec import Struct

from holdfast.directory.operations import (
    AddRequest,
    Attribute,
    Change,
    DeleteRequest,
    Modification,
    ModificationKind,
    ModifyDnRequest,
    ModifyRequest,
)
from holdfast.directory.results import DirectoryError, ResultCode, quoted

RECORD_BYTES_MAX: Final = 32 * 1024 * 1024
"""How long one record may be: an entry with photographs, in base64. It bounds what reading holds."""

RECORD_LINES_MAX: Final = 250_000
"""How many lines one record may have: a group of two hundred thousand members."""

COLUMNS: Final = 76
"""Where written lines are folded."""

VERSION: Final = b"version: 1\n"
"""The line that a file begins with."""

Fetch = Callable[[str], bytes]


class InvalidLdif(DirectoryError):
    """Raised when a text is not LDIF; ``line`` is the number of the line at fault, from 1."""

    code = "invalid_ldif"

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(ResultCode.INVALID_ATTRIBUTE_SYNTAX, f"line {line}: {problem}")
        self.line = line


class LdifControl(Struct, frozen=True):
    """A control that a change is to be sent with."""

    oid: str
    is_critical: bool = False
    value: bytes | None = None


class EntryRecord(Struct, frozen=True):
    """An entry as it stands. Values of one attribute are together, in the order of the text."""

    line: int
    dn: str
    attributes: tuple[Attribute, ...]


class ChangeRecord(Struct, frozen=True):
    """A change that is to be made."""

    line: int
    change: Change
    controls: tuple[LdifControl, ...] = ()


Record = EntryRecord | ChangeRecord


# --- reading


class _Line(Struct, frozen=True):
    number: int
    name: str
    value: bytes


def read_ldif(chunks: Iterable[bytes], *, fetch: Fetch | None = None) -> Iterator[Record]:
    """Read records from bytes in any pieces, such as an open file's."""
    is_first = True
    for lines in _records(_unfolded(_physical_lines(chunks))):
        fields = [_parsed(number, text, fetch) for number, text in lines]
        if is_first and fields[0].name.lower() == "version":
            if fields[0].value != b"1":
                raise InvalidLdif(fields[0].number, f"the version must be 1, not {quoted(fields[0].value)}")
            del fields[0]
        is_first = False
        if fields:
            yield _record(fields)


def _physical_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Lines without their ends; the last one needs none."""
    pieces: list[bytes] = []
    held = 0
    number = 1
    for chunk in chunks:
        first, *rest = chunk.split(b"\n")
        pieces.append(first)
        held += len(first)
        if held > RECORD_BYTES_MAX:
            raise InvalidLdif(number, f"a line has more than {RECORD_BYTES_MAX} bytes")
        for each in rest:
            yield b"".join(pieces).removesuffix(b"\r")
            number += 1
            pieces, held = [each], len(each)
    if held:
        yield b"".join(pieces).removesuffix(b"\r")


def _unfolded(lines: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Lines with their numbers, continued ones joined; comments are left out, empty lines are kept."""
    begun: list[bytes] = []
    begun_at = 0
    held = 0
    for number, line in enumerate(lines, start=1):
        if line.startswith(b" "):
            if not begun:
                raise InvalidLdif(number, "a line that begins with a space continues one that is not there")
            held += len(line)
            if held > RECORD_BYTES_MAX:
                raise InvalidLdif(begun_at, f"a line has more than {RECORD_BYTES_MAX} bytes")
            begun.append(line[1:])
            continue
        if begun and not begun[0].startswith(b"#"):
            yield begun_at, b"".join(begun)
        begun, begun_at, held = [line], number, len(line)
        if not line:
            yield number, b""
            begun = []
    if begun and not begun[0].startswith(b"#"):
        yield begun_at, b"".join(begun)


def _records(lines: Iterable[tuple[int, bytes]]) -> Iterator[list[tuple[int, bytes]]]:
    """The lines of each record; empty lines part them."""
    gathered: list[tuple[int, bytes]] = []
    held = 0
    for number, line in lines:
        if line:
            gathered.append((number, line))
            held += len(line)
            if held > RECORD_BYTES_MAX or len(gathered) > RECORD_LINES_MAX:
                raise InvalidLdif(
                    gathered[0][0],
                    f"the record has more than {RECORD_BYTES_MAX} bytes or {RECORD_LINES_MAX} lines",
                )
        elif gathered:
            yield gathered
            gathered, held = [], 0
    if gathered:
        yield gathered


_NAME: Final = re.compile(rb"[A-Za-z0-9][A-Za-z0-9.-]*(?:;(?: (?=v[ud]csn-))?[A-Za-z0-9-]+)*")
"""A description. Before a CSN a space may stand: the source prints one (CSN-82)."""
_SEPARATOR: Final = b"-"


def _parsed(number: int, line: bytes, fetch: Fetch | None) -> _Line:
    if line == _SEPARATOR:
        return _Line(number, "-", b"")
    name, colon, rest = line.partition(b":")
    if not colon:
        raise InvalidLdif(number, f"a name and a colon are expected, not {quoted(line)}")
    if _NAME.fullmatch(name) is None:
        raise InvalidLdif(number, f"{quoted(name)} is no attribute")
    return _Line(number, name.decode("ascii").replace(" ", ""), _value(number, rest, fetch))


def _value(number: int, rest: bytes, fetch: Fetch | None) -> bytes:
    """What stands after a name's colon: plain, in base64 after another colon, or elsewhere after ``<``."""
    if rest.startswith(b":"):
        try:
            return binascii.a2b_base64(rest[1:].strip(b" "), strict_mode=True)
        except binascii.Error as error:
            raise InvalidLdif(number, f"the value is not base64 ({error})") from error
    if rest.startswith(b"<"):
        url = rest[1:].strip(b" ").decode("utf-8", "replace")
        if fetch is None:
            raise InvalidLdif(
                number, f"the value is to be read from {quoted(url)}, which is not allowed; write it here"
            )
        return fetch(url)
    if b"\x00" in rest or b"\r" in rest:
        raise InvalidLdif(number, "a value with a zero byte or a carriage return is written in base64")
    return rest.lstrip(b" ")


def _text(line: _Line) -> str:
    try:
        return line.value.decode()
    except UnicodeDecodeError as error:
        raise InvalidLdif(line.number, f"the value of {line.name} is not UTF-8") from error


def _record(lines: list[_Line]) -> Record:
    first = lines[0]
    if first.name.lower() != "dn":
        raise InvalidLdif(first.number, f"a record begins with dn:, not with {quoted(first.name)}")
    dn = _text(first)
    controls = []
    at = 1
    while at < len(lines) and lines[at].name.lower() == "control":
        controls.append(_control(lines[at]))
        at += 1
    if at == len(lines) or lines[at].name.lower() != "changetype":
        if controls:
            raise InvalidLdif(first.number, "a record with a control has a changetype after it")
        return EntryRecord(first.number, dn, _attributes(lines[at:], first.number))
    kind = lines[at]
    change = _change(dn, kind, lines[at + 1 :])
    return ChangeRecord(first.number, change, tuple(controls))


_CONTROL: Final = re.compile(r"([0-9.]+)(?: +(true|false))?(?:(::?) *(.*))?", re.DOTALL)


def _control(line: _Line) -> LdifControl:
    found = _CONTROL.fullmatch(_text(line))
    if found is None:
        raise InvalidLdif(line.number, "a control looks like: control: 1.2.3 true: value")
    oid, critical, sign, written = found.groups()
    value = None if sign is None else _value(line.number, (sign[1:] + " " + written).encode(), None)
    return LdifControl(oid, critical == "true", value)


def _attributes(lines: list[_Line], number: int) -> tuple[Attribute, ...]:
    gathered: dict[str, tuple[str, list[bytes]]] = {}
    for line in lines:
        if line.name == "-":
            raise InvalidLdif(line.number, "a hyphen parts modifications, and this is an entry")
        gathered.setdefault(line.name.lower(), (line.name, []))[1].append(line.value)
    if not gathered:
        raise InvalidLdif(number, "the entry has no attributes")
    return tuple(Attribute(name, tuple(values)) for name, values in gathered.values())


def _change(dn: str, kind: _Line, rest: list[_Line]) -> Change:
    match _text(kind).strip().lower():
        case "add":
            return AddRequest(dn, _attributes(rest, kind.number))
        case "delete":
            if rest:
                raise InvalidLdif(rest[0].number, "nothing stands after changetype: delete")
            return DeleteRequest(dn)
        case "modify":
            return ModifyRequest(dn, tuple(_modifications(rest)))
        case "modrdn" | "moddn":
            return _rename(dn, kind, rest)
    raise InvalidLdif(kind.number, f"changetype is add, delete, modify or modrdn, not {quoted(kind.value)}")


_KINDS: Final = {each.name.lower(): each for each in ModificationKind}


def _modifications(lines: list[_Line]) -> Iterator[Modification]:
    at = 0
    while at < len(lines):
        kind = _KINDS.get(lines[at].name.lower())
        if kind is None:
            raise InvalidLdif(
                lines[at].number,
                f"add:, delete:, replace: or increment: is expected, not {quoted(lines[at].name)}",
            )
        description = _text(lines[at]).strip()
        if _NAME.fullmatch(description.encode()) is None:
            raise InvalidLdif(lines[at].number, f"{quoted(description)} is no attribute")
        at += 1
        values = []
        while at < len(lines) and lines[at].name != "-":
            if lines[at].name.lower() != description.lower():
                raise InvalidLdif(
                    lines[at].number,
                    f"a value of {quoted(description)} or a hyphen is expected, not {quoted(lines[at].name)}",
                )
            values.append(lines[at].value)
            at += 1
        at += 1  # the hyphen, which the last modification may lack
        yield Modification(kind, description, tuple(values))


def _rename(dn: str, kind: _Line, lines: list[_Line]) -> ModifyDnRequest:
    names = [each.name.lower() for each in lines]
    if names not in (["newrdn", "deleteoldrdn"], ["newrdn", "deleteoldrdn", "newsuperior"]):
        wrong = lines[0].number if lines else kind.number
        raise InvalidLdif(wrong, "newrdn:, deleteoldrdn: and, if it moves, newsuperior: are expected here")
    if lines[1].value not in (b"0", b"1"):
        raise InvalidLdif(lines[1].number, f"deleteoldrdn is 0 or 1, not {quoted(lines[1].value)}")
    return ModifyDnRequest(
        dn, _text(lines[0]), lines[1].value == b"1", _text(lines[2]) if len(lines) == 3 else None
    )


# --- writing

_SAFE: Final = re.compile(rb"(?![ :<])[\x01-\x09\x0b\x0c\x0e-\x7f]*(?<! )")


def write_line(name: str, value: bytes) -> bytes:
    """One name and value, folded, in base64 where it must be."""
    if _SAFE.fullmatch(value):
        line = name.encode("ascii") + b": " + value
    else:
        line = name.encode("ascii") + b":: " + binascii.b2a_base64(value, newline=False)
    if len(line) <= COLUMNS:
        return line + b"\n"
    rest = COLUMNS - 1
    pieces = [line[:COLUMNS], *(line[at : at + rest] for at in range(COLUMNS, len(line), rest))]
    return b"\n ".join(pieces) + b"\n"


def write_entry(dn: str, attributes: Iterable[Attribute]) -> bytes:
    """An entry's record, with the empty line after it."""
    lines = [write_line("dn", dn.encode())]
    lines += [write_line(each.description, value) for each in attributes for value in each.values]
    return b"".join(lines) + b"\n"


def write_change(change: Change, controls: Iterable[LdifControl] = ()) -> bytes:
    """A change's record, with the empty line after it."""
    lines = [write_line("dn", change.dn.encode())]
    lines += [write_line("control", _written_control(each)) for each in controls]
    match change:
        case AddRequest(attributes=attributes):
            lines.append(b"changetype: add\n")
            lines += [write_line(each.description, value) for each in attributes for value in each.values]
        case DeleteRequest():
            lines.append(b"changetype: delete\n")
        case ModifyRequest(changes=changes):
            lines.append(b"changetype: modify\n")
            for each in changes:
                lines.append(write_line(each.kind.name.lower(), each.description.encode()))
                lines += [write_line(each.description, value) for value in each.values]
                lines.append(b"-\n")
        case ModifyDnRequest(new_rdn=new_rdn, delete_old_rdn=is_deleted, new_superior=superior):
            lines.append(b"changetype: modrdn\n")
            lines.append(write_line("newrdn", new_rdn.encode()))
            lines.append(b"deleteoldrdn: 1\n" if is_deleted else b"deleteoldrdn: 0\n")
            if superior is not None:
                lines.append(write_line("newsuperior", superior.encode()))
    return b"".join(lines) + b"\n"


def _written_control(control: LdifControl) -> bytes:
    written = f"{control.oid} {'true' if control.is_critical else 'false'}".encode()
    if control.value is None:
        return written
    return written + b":: " + binascii.b2a_base64(control.value, newline=False)


def write_record(record: Record) -> bytes:
    match record:
        case EntryRecord(dn=dn, attributes=attributes):
            return write_entry(dn, attributes)
        case ChangeRecord(change=change, controls=controls):
            return write_change(change, controls)
