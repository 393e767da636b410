"""The part of BER that LDAP uses (RFC 4511, 5.1), written for speed.

Lengths are definite, tags are one byte, octet strings are primitive. Lengths may have leading zeros, as
libldap and others send them. Nothing is copied but the values themselves, and nothing is allocated for a
length before the bytes are there.

:class:`Splitter` cuts a stream of bytes into whole messages; :class:`Reader` walks through one of them. The
functions at the end write.
"""

from typing import Final

SEQUENCE: Final = 0x30
SET: Final = 0x31
BOOLEAN: Final = 0x01
INTEGER: Final = 0x02
OCTETS: Final = 0x04
NULL: Final = 0x05
ENUMERATED: Final = 0x0A

CONSTRUCTED: Final = 0x20
HIGH_TAG: Final = 0x1F
"""The tag number that announces a longer tag; LDAP has none."""

LENGTH_BYTES_MAX: Final = 4
"""How many bytes may state a length. Four reach 4 GiB, beyond every bound of ours."""

INTEGER_BYTES_MAX: Final = 8
"""How long an integer may be: LDAP's own end at 2^31 - 1, and extensions at 2^63 - 1."""

HEADER_BYTES_MAX: Final = 2 + LENGTH_BYTES_MAX


class BerError(ValueError):
    """Raised when bytes are not the BER that was expected; the text says what was found, and where."""


class NotUtf8(BerError):
    """Raised when a string is not UTF-8. The elements around it are sound, so reading may go on."""


class Splitter:
    """Cuts a stream into messages: ``feed`` what arrived, then ``take`` until it returns None.

    The split of the bytes makes no difference. A header that is wrong, or announces more than ``bytes_max``,
    raises :class:`BerError` before any of that message is kept, and again at each further call. A peer can
    make the splitter hold one message of that length, and what arrived together with its end.
    """

    __slots__ = ("_at", "_data", "_fault", "_partial", "bytes_max", "missing")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        """The bound on whole messages, header and all. It may change between two calls (after a bind)."""
        self.missing = 2
        """How many more bytes are needed, at least, before there can be a message."""
        self._data = b""
        self._at = 0
        self._partial = bytearray()
        self._fault: BerError | None = None

    @property
    def held_bytes(self) -> int:
        return len(self._partial) + len(self._data) - self._at

    def feed(self, data: bytes) -> None:
        """Add what arrived. Messages that were whole before need not have been taken."""
        if self._at < len(self._data):
            data = self._data[self._at :] + data
        if self._partial:
            self._partial += data
            if len(data) < self.missing:
                self.missing -= len(data)
                return
            data = bytes(self._partial)
            self._partial = bytearray()
        self._data = data
        self._at = 0

    def take(self) -> bytes | None:
        """Return the next whole message, or None when ``missing`` bytes are needed first."""
        if self._fault is not None:
            raise self._fault
        if self._partial:
            return None
        data, at = self._data, self._at
        held = len(data) - at
        if held < 2:
            self._wait_for(2 - held)
            return None
        if data[at] != SEQUENCE:
            raise self._broken(f"a message begins with the byte 0x30, not 0x{data[at]:02x}")
        length = data[at + 1]
        header = 2
        if length >= 0x80:
            more = length & 0x7F
            if not 0 < more <= LENGTH_BYTES_MAX:
                raise self._broken(
                    "a length of indefinite form"
                    if not more
                    else f"a length that is itself {more} bytes long"
                )
            header += more
            if held < header:
                self._wait_for(header - held)
                return None
            length = int.from_bytes(data[at + 2 : at + header], "big")
        size = header + length
        if size > self.bytes_max:
            raise self._broken(f"a message of {size} bytes; at most {self.bytes_max} are allowed")
        if held < size:
            self._wait_for(size - held)
            return None
        if at == 0 and held == size:
            self._data = b""
            self.missing = 2
            return data
        self._at = at + size
        return data[at : at + size]

    def _wait_for(self, missing: int) -> None:
        self.missing = missing
        if self._at < len(self._data):
            self._partial = bytearray(self._data[self._at :])
        self._data, self._at = b"", 0

    def _broken(self, what: str) -> BerError:
        self._fault = BerError(what)
        self._data, self._at, self._partial = b"", 0, bytearray()
        return self._fault


