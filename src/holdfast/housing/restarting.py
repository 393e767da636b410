"""Groups in memory that go on by themselves when their state is lost (V4).

Whoever created such a group said that an old state is better than none. When every process that held the
newest one is known to be gone, each host of the group that notices asks all others what they hold, which is
at best a checkpoint of an earlier process, and has the group go on from the newest, under a new generation.
Of several that try, the authority lets one win: what is given up is the very view whose processes are gone.
What was lost is reported as a fault, and stays in the group's history.
*Without that:* A and B see the loss; A has the group go on from C, which serves; B, which has not heard of
it, restarts it once more, and what C has acknowledged is lost.
"""

from collections.abc import Callable, Hashable, Mapping
from functools import partial
from typing import Final

from holdfast.authority.groups import RESTART, GroupRecord
from holdfast.authority.outcome import NoAnswer, Seen
from holdfast.authority.views import NoGroup, Unmet, Why
from holdfast.housing.ports import MakeTimers
from holdfast.model.ids import Epoch, GroupId
from holdfast.model.units import MILLISECOND
from holdfast.sequence.recovery import Inspected, Inspection, Recovered, Recovery
from holdfast.sequence.store import order_of

RETRY_NS: Final = 200 * MILLISECOND
"""After the authority did not answer, or a host of the group did not say what it holds."""
ROUNDS: Final = 3
"""So often those who are silent are asked: one of them may hold a newer checkpoint, but service matters."""

OnFault = Callable[[GroupId, str, str], None]


class Restarting:
    """Of one host. *lost_in* tells the epoch of the view that is known here, if the group's state is gone
    with the processes it lists."""

    def __init__(
        self,
        recovery: Recovery,
        timers: MakeTimers,
        records: Mapping[GroupId, Seen[GroupRecord]],
        lost_in: Callable[[GroupId], Epoch | None],
        on_fault: OnFault,
    ) -> None:
        self._recovery = recovery
        self._timers = timers(self._on_timer)
        self._records = records
        self._lost_in = lost_in
        self._on_fault = on_fault
        self._rounds: dict[GroupId, int] = {}
        """How often was asked for each group that is being restarted."""

    def on_lost(self, group: GroupId) -> None:
        """The state of *group* is gone with the processes that held it."""
        record = self._records.get(group)
        if record is not None and record.value.on_total_loss == RESTART and group not in self._rounds:
            self._rounds[group] = 0
            self._look(group)

    def _on_timer(self, group: Hashable) -> None:
        assert isinstance(group, int)
        self._look(GroupId(group))

    def _look(self, group: GroupId) -> None:
        record = self._records.get(group)
        if record is None or self._lost_in(group) is None:
            del self._rounds[group]  # it was removed, or another host was first
            return
        self._rounds[group] += 1
        then = partial(self._inspected, group, record)
        self._recovery.inspect(group, record.value.placed_on, then)

    def _inspected(self, group: GroupId, record: Seen[GroupRecord], found: Inspected) -> None:
        if isinstance(found, NoGroup):
            del self._rounds[group]
        elif isinstance(found, NoAnswer) or not found.held or self._waits_for_more(group, found):
            self._timers.set(RETRY_NS, group)
        elif found.is_served:
            del self._rounds[group]
        elif self._lost_in(group) == found.view.value.epoch:
            self._recover(group, record, found)
        else:
            self._timers.set(RETRY_NS, group)  # this host will have heard of the view that was found

    def _recover(self, group: GroupId, record: Seen[GroupRecord], found: Inspection) -> None:
        best = max(found.held, key=lambda held: (order_of(held.tail), held.member.host))
        losses = found.losses(best.member.host).text
        self._recovery.recover(
            found,
            best.member.host,
            partial(self._recovered, group, losses),
            agreed_to=losses,
            given=record.unchanged(),
            why=Why.RESTARTED,
        )

    def _waits_for_more(self, group: GroupId, found: Inspection) -> bool:
        return bool(found.silent) and self._rounds[group] < ROUNDS

    def _recovered(self, group: GroupId, losses: str, answer: Recovered) -> None:
        if isinstance(answer, Unmet):
            self._timers.set(RETRY_NS, group)  # its members are other ones now
            return
        del self._rounds[group]
        if isinstance(answer, Seen):
            self._on_fault(group, "state_lost", losses)
