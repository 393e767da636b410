"""References: where a group is, as of one view; and what a host does with a request that carries one.

A reference's version is its view's epoch (V6), so the newer of two is never in doubt.
"""

from enum import Enum, auto
from typing import Annotated, Final

from msgspec import Meta, Struct

from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import Epoch, GroupId, HostId

MEMBERS_MAX: Final = 64
NAME_CHARACTERS_MAX: Final = 100
ADDRESS_CHARACTERS_MAX: Final = 300

Name = Annotated[str, Meta(min_length=1, max_length=NAME_CHARACTERS_MAX)]
AddressText = Annotated[str, Meta(max_length=ADDRESS_CHARACTERS_MAX)]


def is_sendable(text: str) -> bool:
    """Whether it can be sent at all: half a surrogate pair cannot."""
    return text == text.encode(errors="ignore").decode()


def check_group_name(name: str) -> None:
    """Raises ``InvalidRequest`` unless a new group may have that name: one that fits into a line of a log
    and of a command."""
    if not name.isprintable() or name != name.strip():
        raise InvalidRequest(
            f"{name!r} is no name for a group: it may hold no control characters, "
            "and neither begin nor end with a space"
        )


class MemberAddress(Struct, frozen=True, array_like=True):
    """A member's host and where it listens, as ``host:port``."""

    host: HostId
    address: AddressText


class Reference(Struct, frozen=True, array_like=True):
    """All that a client needs to call a group: every address of it, each a place to try (FTC-70)."""

    group: GroupId
    name: Name
    version: Epoch
    primary: HostId
    members: Annotated[tuple[MemberAddress, ...], Meta(max_length=MEMBERS_MAX)]

    @property
    def hosts(self) -> tuple[HostId, ...]:
        """The primary first, then the others."""
        others = (member.host for member in self.members if member.host != self.primary)
        return (self.primary, *others)


class Routing(Enum):
    """What a host does with a request, by the version it carries (FTC 27.2.7.1)."""

    SERVE = auto()
    FORWARD = auto()
    """Answer with the newest reference; nothing was executed."""
    NOT_PRIMARY = auto()
    """Turn it away unexecuted: the client tries another address."""
    LOOK_UP = auto()
    """The request knows of a newer view than this host: ask the authority, then judge again."""
    BAD_REFERENCE = auto()
    """The request's version was never issued."""


def route(asked: Epoch, known: Epoch, *, is_primary: bool, is_looked_up: bool = False) -> Routing:
    """Judge a request of version *asked* at a host that knows *known*, which the authority has just
    confirmed if *is_looked_up* (FTC-78 to 84)."""
    if known > asked:
        return Routing.FORWARD
    if known < asked:
        return Routing.BAD_REFERENCE if is_looked_up else Routing.LOOK_UP
    return Routing.SERVE if is_primary else Routing.NOT_PRIMARY
