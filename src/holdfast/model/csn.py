"""The change sequence number: a value {T, S, r, s} and its string forms.

CSNs are ordered by T, then S, then r, then s. The strings are fixed-width lower-case hexadecimal, so that
comparing two strings of one form as plain text gives the same order (:func:`compare_text` also checks that
they are of one form).

===========  =======================  ============================  ==================
form mark    order of the parts       s is 0                        s is carried
===========  =======================  ============================  ==================
``0``        T S r [s]                ``03626325e0001a1a1`` (17)    21 characters
``1``        r T S [s]                ``1a1a13626325e0001`` (17)    21 characters
===========  =======================  ============================  ==================

For people, the parts are separated by hyphens: ``03626325e-0001-a1a1``. The parser accepts strings with all
of these hyphens, with one more after the mark, or with none. It refuses anything else and never guesses.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from enum import Enum
from typing import Annotated, Final

from msgspec import Meta, Struct

from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import ReplicaId

TIMESTAMP_MAX: Final = 0xFFFF_FFFF
"""The largest T: 2106-02-07T06:28:15Z, as the 32 bits are unsigned."""

SEQUENCE_MAX: Final = 0xFFFF
REPLICA_MAX: Final = 0xFFFF
SUB_SEQUENCE_MAX: Final = 0xFFFF

UInt16 = Annotated[int, Meta(ge=0, le=0xFFFF)]
UInt32 = Annotated[int, Meta(ge=0, le=0xFFFF_FFFF)]


class Csn(Struct, frozen=True, order=True, array_like=True, gc=False):
    """One change sequence number. Immutable, hashable, totally ordered; on the wire an array of its parts."""

    timestamp: UInt32
    """T: seconds since the Unix epoch, UTC. A logical time, only loosely the system clock."""
    sequence: UInt16
    """S: the order within one timestamp."""
    replica: Annotated[ReplicaId, Meta(ge=0, le=0xFFFF)]
    """r: the master that generated this number."""
    sub_sequence: UInt16 = 0
    """s: the order of the parts of one operation, or of the operations of one batch (S1)."""

    def __post_init__(self) -> None:
        if self.timestamp >> 32 or (self.sequence | self.replica | self.sub_sequence) >> 16:
            raise InvalidRequest(_out_of_range(self))

    @property
    def operation(self) -> "Csn":
        """This number without its s, which all parts of one operation share."""
        if not self.sub_sequence:
            return self
        return Csn(self.timestamp, self.sequence, self.replica)

    def part(self, index: int) -> "Csn":
        """The number of part *index* of this operation; part 0 has the operation's own number."""
        return Csn(self.timestamp, self.sequence, self.replica, index)

    def is_same_operation(self, other: "Csn") -> bool:
        """Whether both numbers are equal except for s."""
        return (
            self.sequence == other.sequence
            and self.timestamp == other.timestamp
            and self.replica == other.replica
        )

    def text(self) -> str:
        """The compact form, timestamp first: for storage, and the key of "all changes in order"."""
        if self.sub_sequence:
            return f"0{self.timestamp:08x}{self.sequence:04x}{self.replica:04x}{self.sub_sequence:04x}"
        return f"0{self.timestamp:08x}{self.sequence:04x}{self.replica:04x}"

    def replica_text(self) -> str:
        """The compact form, replica first: the key of "all changes of one replica in order"."""
        if self.sub_sequence:
            return f"1{self.replica:04x}{self.timestamp:08x}{self.sequence:04x}{self.sub_sequence:04x}"
        return f"1{self.replica:04x}{self.timestamp:08x}{self.sequence:04x}"

    def hyphenated(self) -> str:
        """The form for people: timestamp first, with hyphens between the parts."""
        compact = self.text()
        return "-".join(filter(None, (compact[:9], compact[9:13], compact[13:17], compact[17:])))

    def describe(self) -> str:
        """A description for logs and tools, such as ``1998-10-15T17:35:26Z #1 replica 41377``."""
        moment = datetime.fromtimestamp(self.timestamp, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        part = f" part {self.sub_sequence}" if self.sub_sequence else ""
        return f"{moment} #{self.sequence} replica {self.replica}{part}"

    def __str__(self) -> str:
        return self.text()


ZERO: Final = Csn(0, 0, ReplicaId(0))
"""The value of a CSN that has not been assigned yet: lower than every generated one."""


class Form(Enum):
    """The mark at the start of a string form, which says which part comes first."""

    TIMESTAMP_FIRST = "0"
    REPLICA_FIRST = "1"


class CsnSyntax(InvalidRequest):
    """Raised when a string is not a CSN; *position* is the index of the character at fault."""

    code = "csn_syntax"

    def __init__(self, text: str, position: int, fault: str) -> None:
        super().__init__(f"not a CSN: {text[:QUOTED_MAX]!r}: {fault} at position {position}")
        self.position = position
        self.fault = fault


QUOTED_MAX: Final = 32
"""How many characters of a wrong string an error repeats."""

_COMPACT: Final = re.compile("[01](?:[0-9a-f]{16}|[0-9a-f]{20})")
_WIDTHS: Final = {Form.TIMESTAMP_FIRST: (8, 4, 4, 4), Form.REPLICA_FIRST: (4, 8, 4, 4)}
_LENGTHS: Final = {17: (3, 0), 21: (4, 0), 19: (3, 2), 24: (4, 3), 20: (3, 3), 25: (4, 4)}
"""The length of a string to (how many parts, how many hyphens); no two layouts have the same length."""


def parse(text: str) -> Csn:
    """Parse any of the string forms. Raises :class:`CsnSyntax` with the position of the first fault."""
    return parse_form(text)[1]


def parse_form(text: str) -> tuple[Form, Csn]:
    """Parse any of the string forms, and return also which form it was."""
    compact = text if _COMPACT.fullmatch(text) else _without_hyphens(text)
    digits = int(compact[1:17], 16)
    sub_sequence = int(compact[17:], 16) if len(compact) == 21 else 0
    if compact[0] == "0":
        csn = Csn(digits >> 32, digits >> 16 & 0xFFFF, ReplicaId(digits & 0xFFFF), sub_sequence)
        return Form.TIMESTAMP_FIRST, csn
    replica = ReplicaId(digits >> 48)
    return Form.REPLICA_FIRST, Csn(digits >> 16 & 0xFFFF_FFFF, digits & 0xFFFF, replica, sub_sequence)


def compare_text(left: str, right: str) -> int:
    """-1, 0 or 1 as *left* sorts before, with or after *right*, in the order of their common form.

    Strings of different forms have no common order; they raise ``InvalidRequest``.
    """
    (left_form, left_csn), (right_form, right_csn) = parse_form(left), parse_form(right)
    if left_form is not right_form:
        raise InvalidRequest(
            f"CSN strings of different forms cannot be compared: {left} begins with the mark "
            f"{left_form.value}, {right} with {right_form.value}"
        )
    key = _KEYS[left_form]
    return (key(left_csn) > key(right_csn)) - (key(left_csn) < key(right_csn))


def _by_replica(csn: Csn) -> tuple[int, ...]:
    return csn.replica, csn.timestamp, csn.sequence, csn.sub_sequence


def _by_timestamp(csn: Csn) -> tuple[int, ...]:
    return csn.timestamp, csn.sequence, csn.replica, csn.sub_sequence


_KEYS: Final[dict[Form, Callable[[Csn], tuple[int, ...]]]] = {
    Form.TIMESTAMP_FIRST: _by_timestamp,
    Form.REPLICA_FIRST: _by_replica,
}


def _without_hyphens(text: str) -> str:
    """The compact form of *text*, which is hyphenated or faulty."""
    if text[:1] not in ("0", "1"):
        raise CsnSyntax(text, 0, "the form mark must be 0 or 1")
    layout = _LENGTHS.get(len(text))
    if layout is None:
        raise CsnSyntax(text, min(len(text), max(_LENGTHS)), f"no CSN has {len(text)} characters")
    hyphens = _hyphen_positions(Form(text[0]), *layout)
    for position, character in enumerate(text):
        if position in hyphens and character != "-":
            raise CsnSyntax(text, position, f"a hyphen must stand here, not {character!r}")
        if position not in hyphens and character not in "0123456789abcdef":
            raise CsnSyntax(
                text, position, f"a lower-case hexadecimal digit must stand here, not {character!r}"
            )
    return text.replace("-", "")


def _hyphen_positions(form: Form, parts: int, hyphens: int) -> tuple[int, ...]:
    """The positions of the hyphens: between the parts, and after the mark if there are as many as parts."""
    if not hyphens:
        return ()
    positions = []
    position = 1
    if hyphens == parts:
        positions.append(position)
        position += 1
    for width in _WIDTHS[form][: parts - 1]:
        position += width
        positions.append(position)
        position += 1
    return tuple(positions)


def _out_of_range(csn: Csn) -> str:
    parts = (
        ("timestamp", csn.timestamp, TIMESTAMP_MAX),
        ("sequence", csn.sequence, SEQUENCE_MAX),
        ("replica", csn.replica, REPLICA_MAX),
        ("sub_sequence", csn.sub_sequence, SUB_SEQUENCE_MAX),
    )
    faults = (
        f"{name} {value} is not within 0..{limit}" for name, value, limit in parts if not 0 <= value <= limit
    )
    return "no such CSN: " + ", ".join(faults)
