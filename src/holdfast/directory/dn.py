"""Distinguished names: read, written (RFC 4514) and made comparable.

A name is kept as it was written, leaf first. Whether two names are the same depends on the schema, so names
are compared by their *keys*: bytes in which equal names are equal, and which begin with the key of every
superior, so that a subtree is a range of keys.
"""

import re
from typing import Final, Protocol

from msgspec import Struct

from holdfast.directory.results import DirectoryError, ResultCode, quoted

DN_CHARS_MAX: Final = 8_192
"""How long a name may be. Real ones have a hundred characters."""

RDNS_MAX: Final = 128
"""How deep a name may be."""

AVAS_MAX: Final = 16
"""How many attributes one RDN may have. Two are rare, three are unheard of."""


class InvalidDn(DirectoryError):
    """Raised when a text is not a distinguished name."""

    code = "invalid_dn"

    def __init__(self, text: str, problem: str) -> None:
        super().__init__(ResultCode.INVALID_DN_SYNTAX, f"not a name: {quoted(text)}: {problem}")


class Vocabulary(Protocol):
    """What a schema knows that names and values need: what words mean."""

    def oid_of(self, descriptor: str) -> str | None:
        """The OID that a short name of anything in the schema stands for, if it is known."""

    def naming_key(self, attribute: str, value: bytes) -> tuple[str, bytes]:
        """What identifies the attribute, and what identifies its value; both for unknown ones too."""


class Ava(Struct, frozen=True):
    """One attribute and its value in a name, both as they were written."""

    attribute: str
    value: bytes

    def __str__(self) -> str:
        return f"{self.attribute}={escaped(self.value)}"

    def key(self, vocabulary: Vocabulary) -> bytes:
        oid, key = vocabulary.naming_key(self.attribute, self.value)
        return oid.encode() + b"=" + _without_separators(key)


Rdn = tuple[Ava, ...]
"""The part of a name that tells an entry from its siblings: one attribute, or several."""


class Dn(Struct, frozen=True):
    """A distinguished name. The empty one names the root DSE."""

    rdns: tuple[Rdn, ...] = ()
    """The entry's own first, then those of its superiors."""

    @classmethod
    def parse(cls, text: str) -> "Dn":
        return cls(_parse(text))

    def __str__(self) -> str:
        return ",".join(map(rdn_text, self.rdns))

    def __len__(self) -> int:
        return len(self.rdns)

    @property
    def rdn(self) -> Rdn:
        """The entry's own RDN; empty for the root."""
        return self.rdns[0] if self.rdns else ()

    @property
    def parent(self) -> "Dn | None":
        return Dn(self.rdns[1:]) if self.rdns else None

    def child(self, rdn: Rdn) -> "Dn":
        return Dn((rdn, *self.rdns))

    def key(self, vocabulary: Vocabulary) -> bytes:
        """Bytes that are equal for equal names, and begin with the key of each superior."""
        return b"".join(rdn_key(each, vocabulary) for each in reversed(self.rdns))


ROOT: Final = Dn()


def rdn_key(rdn: Rdn, vocabulary: Vocabulary) -> bytes:
    """The key of one RDN, in which the order of its attributes does not count; it ends with a zero byte."""
    if len(rdn) == 1:
        return rdn[0].key(vocabulary) + b"\x00"
    return b"\x01".join(sorted(each.key(vocabulary) for each in rdn)) + b"\x00"


def is_below(key: bytes, ancestor: bytes) -> bool:
    """Whether a name's key is that of *ancestor* or of something below it."""
    return key.startswith(ancestor)


def _without_separators(key: bytes) -> bytes:
    """Free a key of the bytes that end an RDN and part its attributes."""
    return key.replace(b"\x02", b"\x02\x05").replace(b"\x01", b"\x02\x04").replace(b"\x00", b"\x02\x03")


# --- writing

_ESCAPED: Final = re.compile(r'[\\"+,;<>\x00-\x1f\x7f]|^[ #]| $')


def rdn_text(rdn: Rdn) -> str:
    return "+".join(map(str, rdn))


