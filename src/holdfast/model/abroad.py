"""Groups of other domains, as the groups of this one name them (FTC-6).

A reference is the other domain's address, as programs connect to it, and the group's name there:
``holdfast://10.0.0.1:7400,10.0.0.2:7400/other/stock``.
"""

import re
from dataclasses import dataclass
from typing import Final

from holdfast.model.errors import InvalidRequest
from holdfast.model.reference import NAME_CHARACTERS_MAX

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