class Reader:
    """Walks through the elements between two places of some bytes. Every method takes the next element."""

    __slots__ = ("at", "data", "end")

    def __init__(self, data: bytes, at: int = 0, end: int | None = None) -> None:
        self.data = data
        self.at = at
        self.end = len(data) if end is None else end

    @property
    def is_done(self) -> bool:
        return self.at >= self.end

    def peek(self) -> int:
        """The tag of the next element, or -1 at the end."""
        return self.data[self.at] if self.at < self.end else -1

    def header(self) -> tuple[int, int, int]:
        """Take the next element: its tag, and where its content begins and ends."""
        data, at, end = self.data, self.at, self.end
        if at + 2 > end:
            raise BerError(f"the data end at byte {at} where an element should begin")
        tag = data[at]
        length = data[at + 1]
        at += 2
        if length >= 0x80:
            more = length & 0x7F
            if not 0 < more <= LENGTH_BYTES_MAX:
                raise BerError(f"the length at byte {at - 1} has a form that LDAP does not allow")
            length = int.from_bytes(data[at : at + more], "big")
            at += more
        stop = at + length
        if stop > end:
            raise BerError(f"the element at byte {self.at} is longer than what holds it")
        if tag & HIGH_TAG == HIGH_TAG:
            raise BerError(f"the tag at byte {self.at} is longer than LDAP's")
        self.at = stop
        return tag, at, stop

    def _take(self, tag: int, what: str) -> tuple[int, int]:
        begin = self.at
        found, start, stop = self.header()
        if found != tag:
            self.at = begin
            raise BerError(f"{what} (tag 0x{tag:02x}) is expected at byte {begin}, not tag 0x{found:02x}")
        return start, stop

    def octets(self, tag: int = OCTETS) -> bytes:
        data, at = self.data, self.at
        stop = at + 2
        # Nearly all are short: this path is a third of the cost of decoding a request.
        if stop <= self.end and data[at] == tag and (length := data[at + 1]) < 0x80:
            end = stop + length
            if end <= self.end:
                self.at = end
                return data[stop:end]
        start, stop = self._take(tag, "an octet string")
        return data[start:stop]

    def text(self, tag: int = OCTETS) -> str:
        """Take an octet string of UTF-8."""
        data, at = self.data, self.at
        start = at + 2
        try:
            if start <= self.end and data[at] == tag and (length := data[at + 1]) < 0x80:
                stop = start + length
                if stop <= self.end:
                    self.at = stop
                    return data[start:stop].decode()
            return self.octets(tag).decode()
        except UnicodeDecodeError as error:
            raise NotUtf8(f"the string at byte {at} is not UTF-8") from error

    def integer(self, tag: int = INTEGER) -> int:
        data, at = self.data, self.at
        if at + 3 <= self.end and data[at] == tag and data[at + 1] == 1:
            self.at = at + 3
            value = data[at + 2]
            return value if value < 0x80 else value - 0x100
        start, stop = self._take(tag, "an integer")
        if not 0 < stop - start <= INTEGER_BYTES_MAX:
            raise BerError(f"the integer at byte {at} has {stop - start} bytes; 1 to 8 are allowed")
        return int.from_bytes(data[start:stop], "big", signed=True)

    def enumerated(self) -> int:
        data, at = self.data, self.at
        if at + 3 <= self.end and data[at] == ENUMERATED and data[at + 1] == 1 and data[at + 2] < 0x80:
            self.at = at + 3
            return data[at + 2]
        return self.integer(ENUMERATED)

    def boolean(self, tag: int = BOOLEAN) -> bool:
        """Take a boolean. RFC 4511 sends TRUE as 0xFF; some clients send 1, which BER allows."""
        data, at = self.data, self.at
        if at + 3 <= self.end and data[at] == tag and data[at + 1] == 1:
            self.at = at + 3
            return data[at + 2] != 0
        start, stop = self._take(tag, "a boolean")
        if stop - start != 1:
            raise BerError(f"the boolean at byte {at} has {stop - start} bytes instead of 1")
        return data[start] != 0

    def inside(self, tag: int = SEQUENCE) -> "Reader":
        """Take a constructed element, and return a reader of what is in it."""
        data, at = self.data, self.at
        start = at + 2
        if start <= self.end and data[at] == tag and (length := data[at + 1]) < 0x80:
            stop = start + length
            if stop <= self.end:
                self.at = stop
                return Reader(data, start, stop)
        start, stop = self._take(tag, "a sequence" if tag == SEQUENCE else "a constructed element")
        return Reader(data, start, stop)

    def ignore_rest(self) -> None:
        """Pass over what a later version may have added (RFC 4511, 4), which must still be elements."""
        while self.at < self.end:
            self.header()

    def demand_end(self) -> None:
        if self.at < self.end:
            raise BerError(f"there is something left at byte {self.at}, where nothing more is expected")


# --- writing

_SHORT: Final = tuple(bytes([length]) for length in range(0x80))


def length_bytes(length: int) -> bytes:
    """Write a length in its shortest form."""
    if length < 0x80:
        return _SHORT[length]
    count = (length.bit_length() + 7) // 8
    return bytes((0x80 | count,)) + length.to_bytes(count, "big")


def element(tag: int, content: bytes) -> bytes:
    length = len(content)
    if length < 0x80:
        return bytes((tag, length)) + content
    return bytes((tag,)) + length_bytes(length) + content


def octets(value: bytes, tag: int = OCTETS) -> bytes:
    return element(tag, value)


def text(value: str, tag: int = OCTETS) -> bytes:
    return element(tag, value.encode())


_SMALL: Final = 128


def integer(value: int, tag: int = INTEGER) -> bytes:
    if 0 <= value < _SMALL:
        return bytes((tag, 1, value))
    count = (value.bit_length() if value >= 0 else (~value).bit_length()) // 8 + 1
    if count > INTEGER_BYTES_MAX:
        raise BerError(f"an integer of {count} bytes; at most {INTEGER_BYTES_MAX} are sent")
    return bytes((tag, count)) + value.to_bytes(count, "big", signed=True)


def enumerated(value: int) -> bytes:
    return integer(value, ENUMERATED)


def boolean(value: bool, tag: int = BOOLEAN) -> bytes:
    return bytes((tag, 1, 0xFF if value else 0))


def sequence(*parts: bytes, tag: int = SEQUENCE) -> bytes:
    return element(tag, b"".join(parts))
