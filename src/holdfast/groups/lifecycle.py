"""How members of groups start and end on a host.

:class:`MemberLifecycle` creates members, ends them, and replaces those whose history was given up. A member
ends only between two events, never during one of its own, because until then it needs its part of the log.

:class:`UnbegunGroups` starts groups that were created without members: the first host that the group is
placed on starts it (FTC-213, FTC-233). If several try, the authority lets one win; the others find its view
and join. A host never starts a group that it holds something of, or that was created before the authority was
restored: the group may have started already, and its state must not be replaced by an empty one (A5). A host
also starts a group anew that it had started itself with a store that is gone, if nothing was ever
acknowledged there (V8).

:class:`MemoryRestarts` restarts groups in memory whose state is lost (V4). The creator of such a group chose
an old state over none. When every process that held the newest state is known to be gone, each host of the
group that notices asks all others what they hold, which is at best a checkpoint of an earlier process. It
restarts the group from the newest one, under a new generation. If several hosts try, the authority lets one
win, because a restart replaces exactly the view whose processes are gone. The loss is reported as a fault and
stays in the group's history. *Without that:* A and B notice the loss. A restarts the group from C, which
serves. B has not heard of it and restarts the group again, and what C has acknowledged is lost.
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
from holdfast.model.ids import MILLISECOND, Epoch, GroupId, HostId, Nonce
from holdfast.model.ports import Clock, Trace
from holdfast.sequence.recovery import Inspected, Inspection, Recovered, Recovery
from holdfast.sequence.role import Role
from holdfast.sequence.store import order_of


class MemberLifecycle:
    """Creates and ends the members in *hosted*. *furnish* makes a member. *on_member_ended* is called for
    each member that has ended, *on_halted* for each that stopped though its group still exists, and
    *on_record* when a replaced member's group may be hosted again."""

    def __init__(
        self,
        hosted: dict[GroupId, HostedGroup],
        catalog: GroupCatalog,
        backends: Backends,
        suspects: CrashSuspects,
        journal: Journal,
        soon: Soon,
        *,
        furnish: Callable[[GroupRecord], HostedGroup],
        on_member_ended: Callable[[HostedGroup], None],
        on_halted: Callable[[GroupId, str], None],
        on_record: Callable[[Seen[GroupRecord]], None],
    ) -> None:
        self._hosted = hosted
        self._catalog = catalog
        self._backends = backends
        self._suspects = suspects
        self._journal = journal
        self._soon = soon
        self._furnish = furnish
        self._on_member_ended = on_member_ended
        self._on_halted = on_halted
        self._on_record = on_record
        self._gone: dict[GroupId, None] = {}
        """Removed groups whose members have not ended yet."""
        self._ended: dict[GroupId, None] = {}
        """Existing groups of which a member has ended here, in this process."""

    # --- starting members

    def take_in(self, seen: Seen[GroupRecord]) -> None:
        """Host a member of the group, unless its class or its state is not available."""
        record = seen.value
        try:
            hosted = self._furnish(record)
        except DISK_ERRORS:
            raise
        except HoldfastError as error:
            self._journal.error(
                "a group cannot be hosted", group=record.group, name=record.name, why=str(error)
            )
            return
        self._hosted[record.group] = hosted
        hosted.member.on_record(seen)
        self.start(hosted)
        self._journal.info("a group is hosted", group=record.group, name=record.name, style=record.style)

    def start(self, hosted: HostedGroup) -> None:
        """Start the member from the view that was listed or watched, if one is known; it arrives separately
        from the record. A member that replaces an ended one asks the authority instead: the view known here
        may be older than the one that ended its predecessor."""
        seen = self._catalog.views.get(hosted.group)
        if hosted.group in self._ended:
            hosted.member.start()
        elif seen is not None:
            hosted.member.start(seen)

    # --- ending members

    def on_gone(self, hosted: HostedGroup, *, is_removed: bool) -> None:
        """End the member, because the group no longer exists. Its data stays until the authority says
        explicitly that it may be deleted (:mod:`.leaving`)."""
        self._journal.info("a group is gone", group=hosted.group, is_removed=is_removed)
        if is_removed:
            self._gone[hosted.group] = None
        if hosted.member.role is Role.HALTED:
            self._soon(partial(self._give_up, hosted.group))
        else:
            hosted.member.start()  # the member finds that its group no longer exists, and halts

    def on_halted(self, group: GroupId, why: str) -> None:
        if group in self._gone:
            self._soon(partial(self._give_up, group))
        else:
            self._on_halted(group, why)

    def on_superseded(self, group: GroupId) -> None:
        """Replace a member whose state belongs to a history that was given up by a new one that starts with
        nothing."""
        self._journal.error("a member begins anew after a forced recovery", group=group)
        self._soon(partial(self._replace_member, group))

    def leave(self, record: GroupRecord, then: Callable[[], None]) -> None:
        """End the member because the group leaves this host (M6), and forget what it held. Calls *then* once
        that is durable."""
        self._journal.info("a group leaves", group=record.group, name=record.name)
        self._forget(record, then)

    def end(self, record: GroupRecord, then: Callable[[], None]) -> None:
        """End the member of a group that no longer exists anywhere, like :meth:`leave`."""
        self._forget(record, then)
        self._ended.pop(record.group, None)

    def _forget(self, record: GroupRecord, then: Callable[[], None]) -> None:
        hosted = self._hosted.get(record.group)
        if hosted is not None:
            hosted.member.leave()
        self._give_up(record.group)
        self._suspects.forget(record.group)
        self._backends.of(record).keeping.forget(record.group, then)

    def _give_up(self, group: GroupId) -> None:
        hosted = self._hosted.pop(group, None)
        if hosted is None:
            return
        hosted.close()
        self._on_member_ended(hosted)
        self._ended[group] = None
        if group in self._gone:
            del self._gone[group], self._ended[group]

    def _replace_member(self, group: GroupId) -> None:
        if group in self._gone:
            return  # the group was removed in the meantime
        hosted = self._hosted.get(group)
        self._give_up(group)
        if hosted is not None:
            hosted.backend.keeping.forget(group, partial(self._host_again, group))

    def _host_again(self, group: GroupId) -> None:
        seen = self._catalog.seen_records.get(group)
        if seen is not None:
            self._on_record(seen)


