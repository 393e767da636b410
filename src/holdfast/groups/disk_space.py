"""Keeps a reserve of free space on the host's disk, so that a disk that fills up does not end the host (D5).

A full disk ends a host (D1), with all its groups. So a host looks at the free space from time to time. Below
the reserve it is *short of space*: no operation is ordered that its members must keep, no checkpoint is
begun, and groups that it leads are handed to members that have space, if there are any. What was ordered
before, and what keeps the groups together, still fits into the reserve. Queries are answered throughout.
"""

from collections.abc import Callable, Hashable, Mapping
from typing import Final

from holdfast.groups.hosted_group import HostedGroup
from holdfast.groups.ports import Journal, MakeTimers
from holdfast.model.ids import SECOND, GroupId
from holdfast.storage.free_space import FreeSpace, SpaceConfig

PASS_ON_NS: Final = 5 * SECOND
"""The pause between two attempts to hand over the groups of a host that is short of space."""


class DiskSpace:
    """Knows whether this host is short of space. *look* returns the space, or None if it is unknown."""

    def __init__(
        self,
        look: Callable[[], FreeSpace | None],
        hosted: Mapping[GroupId, HostedGroup],
        timers: MakeTimers,
        journal: Journal,
        config: SpaceConfig,
    ) -> None:
        self.is_short = False
        self._look = look
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
        self._judge()
        if self.is_short:
            self._pass_on()
        self._timers.set(self._config.look_ns, "look")

    def _judge(self) -> None:
        was_short, space = self.is_short, self._look()
        if space is None:
            self.is_short = False
            return
        reserve = self._config.reserve_of(space)
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
            if hosted.is_primary and hosted.member.lacks_space() is not None:
                hosted.pass_on("its host is short of disk space", has_space=True)
