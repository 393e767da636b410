"""Keeps a reserve of free space on the host's disk, so that a disk that fills up does not end the host (D5).

A full disk ends a host (D1), with all its groups. So a host looks at the free space from time to time. Below
the reserve it is *short of space*: no operation is ordered that its members must keep, and groups that it
leads are handed to members that have space, if there are any. What was ordered before, and what keeps the
groups together, still fits into the reserve. Queries are answered throughout.

Often it is the host's own log that has filled the disk, and what shortens a log is a checkpoint. So a host
that is short of space helps itself, one group after the other, the one first that keeps the oldest file of
the log: the group makes a checkpoint if its state fits into the half of the reserve that is for that, one
checkpoint is kept instead of two, the log before it goes, and what little keeps an old file alive is copied
forward. :meth:`DiskSpace.why` says what is left when all that was done.
"""

from collections.abc import Hashable, Mapping
from typing import Final, Protocol

from holdfast.groups.checkpoint_keeper import CheckpointKeeper
from holdfast.groups.hosted_group import HostedGroup
from holdfast.groups.ports import Journal, MakeTimers
from holdfast.model.ids import SECOND, GroupId
from holdfast.sequence.ports import Space
from holdfast.storage.free_space import FreeSpace, SpaceConfig
from holdfast.storage.log import Log
from holdfast.styles.ports import DiskRoom
from holdfast.styles.replica import Replica

PASS_ON_NS: Final = 5 * SECOND
"""The pause between two attempts to hand over the groups of a host that is short of space."""
AT_ONCE: Final = 2
"""Hosts that share a disk may be short of space together; so many may write a checkpoint at once."""
LEFT_OVER: Final = 8
"""When that half is used up, one checkpoint may have this part of what is left."""
TURN_LOOKS: Final = 2
"""A group that has not begun a checkpoint after so many looks has none to make; the next one has its turn."""
NAMED_MAX: Final = 5
"""How many groups are named among those that keep the log."""


class GroupRoom(DiskRoom):
    """The room that one group's checkpoints have while its host is short of space."""

    def __init__(self, space: "DiskSpace", hosted: HostedGroup) -> None:
        self._space = space
        self._hosted = hosted

    def bytes_max(self) -> int | None:
        return self._space.bytes_max(self._hosted)


class SpaceOfStore(Protocol):
    """What takes space in a host's store."""

    @property
    def log(self) -> Log: ...

    def space(self) -> FreeSpace | None:
        """The space on the disk; None if it is unknown."""
        ...