RETRY_NS: Final = 200 * MILLISECOND
"""The pause before the authority or the group's hosts are asked again after they gave no answer."""


class UnbegunGroups:
    """The groups that this process may start. *member_of* returns its identity in a group it hosts, or None
    if it may not start that group. *learn* is given the group's current view."""

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

    def look(self, record: GroupRecord, view: View | None) -> None:
        """Start the group, if it has not started or is to start anew (V8), and this host is to have a member
        that may lead (W3). *view* is the newest known."""
        if record.group in self._under_way or self._host not in record.leaders:
            return
        if record.is_begun:
            member = self._member_of(record.group) if view is not None else None
            if view is None or member is None or not record.may_begin_anew(view, member):
                return
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


ROUNDS: Final = 3
"""How many times silent hosts are asked. One of them may hold a newer checkpoint, but the group should serve
again soon."""

OnFault = Callable[[GroupId, str, str], None]


class MemoryRestarts:
    """Restarts the groups of one host that lost their state. *lost_in* returns the epoch of the view known
    here if the state of the group is gone with the processes it lists, else None."""

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
        """How many times the hosts were asked, for each group that is being restarted."""

    def on_lost(self, group: GroupId) -> None:
        """Restart *group* if its record allows it, because its state is gone with the processes that held
        it."""
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
            del self._rounds[group]  # the group was removed, or another host restarted it first
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
            self._timers.set(RETRY_NS, group)  # until then this host hears of the view that was found

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
            self._timers.set(RETRY_NS, group)  # the group's members have changed
            return
        del self._rounds[group]
        if isinstance(answer, Seen):
            self._on_fault(group, "state_lost", losses)
