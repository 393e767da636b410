"""Plans the actions that bring the observed state of the domain to the desired one (FTC-135, 198).

:func:`plan` is a pure function of both states. It is computed again whenever either changes, and remembers
nothing. Its actions change the groups' records; primaries and hosts carry them out (M5, M6) and never wait
for the plan, because failover is their own business. Each action changes one record, from exactly the version
that the plan was made from, so an outdated plan does nothing.

The order is always the same: place missing members, wait until they are in sync, then remove members whose
host is lost or draining. A group never gets fewer in-sync members than it has, except by the death of a host.
Members beyond the minimum stay, because somebody put them there.

:func:`take_steps` applies the actions for one group to its record at the authority (T1, M5, M6). The first
change is made from exactly the record that was planned from, and each further one from the record that the
previous one left. If anybody else changes the record, the remaining steps are dropped and planned again: they
were planned on old data, or by a host that no longer coordinates. *Without it:* h1 is being drained, and the
group can do without it. While the plan waits for its turn, a person removes h2. The plan removes h1 as well,
and the group has one member too few.

:func:`choose` places a member: never two in one location, far from the other members, where the load is
lowest (FTC-134, FTC-170). A location is written from the widest region to the narrowest
(``hall1/rack2/host3``). The longer the common beginning of two locations, the more likely they fail together.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from holdfast.authority.groups import GroupRecord
from holdfast.authority.placement import add_member, forget_host, remove_member, tune_group
from holdfast.authority.recipe import Recipe, Seen
from holdfast.control.replication.spec import DesiredState, GroupFact, GroupSpec, HostFact, ObservedState
from holdfast.model.errors import invariant
from holdfast.model.ids import SECOND, GroupId, HostId, Nonce, Revision
from holdfast.model.properties import MembershipStyle, Style, is_within


def choose(
    candidates: Iterable[HostFact],
    beside: Iterable[HostFact],
    load: Mapping[HostId, int],
    *,
    locations: Collection[str] = (),
) -> HostFact | None:
    """Return the best host for one more member *beside* the existing ones, or None if there is none.

    *load* has the number of members of each host. *locations* are the only ones allowed, if any are named; a
    host is in a location if its own location lies within it.
    """
    taken = [each.location for each in beside]
    fit = [
        each
        for each in candidates
        if each.location not in taken
        and (not locations or any(is_within(each.location, region) for region in locations))
    ]
    return min(
        fit,
        key=lambda each: (
            max((shared(each.location, other) for other in taken), default=0),
            sum(shared(each.location, other) for other in taken),
            load.get(each.host, 0),
            each.host,
        ),
        default=None,
    )


def choose_many(
    count: int,
    candidates: Iterable[HostFact],
    beside: Iterable[HostFact],
    load: Mapping[HostId, int],
    *,
    locations: Collection[str] = (),
) -> list[HostFact]:
    """Return up to *count* hosts for further members, the best first."""
    left, placed = list(candidates), list(beside)
    chosen: list[HostFact] = []
    while len(chosen) < count:
        best = choose(left, placed, load, locations=locations)
        if best is None:
            break
        left.remove(best)
        placed.append(best)
        chosen.append(best)
    return chosen


def shared(one: str, other: str) -> int:
    """Return how many parts two locations have in common, from the widest on."""
    count = 0
    for mine, theirs in zip(one.split("/"), other.split("/"), strict=False):
        if mine != theirs:
            break
        count += 1
    return count


LEARNERS_MAX: Final = 16
"""How many members on one host may be catching up at a time. Further ones wait, so that copying states leaves
room for calls."""


@dataclass(frozen=True, slots=True)
class Action:
    """One step for one group."""

    group: GroupId
    host: HostId
    why: str
    """The reason, for people."""


class Place(Action):
    """Give the group a member on *host*."""


class Remove(Action):
    """Remove the group's member on *host*."""


class Forget(Action):
    """Remove the entry of *host*, which was leaving and is no longer part of the domain (M6)."""


@dataclass(frozen=True, slots=True)
class Tune(Action):
    """Tell the group's hosts which properties were set while it ran."""

    tuned: str


class Lead(Action):
    """Make the in-sync member on *host* primary."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Something desired that cannot be done now, and why."""

    group: GroupId
    why: str


@dataclass(frozen=True, slots=True)
class Plan:
    actions: tuple[Action, ...] = ()
    waiting: tuple[Waiting, ...] = ()


