"""Who lives on a host, and how members come and go: taken in, given up, begun anew, forgotten.

A member ends only between two events, never within one of its own: what it holds of the log must be there
until then.

Groups that were made without members: the first host that is placed begins them (FTC-213, FTC-233).

Of several that try, the authority lets one win; the others find its view and join. Nobody begins a group that
it holds something of, or that was made before the authority was restored: it may have begun already, and what
is held must not be passed over in favour of nothing (A5).

Groups in memory that go on by themselves when their state is lost (V4).

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

from holdfast.authority.groups import RESTART, GroupRecord, Restored, begin_group
from holdfast.authority.recipe import Failure, NoAnswer, Recipes, Seen
from holdfast.authority.views import NoGroup, Unmet, View, ViewMember, Why
from holdfast.groups.backend import Backends, Soon
from holdfast.groups.catalog import GroupCatalog
from holdfast.groups.crash_suspects import CrashSuspects
from holdfast.groups.hosted_group import HostedGroup
from holdfast.groups.ports import Journal, MakeTimers
from holdfast.model.errors import DISK_ERRORS, HoldfastError
from holdfast.model.ids import MILLISECOND, Epoch, GroupId, HostId, Incarnation, Nonce
from holdfast.model.ports import Clock, Trace
from holdfast.sequence.recovery import Inspected, Inspection, Recovered, Recovery
from holdfast.sequence.role import Role
from holdfast.sequence.store import order_of


class MemberLifecycle:
    """The members in *housed*. *furnish* makes one, *on_given_up* is told of each that has ended, *on_halted*
    of one that stopped though its group exists, *on_record* of one that may be taken in again."""

    def __init__(
        self,
        housed: dict[GroupId, HostedGroup],
        directory: GroupCatalog,
        grounds: Backends,
        suspects: CrashSuspects,
        journal: Journal,
        soon: Soon,
        *,
        furnish: Callable[[GroupRecord], HostedGroup],
        on_given_up: Callable[[HostedGroup], None],
        on_halted: Callable[[GroupId, str], None],
        on_record: Callable[[Seen[GroupRecord]], None],
    ) -> None:
        self._housed = housed
        self._directory = directory
        self._grounds = grounds
        self._suspects = suspects
        self._journal = journal
        self._soon = soon
        self._furnish = furnish
        self._on_given_up = on_given_up
        self._on_halted = on_halted
        self._on_record = on_record
        self._deaths: dict[HostId, Incarnation] = {}
        self._gone: dict[GroupId, None] = {}
        """Groups that were removed, and whose members have not ended yet."""
        self._ended: dict[GroupId, None] = {}
        """Groups of which a member has ended here, in this process, that still exist."""

    # --- coming

    def take_in(self, seen: Seen[GroupRecord]) -> None:
        """Let a member of that group live here, unless its class or its state cannot be had."""
        record = seen.value
        try:
            housed = self._furnish(record)
        except DISK_ERRORS:
            raise
        except HoldfastError as error:
            self._journal.error(
                "a group cannot be housed", group=record.group, name=record.name, why=str(error)
            )
            return
        self._housed[record.group] = housed
        for host, incarnation in self._deaths.items():
            housed.member.on_death(host, incarnation)
        housed.member.on_record(seen)
        self.start(housed)
        self._journal.info("a group is housed", group=record.group, name=record.name, style=record.style)

    def start(self, housed: HostedGroup) -> None:
        """Let it begin from the view that was listed or watched, as soon as there is one: it comes with the
        record. One that takes another's place asks: what is known here may be older than what ended that."""
        seen = self._directory.views.get(housed.group)
        if housed.group in self._ended:
            housed.member.start()
        elif seen is not None:
            housed.member.start(seen)

    def on_death(self, host: HostId, incarnation: Incarnation) -> None:
        """Those who come later are told as well (K2)."""
        self._deaths[host] = max(incarnation, self._deaths.get(host, incarnation))

    # --- going

    def on_gone(self, housed: HostedGroup, *, is_removed: bool) -> None:
        """The group is no more: its member ends. What it held stays until the authority says in so many words
        that it may go (:mod:`.leaving`)."""
        self._journal.info("a group is gone", group=housed.group, is_removed=is_removed)
        if is_removed:
            self._gone[housed.group] = None
        if housed.member.role is Role.HALTED:
            self._soon(partial(self._give_up, housed.group))
        else:
            housed.member.start()  # it finds that there is no such group any more, and halts

    def on_halted(self, group: GroupId, why: str) -> None:
        if group in self._gone:
            self._soon(partial(self._give_up, group))
        else:
            self._on_halted(group, why)

    def on_superseded(self, group: GroupId) -> None:
        """Its state here is of a history that was given up: another member takes its place, with nothing."""
        self._journal.error("a member begins anew after a forced recovery", group=group)
        self._soon(partial(self._begin_anew, group))

    def leave(self, record: GroupRecord, then: Callable[[], None]) -> None:
        """The group leaves this host (M6): its member ends, and what it held is forgotten; *then* is called
        when that is durable."""
        self._journal.info("a group leaves", group=record.group, name=record.name)
        self._forget(record, then)

    def end(self, record: GroupRecord, then: Callable[[], None]) -> None:
        """The same for a group that is no more anywhere."""
        self._forget(record, then)
        self._ended.pop(record.group, None)

    def _forget(self, record: GroupRecord, then: Callable[[], None]) -> None:
        housed = self._housed.get(record.group)
        if housed is not None:
            housed.member.leave()
        self._give_up(record.group)
        self._suspects.forget(record.group)
        self._grounds.of(record).keeping.forget(record.group, then)

    def _give_up(self, group: GroupId) -> None:
        housed = self._housed.pop(group, None)
        if housed is None:
            return
        housed.close()
        self._on_given_up(housed)
        self._ended[group] = None
        if group in self._gone:
            del self._gone[group], self._ended[group]

    def _begin_anew(self, group: GroupId) -> None:
        if group in self._gone:
            return  # it was removed altogether meanwhile
        housed = self._housed.get(group)
        self._give_up(group)
        if housed is not None:
            housed.ground.keeping.forget(group, partial(self._take_in_again, group))

    def _take_in_again(self, group: GroupId) -> None:
        seen = self._directory.seen_records.get(group)
        if seen is not None:
            self._on_record(seen)