class DiskSpace(Space):
    """Knows whether this host is short of space, and does what it can against it."""

    def __init__(
        self,
        store: "SpaceOfStore",
        hosted: Mapping[GroupId, HostedGroup],
        timers: MakeTimers,
        journal: Journal,
        config: SpaceConfig,
    ) -> None:
        self.is_short = False
        self._look = store.space
        self._log = store.log
        self._free = self._reserve = 0
        self._turn: GroupId | None = None
        self._turn_looks = 0
        self._hosted = hosted
        self._journal = journal
        self._config = config
        self._passed_on_ns = 0
        self._timers = timers(self._on_timer)
        self._judge()
        self._timers.set(config.look_ns, "look")

    def tune(self, config: SpaceConfig) -> None:
        self._config = config

    def close(self) -> None:
        self._timers.close()

    def _on_timer(self, tag: Hashable) -> None:
        was_short = self.is_short
        self._judge()
        if self.is_short:
            self._pass_on()
            self._relieve()
        elif was_short:
            self._turn = None
            self._log.shorten(0)
        self._timers.set(self._config.look_ns, "look")

    def _judge(self) -> None:
        was_short, space = self.is_short, self._look()
        if space is None:
            self.is_short = False
            return
        reserve = self._config.reserve_of(space)
        self._free, self._reserve = space.free, reserve
        enough = reserve * self._config.enough_percent // 100 if was_short else reserve
        self.is_short = space.free < enough
        if self.is_short and not was_short:
            said = "the disk is nearly full: operations are refused until there is space again"
            self._journal.error(said, free_bytes=space.free, reserve_bytes=reserve)
            self._passed_on_ns = PASS_ON_NS
        elif was_short and not self.is_short:
            self._journal.warning("the disk has space again", free_bytes=space.free)

    def _pass_on(self) -> None:
        self._passed_on_ns += self._config.look_ns
        if self._passed_on_ns < PASS_ON_NS:
            return
        self._passed_on_ns = 0
        for hosted in list(self._hosted.values()):
            if hosted.is_primary and hosted.member.lacks_space is not None:
                hosted.pass_on("its host is short of disk space", has_space=True)

    # --- helping itself

    @property
    def _spare(self) -> int:
        """How much of what is free may be used to free more."""
        return max(self._free - self._reserve // 2, 0)

    @property
    def _room(self) -> int:
        """How much one checkpoint may take. A small one may free much, however little is left for it."""
        return max(self._spare // AT_ONCE, self._free // LEFT_OVER)

    def room_of(self, hosted: HostedGroup) -> DiskRoom:
        """The room for checkpoints of the group. One in memory has its own rule (E5)."""
        return GroupRoom(self, hosted) if self._on_disk(hosted) is not None else DiskRoom()

    def bytes_max(self, hosted: HostedGroup) -> int | None:
        """How large a checkpoint of the group may be now; None: there is no bound. A backup makes its
        checkpoints where the primary makes them, so it waits for no turn."""
        if not self.is_short:
            return None
        return self._room if hosted.group == self._turn or not hosted.is_primary else 0

    def fits(self, size: int) -> bool:
        """Whether a learner may take so many bytes: records with which it may shorten its log, or a state in
        place of it. They count as written until the next look."""
        if not self.is_short:
            return True
        is_room = size < self._room or not size
        self._free -= size * is_room
        return is_room

    def _relieve(self) -> None:
        """Let one group make a checkpoint, and drop what the checkpoints that there are make superfluous."""
        order = [group for group in self._log.oldest_first() if group in self._hosted]
        for group in order:
            keeping = self._on_disk(self._hosted[group])
            if keeping is not None:
                keeping.shed(group)
        self._log.shorten(self._spare)
        if not self._is_turn_over():
            return
        led = [group for group in order if self._hosted[group].is_primary]
        at = led.index(self._turn) + 1 if self._turn in led else 0
        self._turn, self._turn_looks = led[at] if at < len(led) else None, 0
        for group in order:
            style = self._hosted[group].style
            if isinstance(style, Replica) and (group == self._turn or (at == 0 and group not in led)):
                style.relieve()

    def _is_turn_over(self) -> bool:
        hosted = self._hosted.get(self._turn) if self._turn is not None else None
        keeping = None if hosted is None else self._on_disk(hosted)
        self._turn_looks += 1
        if hosted is None or keeping is None:
            return True
        is_at_it = keeping.is_writing(hosted.group) or (hosted.copies is not None and hosted.copies.is_busy)
        return not is_at_it and self._turn_looks >= TURN_LOOKS

    def _on_disk(self, hosted: HostedGroup) -> CheckpointKeeper | None:
        """What keeps the group's checkpoints, if its log is the host's."""
        backend = hosted.backend
        keeping = backend.keeping
        return keeping if backend.ports.log is self._log and isinstance(keeping, CheckpointKeeper) else None

    def why(self) -> str:
        """What takes the space, for people; empty while there is enough."""
        if not self.is_short:
            return ""
        groups = [group for group in self._log.oldest_first() if group in self._hosted]
        named = ", ".join(self._keeps(group) for group in groups[:NAMED_MAX]) or "no group"
        more = f" and {len(groups) - NAMED_MAX} more" if len(groups) > NAMED_MAX else ""
        return (
            f"{_mb(self._free)} are free, and {_mb(self._reserve)} are to be; the host's log has "
            f"{_mb(self._log.bytes_on_disk)}, the oldest file first for {named}{more}; "
            "all else is checkpoints and what is not this host's"
        )

    def _keeps(self, group: GroupId) -> str:
        """How much of the log a group needs, and why it does not need less, as far as that is known."""
        hosted = self._hosted[group]
        size = hosted.style.state_bytes if isinstance(hosted.style, Replica) else 0
        why = hosted.why_no_checkpoint
        if not why and size >= self._room:
            why = f"its state of {_mb(size)} is more than the {_mb(self._room)} there is room for"
        said = f", no checkpoint: {why}" if why else ""
        return f"{hosted.record.name} ({_mb(self._log.live_bytes(group))}{said})"


def _mb(size: int) -> str:
    return f"{size / (1 << 20):.1f} MB"
