"""Groups that the domain makes for itself."""

from typing import Final

from holdfast.model.errors import InvalidRequest

PREFIX: Final = "holdfast."
"""Of the names of the domain's own groups, and of no others."""
NOTIFIER: Final = f"{PREFIX}faults"
"""The fault notifier (T6)."""
MANAGER: Final = f"{PREFIX}manager"
"""Not a group: under this name the replication manager is a consumer of the notifier (FTC-229)."""


class SystemGroup(InvalidRequest):
    """Raised when somebody would make or end a group that is the domain's own."""

    code = "system_group"


def is_system(name: str) -> bool:
    return name.startswith(PREFIX)


def check_not_system(name: str) -> None:
    """Raises :class:`SystemGroup`."""
    if is_system(name):
        raise SystemGroup(f"{name}: groups whose names begin with {PREFIX!r} are the domain's own")