def plan(desired: DesiredState, observed: ObservedState) -> Plan:
    """Return what can be done now and what must wait. Groups are planned by their ids, so the result is
    deterministic."""
    planner = _Planner(desired, observed)
    for group in sorted(observed.groups, key=lambda each: each.record.group):
        planner.plan_group(group)
    return Plan(tuple(planner.actions), tuple(planner.waiting))


@dataclass(slots=True)
class _Planner:
    desired: DesiredState
    observed: ObservedState
    actions: list[Action] = field(default_factory=list)
    waiting: list[Waiting] = field(default_factory=list)
    _hosts: dict[HostId, HostFact] = field(init=False)
    _load: dict[HostId, int] = field(init=False)
    _learners: dict[HostId, int] = field(init=False)

    def __post_init__(self) -> None:
        self._hosts = {each.host: each for each in self.observed.hosts}
        self._load = dict.fromkeys(self._hosts, 0)
        self._learners = dict.fromkeys(self._hosts, 0)
        for group in self.observed.groups:
            for host in group.record.placed_on:
                self._count(host, is_learner=host not in group.in_sync)

    def plan_group(self, group: GroupFact) -> None:
        spec = self.desired.of(group.record.group)
        if spec.tuned != group.record.tuned:
            said = "its properties were changed"
            self.actions.append(Tune(group.record.group, HostId(""), said, spec.tuned))
        self._forget_removed(group)
        if spec.membership is MembershipStyle.MEMB_APP_CTRL:
            self._report_missing_members(group, spec)
            return
        self._report_gone_hosts(group)
        good = [host for host in group.record.placed_on if self._is_good(host)]
        bad = [host for host in group.record.placed_on if not self._is_good(host)]
        wanted = max(spec.minimum, group.record.min_in_sync)
        # A draining host is replaced by another one, while there are places.
        draining = [host for host in bad if not self._is_lost(host)]
        placed = self._place(group, spec, good, max(wanted, len(good) + len(draining)) - len(good), wanted)
        in_sync = [host for host in good if host in group.in_sync]
        if bad and not self._remove_one(group, bad, in_sync, is_whole=not placed, wanted=wanted):
            self._move_primary(group, in_sync)

    # --- steps

    def _place(
        self, group: GroupFact, spec: GroupSpec, good: list[HostId], count: int, wanted: int
    ) -> list[HostFact]:
        """Plan *count* more members. Returns the hosts that were found."""
        record = group.record
        # A leaving host blocks its location until it has left: never two members in one location (FTC-134).
        entries = [self._hosts[each.host] for each in record.members if each.host in self._hosts]
        occupied = [each.location for each in entries if not self._is_lost(each.host)]
        fit = [
            each
            for each in self.observed.hosts
            if each not in entries and each.location not in occupied and self._may_take(each)
        ]
        free = [each for each in fit if self._learners[each.host] < LEARNERS_MAX]
        beside = [self._hosts[host] for host in good if host in self._hosts]
        chosen = choose_many(count, free, beside, self._load, locations=spec.locations)
        for each in chosen:
            self.actions.append(Place(record.group, each.host, _why_placed(len(good), wanted)))
            self._count(each.host, is_learner=True)
        missing = wanted - len(good) - len(chosen)
        if missing > 0 and len(free) < len(fit):
            self._wait(record, f"{missing} more needed: its turn comes when other members have caught up")
        elif missing > 0:
            self._wait(record, f"{missing} more needed, and no host {self._able_host_text(spec)}")
        return chosen

    def _remove_one(
        self, group: GroupFact, bad: list[HostId], in_sync: list[HostId], *, is_whole: bool, wanted: int
    ) -> bool:
        """Remove a member whose host is lost or draining, one at a time, once the group can do without it."""
        record, host = group.record, bad[0]
        learning = [each for each in record.placed_on if each not in in_sync and each not in bad]
        if not is_whole or learning or len(in_sync) < wanted:
            awaited = ", ".join(learning) if learning else "others"
            self._wait(
                record, f"{host} {self._problem_of(host)}, and stays until {awaited} can do without it"
            )
            return False
        self.actions.append(Remove(record.group, host, f"{host} {self._problem_of(host)}"))
        return True

    def _move_primary(self, group: GroupFact, in_sync: list[HostId]) -> None:
        """Make another member primary if the primary's host is draining, even if it must stay a member for a
        while."""
        record, primary = group.record, group.view.primary
        is_passive = record.style in (Style.COLD_PASSIVE.name.lower(), Style.WARM_PASSIVE.name.lower())
        if primary in self.desired.draining and in_sync and is_passive:
            to = min(in_sync, key=lambda host: (self._load.get(host, 0), host))
            self.actions.append(Lead(record.group, to, f"{primary} is being emptied"))

    def _forget_removed(self, group: GroupFact) -> None:
        """Remove the entries of removed hosts once no view lists them. Such a host cannot come back as the
        same member, because each stay has its own number."""
        if not self.desired.removed:
            return
        listed = {each.host: None for each in group.view.members}
        for each in group.record.members:
            if each.is_leaving and each.host in self.desired.removed and each.host not in listed:
                self.actions.append(Forget(group.record.group, each.host, f"{each.host} was removed"))

    def _report_gone_hosts(self, group: GroupFact) -> None:
        """Report hosts that are gone but may well come back."""
        for host in group.record.placed_on:
            known = self._hosts.get(host)
            if known is not None and not known.is_alive and not self._is_lost(host):
                gone_s, loss_s = known.gone_ns // SECOND, self.desired.loss_ns / SECOND
                self._wait(
                    group.record, f"{host} is gone for {gone_s} s, and taken for lost after {loss_s:g} s"
                )

    def _report_missing_members(self, group: GroupFact, spec: GroupSpec) -> None:
        good = [host for host in group.record.placed_on if self._is_good(host)]
        if len(good) < spec.minimum:
            said = f"{len(good)} members, {spec.minimum} wished for: its application places them"
            self._wait(group.record, said)

    # --- what is known

    def _is_lost(self, host: HostId) -> bool:
        known = self._hosts.get(host)
        return known is None or known.gone_ns >= self.desired.loss_ns

    def _is_good(self, host: HostId) -> bool:
        """Whether the host's member counts: the host is alive or may well come back, and it is not
        draining."""
        return not self._is_lost(host) and host not in self.desired.draining

    def _may_take(self, host: HostFact) -> bool:
        """Whether the host can take members, now or after its learners have caught up."""
        return host.is_alive and host.host not in self.desired.draining

    def _count(self, host: HostId, *, is_learner: bool) -> None:
        self._load[host] = self._load.get(host, 0) + 1
        if is_learner:
            self._learners[host] = self._learners.get(host, 0) + 1

    def _wait(self, record: GroupRecord, why: str) -> None:
        self.waiting.append(Waiting(record.group, why))

    def _problem_of(self, host: HostId) -> str:
        return "is lost" if self._is_lost(host) else "is being emptied"

    def _able_host_text(self, spec: GroupSpec) -> str:
        return f"in {', '.join(spec.locations)} can take it" if spec.locations else "can take it"