RETRY_NS: Final = 200 * MILLISECOND
"""What the authority did not answer is asked again after this."""


class UnbegunGroups:
    """Of one process. *member_of* says who it is in a group it houses, None when it may not begin that one;
    *learn* is told the view that stands."""

    def __init__(
        self,
        host: HostId,
        recipes: Recipes,
        timers: MakeTimers,
        clock: Clock,
        trace: Trace,
        nonce: Callable[[], Nonce],
        *,
        member_of: Callable[[GroupId], ViewMember | None],
        learn: Callable[[Seen[View]], None],
    ) -> None:
        self._host = host
        self._recipes = recipes
        self._timers = timers(self._on_timer)
        self._clock = clock
        self._trace = trace
        self._nonce = nonce
        self._member_of = member_of
        self._learn = learn
        self._under_way: dict[GroupId, Nonce] = {}

    def on_record(self, record: GroupRecord) -> None:
        """Begin the group, if that is for this host to do."""
        is_ours = not record.is_begun and self._host in record.placed_on
        if is_ours and record.group not in self._under_way:
            self._under_way[record.group] = self._nonce()
            self._ask(record.group)

    def _ask(self, group: GroupId) -> None:
        member = self._member_of(group)
        if member is None:
            del self._under_way[group]
            return
        nonce = self._under_way[group]
        recipe = begin_group(group, member, at_ns=self._clock.wall(), nonce=nonce)
        self._recipes.start(recipe, partial(self._answered, group))

    def _answered(self, group: GroupId, answer: Seen[View] | NoGroup | Restored | Failure) -> None:
        match answer:
            case Seen():
                del self._under_way[group]
                self._trace.note("begun", group=group, primary=answer.value.primary)
                self._learn(answer)
            case NoGroup() | Restored():
                del self._under_way[group]
            case _:
                self._timers.set(RETRY_NS, group)

    def _on_timer(self, tag: Hashable) -> None:
        assert isinstance(tag, int)
        self._ask(GroupId(tag))


"""After the authority did not answer, or a host of the group did not say what it holds."""
ROUNDS: Final = 3
"""So often those who are silent are asked: one of them may hold a newer checkpoint, but service matters."""

OnFault = Callable[[GroupId, str, str], None]


class MemoryRestarts:
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
