"""References: where a group is as of one view, and how a host routes a request that carries one.

A reference's version is its view's epoch (V6), so it is always clear which of two is newer.

Groups can also refer to groups of other domains (FTC-6). Such a reference consists of the other domain's
address, as programs connect to it, and the group's name there:
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
    """Whether *text* can be sent; half a surrogate pair cannot."""
    return text == text.encode(errors="ignore").decode()


def check_group_name(name: str) -> None:
    """Raise ``InvalidRequest`` unless a new group may have that name, which must fit into a line of a log and
    of a command."""
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
    """Everything that a client needs to call a group: all its addresses, each a place to try (FTC-70)."""

    group: GroupId
    name: Name
    version: Epoch
    primary: HostId
    members: Annotated[tuple[MemberAddress, ...], Meta(max_length=MEMBERS_MAX)]

    @property
    def hosts(self) -> tuple[HostId, ...]:
        """The hosts, the primary's first."""
        others = (member.host for member in self.members if member.host != self.primary)
        return (self.primary, *others)


class Routing(Enum):
    """What a host does with a request, by the version that it carries (FTC 27.2.7.1)."""

    SERVE = auto()
    FORWARD = auto()
    """Answer with the newest reference; nothing was executed."""
    NOT_PRIMARY = auto()
    """Turn the request away without executing it; the client tries another address."""
    LOOK_UP = auto()
    """The request knows of a newer view than this host: ask the authority, then decide again."""
    BAD_REFERENCE = auto()
    """The request's version was never issued."""


def route(asked: Epoch, known: Epoch, *, is_primary: bool, is_looked_up: bool = False) -> Routing:
    """Decide about a request of version *asked* at a host that knows *known*, which the authority has just
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
    """The name of a domain, and addresses of some of its hosts."""

    name: str
    addresses: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GroupAbroad:
    domain: OtherDomain
    name: str


def group_abroad(url: str, name: str) -> str:
    """The reference of the group *name* in the domain at *url*. Raises ``InvalidRequest``."""
    found = _DOMAIN.fullmatch(url)
    if found is None or found["addresses"].count(",") >= ADDRESSES_MAX:
        raise InvalidRequest(f"{url!r}: must be {SCHEME}host:port[,host:port...]/domain")
    if not 0 < len(name) <= NAME_CHARACTERS_MAX:
        raise InvalidRequest(f"a group's name has 1 to {NAME_CHARACTERS_MAX} characters")
    return f"{url}/{name}"


def parse_group_abroad(reference: str) -> GroupAbroad | None:
    """Parse what :func:`group_abroad` returns; None for the name of a group of this domain."""
    found = _DOMAIN.match(reference)
    if found is None or reference[found.end() :][:1] != "/":
        return None
    domain = OtherDomain(found["domain"], tuple(found["addresses"].split(",")))
    return GroupAbroad(domain, reference[found.end() + 1 :])


def chain_abroad(chain: tuple[str, ...], home: str, there: str) -> tuple[str, ...]:
    """The groups that wait for a call, as the domain *there* names them: its own by name, all others with
    their domains. So a cycle through several domains is found where it closes."""
    with_domains = (each if each.startswith(SCHEME) else f"{SCHEME}{home}/{each}" for each in chain)
    # Two domains with the same name cannot be told apart here. A cycle that ends by expiration is better than
    # refusing a call for a cycle that does not exist.
    own = f"{SCHEME}{there}/" if there != home else ""
    return tuple(each.removeprefix(own) if own else each for each in with_domains)
