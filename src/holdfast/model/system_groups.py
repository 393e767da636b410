"""The groups that the domain creates for itself."""

from typing import Final

from holdfast.model.errors import InvalidRequest

PREFIX: Final = "holdfast."
"""The names of the domain's own groups, and only those, begin with this."""
NOTIFIER: Final = f"{PREFIX}faults"
"""The fault notifier (T6)."""
MANAGER: Final = f"{PREFIX}manager"
"""The name under which the replication manager consumes the notifier's reports (FTC-229); not a group."""


class SystemGroup(InvalidRequest):
    """Raised when somebody tries to create or delete a group that is the domain's own."""

    code = "system_group"


def is_system(name: str) -> bool:
    return name.startswith(PREFIX)


def check_not_system(name: str) -> None:
    """Raise :class:`SystemGroup` if *name* is that of a group of the domain's own."""
    if is_system(name):
        raise SystemGroup(f"{name}: groups whose names begin with {PREFIX!r} are the domain's own")
