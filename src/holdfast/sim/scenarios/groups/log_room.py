"""No group refuses calls for long because of a backup's log, if it could do without that backup (D4).

What callers see is nothing but refusals, and these end sooner or later, so that no other rule notices: the
backup gets a state from the primary, or makes an object again. So this looks at every primary, again and
again, and measures how long it has had no room in a log that is not its own.
"""

from typing import Final

from holdfast.groups.hosted_group import HostedGroup
from holdfast.groups.settings import tuned
from holdfast.model.ids import GroupId, HostId
from holdfast.sim.engine.options import MILLISECOND
from holdfast.sim.engine.world import World
from holdfast.sim.scenarios.groups.setup import Stage

LOOK_NS: Final = 50 * MILLISECOND
PATIENCES: Final = 3
"""How many times as long as the primary itself waits (``silence_ns``) a backup may fill the group's log: the
clocks of hosts are not exact, and a backup that becomes short for a moment is waited for anew."""


class LogRoom:
    """Looks at the primaries of one run."""

    def __init__(self, world: World, stage: Stage) -> None:
        self._world = world
        self._stage = stage
        self._since: dict[tuple[HostId, GroupId], int] = {}
        """Since when a primary has had no room because of another's log."""
        world.after(LOOK_NS, self._look)

    def _look(self) -> None:
        world, waiting = self._world, {}
        for name in self._stage.hosts:
            node = world.nodes[name]
            groups = getattr(node.core, "groups", None)
            if groups is None or node.paused:
                continue
            for group, hosted in groups.hosted.items():
                if self._refuses_for_another(hosted):
                    since = waiting[name, group] = self._since.get((name, group), world.now)
                    self._judge(hosted, world.now - since)
        self._since = waiting
        if not world.violations:
            world.after(LOOK_NS, self._look)

    def _refuses_for_another(self, hosted: HostedGroup) -> bool:
        """Whether calls are refused although this member's log is short and another backup would do."""
        member, config = hosted.member, tuned(self._stage.config, hosted.record)
        return (
            member.is_serving
            and member.log_bytes > config.style.log_bytes_max
            and member.own_log_bytes <= config.sequence.hold_bytes
            and len(member.standing.listed) > config.sequence.min_in_sync
        )

    def _judge(self, hosted: HostedGroup, for_ns: int) -> None:
        if for_ns > PATIENCES * self._stage.config.sequence.silence_ns:
            said = (
                f"{hosted.record.name}: calls are refused for {for_ns // MILLISECOND} ms for a backup's log"
            )
            self._world.violation("D4", said)
