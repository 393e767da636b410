"""References: where a group is, as of one view; and what a host does with a request that carries one.

A reference's version is its view's epoch (V6), so the newer of two is never in doubt.

Groups of other domains, as the groups of this one name them (FTC-6).

A reference is the other domain's address, as programs connect to it, and the group's name there:
``holdfast://10.0.0.1:7400,10.0.0.2:7400/other/stock``.
"""

import re
from dataclasses import dataclass
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


SCHEME: Final = "holdfast://"
ADDRESSES_MAX: Final = 64
_DOMAIN: Final = re.compile(
    rf"{SCHEME}(?P<addresses>[^/,\s]+:\d+(,[^/,\s]+:\d+)*)/(?P<domain>[A-Za-z0-9][A-Za-z0-9._-]{{0,99}})"
)


@dataclass(frozen=True, slots=True)
class OtherDomain:
    """A domain, and where some of its hosts listen."""

    name: str
    addresses: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GroupAbroad:
    domain: OtherDomain
    name: str


def group_abroad(url: str, name: str) -> str:
    """The reference of the group of that name in the domain at *url*. Raises ``InvalidRequest``."""
    found = _DOMAIN.fullmatch(url)
    if found is None or found["addresses"].count(",") >= ADDRESSES_MAX:
        raise InvalidRequest(f"{url!r}: must be {SCHEME}host:port[,host:port...]/domain")
    if not 0 < len(name) <= NAME_CHARACTERS_MAX:
        raise InvalidRequest(f"a group's name has 1 to {NAME_CHARACTERS_MAX} characters")
    return f"{url}/{name}"


def parse_group_abroad(reference: str) -> GroupAbroad | None:
    """What :func:`group_abroad` made; None of the name of a group of this domain."""
    found = _DOMAIN.match(reference)
    if found is None or reference[found.end() :][:1] != "/":
        return None
    domain = OtherDomain(found["domain"], tuple(found["addresses"].split(",")))
    return GroupAbroad(domain, reference[found.end() + 1 :])


def chain_abroad(chain: tuple[str, ...], home: str, there: str) -> tuple[str, ...]:
    """The groups that wait for a call, as the domain *there* shall know them: its own by their names, all
    others with their domains. So a circle through several domains is seen where it closes."""
    with_domains = (each if each.startswith(SCHEME) else f"{SCHEME}{home}/{each}" for each in chain)
    # Two domains of one name cannot be told apart here: rather a circle that ends by expiration than a call
    # that is refused for a circle that is none.
    own = f"{SCHEME}{there}/" if there != home else ""
    return tuple(each.removeprefix(own) if own else each for each in with_domains)