def escaped(value: bytes) -> str:
    """A value as it stands in a name; one that is not text is written in hexadecimal, as BER."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return "#" + _octet_string(value).hex()
    return _ESCAPED.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    return f"\\{ord(character):02x}" if character < " " or character == "\x7f" else f"\\{character}"


def _octet_string(value: bytes) -> bytes:
    length = len(value)
    if length < 0x80:
        return bytes((4, length)) + value
    count = (length.bit_length() + 7) // 8
    return bytes((4, 0x80 | count)) + length.to_bytes(count, "big") + value


# --- reading

ATTRIBUTE: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]*|(?:0|[1-9][0-9]*)(?:\.(?:0|[1-9][0-9]*))+")
"""A short name or an OID."""

_SPECIAL: Final = re.compile(r'[\\+"#;<>\x00]')
_SPACE: Final = re.compile(" *")
_PLAIN: Final = re.compile(r'[^\\,+";<>\x00]+')
_ESCAPE: Final = re.compile(r'\\([ "#+,;<=>\\]|[0-9A-Fa-f]{2})')
_HEX: Final = re.compile(r"#((?:[0-9A-Fa-f]{2})+) *(?=[,+]|$)")

_STRING_TAGS: Final = frozenset({0x04, 0x0C, 0x12, 0x13, 0x14, 0x16, 0x1A})
"""The tags of BER whose content is text: octet, UTF-8, numeric, printable, teletex, IA5, visible strings."""


def _parse(text: str) -> tuple[Rdn, ...]:
    if len(text) > DN_CHARS_MAX:
        raise InvalidDn(text, f"it has {len(text)} characters; at most {DN_CHARS_MAX} are allowed")
    if not text or text.isspace():
        return ()
    if _SPECIAL.search(text) is None:
        pieces = text.split(",")
        rdns = tuple(_plain_rdn(text, each) for each in pieces)
    else:
        rdns = _Scanner(text).rdns()
    if len(rdns) > RDNS_MAX:
        raise InvalidDn(text, f"it has {len(rdns)} parts; at most {RDNS_MAX} are allowed")
    return rdns


def _plain_rdn(text: str, piece: str) -> Rdn:
    attribute, sign, value = piece.partition("=")
    attribute = attribute.strip(" ")
    if not sign or ATTRIBUTE.fullmatch(attribute) is None:
        raise InvalidDn(text, f"{quoted(attribute)} is no attribute" if sign else "a part lacks its '='")
    try:
        return (Ava(attribute, value.strip(" ").encode()),)
    except UnicodeEncodeError as error:
        raise InvalidDn(text, "it is not Unicode text") from error


def parse_rdn(text: str) -> Rdn:
    """Read one RDN, such as a modify DN request names."""
    rdns = _parse(text)
    if len(rdns) != 1:
        raise InvalidDn(text, f"one RDN is expected here, not {len(rdns)}")
    return rdns[0]


class _Scanner:
    """Reads a name with escapes, hexadecimal values or several attributes in one RDN."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def rdns(self) -> tuple[Rdn, ...]:
        rdns = [self._rdn()]
        while self._at < len(self._text):
            self._at += 1  # a comma: nothing else ends an RDN
            rdns.append(self._rdn())
        return tuple(rdns)

    def _rdn(self) -> Rdn:
        avas = [self._ava()]
        while self._text[self._at : self._at + 1] == "+":
            self._at += 1
            avas.append(self._ava())
            if len(avas) > AVAS_MAX:
                raise InvalidDn(self._text, f"one RDN has more than {AVAS_MAX} attributes")
        if len({each.attribute.lower() for each in avas}) < len(avas):
            raise InvalidDn(self._text, "an RDN has the same attribute twice")
        return tuple(avas)

    def _ava(self) -> Ava:
        self._skip_space()
        found = ATTRIBUTE.match(self._text, self._at)
        if found is None:
            raise self._wrong("an attribute is expected")
        self._at = found.end()
        self._skip_space()
        if self._text[self._at : self._at + 1] != "=":
            raise self._wrong("'=' is expected")
        self._at += 1
        self._skip_space()
        if self._text[self._at : self._at + 1] == "#":
            return Ava(found[0], self._hexadecimal())
        return Ava(found[0], self._value())

    def _value(self) -> bytes:
        pieces = bytearray()
        kept = 0
        text = self._text
        while self._at < len(text):
            if (plain := _PLAIN.match(text, self._at)) is not None:
                try:
                    pieces += plain[0].encode()
                except UnicodeEncodeError as error:
                    raise self._wrong("a character that is no Unicode text") from error
                self._at = plain.end()
                kept = max(kept, len(pieces.rstrip(b" ")))
            elif (escape := _ESCAPE.match(text, self._at)) is not None:
                pieces += bytes.fromhex(escape[1]) if len(escape[1]) == 2 else escape[1].encode()
                self._at = escape.end()
                kept = len(pieces)
            elif text[self._at] in ",+":
                break
            elif text[self._at] == "\\":
                raise self._wrong("a backslash stands before two hexadecimal digits or a special character")
            else:
                raise self._wrong(f"{quoted(text[self._at])} needs a backslash before it")
        return bytes(pieces[:kept])

    def _hexadecimal(self) -> bytes:
        found = _HEX.match(self._text, self._at)
        if found is None:
            raise self._wrong("after '#' an even number of hexadecimal digits is expected")
        data = bytes.fromhex(found[1])
        header = 2
        length = data[1] if len(data) > 1 else -1
        if length > 0x80 and len(data) >= 2 + (length & 0x7F) <= 6:
            header += length & 0x7F
            length = int.from_bytes(data[2:header], "big")
        if length < 0 or data[0] not in _STRING_TAGS or length != len(data) - header:
            raise self._wrong("after '#' the BER encoding of a string is expected")
        self._at = found.end()
        return data[header:]

    def _skip_space(self) -> None:
        found = _SPACE.match(self._text, self._at)
        self._at = found.end() if found is not None else self._at

    def _wrong(self, problem: str) -> InvalidDn:
        return InvalidDn(self._text, f"{problem} at character {self._at + 1}")