def _why_placed(good: int, wanted: int) -> str:
    return f"{good} of {wanted} members" if good < wanted else "in place of one that is emptied"


def _words(action: Action) -> str:
    match action:
        case Place():
            return f"place a member on {action.host}"
        case Remove():
            return f"remove the member on {action.host}"
        case Forget():
            return f"forget {action.host}"
        case Tune():
            return "tell its hosts"
        case _:
            return f"hand over to {action.host}"


def by_group(found: Plan, group: GroupId) -> Iterator[str]:
    """Yield what the plan means for one group, in words."""
    for action in found.actions:
        if action.group == group:
            yield f"{_words(action)}: {action.why}"
    for waiting in found.waiting:
        if waiting.group == group:
            yield waiting.why


def take_steps(
    group: GroupFact,
    actions: Iterable[Action],
    nonces: Callable[[], Nonce],
    criteria: Callable[[GroupRecord, HostId], str],
) -> Recipe[tuple[Action, ...]]:
    """Apply the actions one by one until one has no effect, and return those that were applied. *criteria*
    returns what the factory at a host is told (FTC-212)."""
    as_of = group.as_of
    taken: list[Action] = []
    for action in actions:
        told = criteria(group.record, action.host) if isinstance(action, Place) else ""
        done = yield from _step(action, as_of, nonces(), told)
        if not isinstance(done, Seen):
            break
        as_of = done.modified
        taken.append(action)
    return tuple(taken)


def _step(action: Action, as_of: Revision, nonce: Nonce, criteria: str) -> Recipe[object]:
    invariant(not isinstance(action, Lead), "who is primary is not said by the record")
    group, host = action.group, action.host
    match action:
        case Place():
            return add_member(group, host, nonce=nonce, as_of=as_of, criteria=criteria)
        case Forget():
            return forget_host(group, host, nonce=nonce, as_of=as_of)
        case Tune(tuned=tuned):
            return tune_group(group, tuned, nonce=nonce, as_of=as_of)
        case _:
            return remove_member(group, host, nonce=nonce, as_of=as_of)
