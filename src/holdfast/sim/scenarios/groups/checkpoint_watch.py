"""Requires that no state that differs from the group's becomes a checkpoint, however it was captured (E8).

It may where the log is long, and in groups that were misled: there it has become the group's. What a copy of
the process holds of the object that serves may, too: that object answers from now on.
"""

from collections.abc import Callable
from weakref import ReferenceType, ref

from holdfast.execution.execution import Execution
from holdfast.groups.host_groups import HostGroups
from holdfast.groups.ports import Written
from holdfast.model.ids import GroupId, HostId, Position
from holdfast.sequence.ports import Captured
from holdfast.sim.scenarios.groups.copies import SimulatedCopies
from holdfast.sim.scenarios.groups.observer import Book
from holdfast.storage.checkpoint import Checkpoint, Framing
from holdfast.styles.ports import NotCopied, Snapshot
from holdfast.styles.replica import Replica


def watch_checkpoints(
    me: HostId, groups: HostGroups, copies: SimulatedCopies, book: Book, long_log_bytes: int
) -> None:
    """Watch what one process keeps. A log of *long_log_bytes* is long."""
    divergences = book.health.divergences
    keep, adopt, begin = groups.checkpoints.keep, groups.checkpoints.adopt, copies.begin
    differing: dict[Checkpoint, ReferenceType[object]] = {}
    """The copies whose object differed when they began, and that object."""

    def check(group: GroupId, position: Position) -> None:
        hosted = groups.hosted.get(group)
        is_wrong = hosted is not None and hosted.member.log_bytes < long_log_bytes
        if is_wrong and group not in divergences.misled:
            said = f"{me}: the state of group {group} at {position} differs and is kept"
            book.world.violation("E8", said)

    def kept(group: GroupId, captured: Captured) -> None:
        instance = _instance(groups, group)
        if instance is not None and divergences.differs_at(instance, captured.position):
            check(group, captured.position)
        keep(group, captured)

    def begun(
        name: str, framing: Framing, snapshot: Snapshot, then: Callable[[Written | NotCopied], None]
    ) -> bool:
        is_begun = begin(name, framing, snapshot, then)
        execution = getattr(snapshot.pieces, "__self__", None)
        assert isinstance(execution, Execution)
        instance = execution.line.instance
        if is_begun:
            differing.pop(framing.described, None)  # of an earlier copy, which was dropped
        if is_begun and divergences.differs_at(instance, snapshot.position):
            differing[framing.described] = ref(instance)
        return is_begun

    def adopted(group: GroupId, copied: Checkpoint, then: Callable[[], None]) -> None:
        of = differing.pop(copied, None)
        if of is not None and (of() is None or of() is not _instance(groups, group)):
            check(group, copied.point.position)
        adopt(group, copied, then)

    groups.checkpoints.keep = kept  # type: ignore[method-assign]  # observes only
    groups.checkpoints.adopt = adopted  # type: ignore[method-assign]  # observes only
    copies.begin = begun  # type: ignore[method-assign]  # observes only


def _instance(groups: HostGroups, group: GroupId) -> object | None:
    hosted = groups.hosted.get(group)
    execution = hosted.style.execution if hosted and isinstance(hosted.style, Replica) else None
    return execution.line.instance if execution is not None else None
