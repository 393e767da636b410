"""What a host is for: its roles, which say what may be placed on it.

A host that does directory or search work keeps its loop and its memory for that: it houses no ordinary
groups, unless it has that role too.
"""

from collections.abc import Iterable
from typing import Final

from holdfast.model.errors import InvalidRequest

GROUPS: Final = "groups"
"""It houses members of ordinary groups."""
DIRECTORY: Final = "directory"
SEARCH: Final = "search"
"""It holds index data (IM-122)."""
STREAMS: Final = "streams"
ROLES: Final = (GROUPS, DIRECTORY, SEARCH, STREAMS)
DEFAULT_ROLES: Final = (GROUPS,)


def checked_roles(roles: Iterable[str]) -> tuple[str, ...]:
    """*roles* in their usual order. Raises ``InvalidRequest`` for none, and for one that there is not."""
    given = tuple(roles)
    unknown = next((each for each in given if each not in ROLES), None)
    if unknown is not None:
        raise InvalidRequest(f"there is no role {unknown!r} of hosts; there are: {', '.join(ROLES)}")
    if not given:
        raise InvalidRequest(f"a host has at least one role of: {', '.join(ROLES)}")
    return tuple(each for each in ROLES if each in given)


def parsed_roles(text: str) -> tuple[str, ...]:
    """The roles in *text*, as ``groups,search``. Raises ``InvalidRequest``."""
    return checked_roles(each.strip() for each in text.split(","))
