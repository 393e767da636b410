"""What a member stands on: who it is, and the log and checkpoints of the durability that its group has."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from holdfast.authority.views import ViewMember
from holdfast.model.ids import GroupId, Position
from holdfast.sequence.ports import Captured, Checkpoints, HostPorts, Kept


class Keeps(Checkpoints, Protocol):
    """The checkpoints of a host's groups."""

    def newest(self, group: GroupId) -> Kept | None:
        """The newest state there is."""
        ...

    def opened(self, group: GroupId) -> Kept | None:
        """The newest state at the start of this process, with the log brought in line."""
        ...

    def keep(self, group: GroupId, captured: Captured) -> None:
        """A style's own, of a committed position; afterwards what lies before it may be let go."""
        ...

    def is_writing(self, group: GroupId) -> bool:
        """Whether one is on its way to where it is kept."""
        ...

    def void(self, group: GroupId, after: Position) -> None:
        """What was kept beyond *after* is not of the group's object (E8)."""
        ...

    def void_up_to(self, group: GroupId) -> Position | None:
        """What is kept up to here must not be loaded; None when it may."""
        ...

    def forget(self, group: GroupId, then: Callable[[], None]) -> None:
        """Forget all that is held of *group*, durably; *then* it may begin with nothing (V4)."""
        ...


@dataclass(frozen=True, slots=True)
class Ground:
    """Of all members of one durability on one host."""

    me: ViewMember
    ports: HostPorts
    keeping: Keeps
    is_doubtful: Callable[[], bool]
    """Whether the log's tail was cut when it was opened, and not compared since (D2)."""
