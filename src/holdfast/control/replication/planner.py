"""Plans the actions that bring the observed state of the domain to the desired one (FTC-135, 198).

:func:`plan` is a pure function of both states. It is computed again whenever either changes, and remembers
nothing. Its actions change the groups' records (:mod:`.steps`); primaries and hosts carry them out (M5, M6)
and never wait for the plan, because failover is their own business. Each action changes one record, from
exactly the version that the plan was made from, so an outdated plan does nothing.

The order is always the same: place missing members, wait until they are in sync, then remove members whose
host is lost, draining, or not for them. A group never gets fewer in-sync members than it has, except by the
death of a host. Members beyond the minimum stay, because somebody put them there.

A group has no two members in one location while another is free (:mod:`.locations`). Only where none is free,
a member that takes another's place may be where that one is: one goes as the other comes. *Otherwise* no host
could be drained where every location has a member.

*Placement by name* (W2): where a person has named a group's hosts, the plan places members there and nowhere
else, and removes the others one by one once all named ones are in sync.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from holdfast.authority.groups import GroupRecord
from holdfast.control.replication.locations import choose, choose_many
from holdfast.control.replication.spec import DesiredState, GroupFact, GroupSpec, HostFact, ObservedState
from holdfast.model.ids import SECOND, GroupId, HostId
from holdfast.model.properties import MembershipStyle, Style

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


@dataclass(frozen=True, slots=True)
class Place(Action):
    """Give the group a member on *host*."""

    never_leads: bool = False
    """It holds and acknowledges, and is never primary (W3)."""


@dataclass(frozen=True, slots=True)
class LetLead(Action):
    """Say whether the group's member on *host* never leads (W3)."""

    never_leads: bool


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
        if spec.hosts:
            self._place_by_name(group, spec)
            return
        good = [host for host in group.record.placed_on if self._is_good(host, spec)]
        crowded = self._crowded(group, spec, good)
        good = [host for host in good if host != crowded]
        bad = [host for host in group.record.placed_on if host not in good]
        wanted = max(spec.minimum, group.record.min_in_sync)
        # A host that should not have its member is replaced by another one, while there are places; up to the
        # number of the beginning, because it is not known which of the others have replaced it already.
        living = [host for host in bad if not self._is_lost(host)]
        target = max(wanted, min(len(good) + len(living), spec.initial))
        placed = self._place(group, spec, good, target - len(good), wanted)
        in_sync = [host for host in good if host in group.in_sync]
        whys = {host: self._problem_of(host, spec) for host in bad}
        if bad and not self._remove_one(group, whys, in_sync, is_whole=not placed, wanted=wanted):
            self._move_primary(group, spec, in_sync)

    # --- steps

    def _place(
        self, group: GroupFact, spec: GroupSpec, good: list[HostId], count: int, wanted: int
    ) -> list[HostFact]:
        """Plan *count* more members. Returns the hosts that were found."""
        record = group.record
        fit = self._fit(group, spec)
        busy = {each.host: None for each in fit if self._learners[each.host] >= LEARNERS_MAX}
        beside = [self._hosts[host] for host in good]
        going = [self._hosts[host] for host in record.placed_on if host not in good and host in self._hosts]
        occupied = {each.location: None for each in going if not self._is_lost(each.host)}
        free = [each for each in fit if each.location not in occupied]
        pick = partial(choose_many, load=self._load, locations=spec.locations, busy=busy)
        found = pick(count, free, beside)
        # Where no location is free, one goes as the other comes.
        found += pick(count - len(found), [each for each in fit if each not in free], [*beside, *found])
        chosen = [each for each in found if each.host not in busy]
        for each in chosen:
            self.actions.append(Place(record.group, each.host, _why_placed(len(good), wanted)))
            self._count(each.host, is_learner=True)
        missing = wanted - len(good) - len(chosen)
        if missing > 0 and len(chosen) < len(found):
            self._wait(record, f"{missing} more needed: its turn comes when other members have caught up")
        elif missing > 0:
            self._wait(record, f"{missing} more needed, and no host {self._able_host_text(spec)}")
        return found

    def _place_by_name(self, group: GroupFact, spec: GroupSpec) -> None:
        """Bring the group to the named hosts. No member is removed before all named ones are in sync (W2)."""
        record = group.record
        if len(spec.hosts) < record.min_in_sync:
            said = (
                f"{len(spec.hosts)} hosts are named, and {record.min_in_sync} members must hold an operation"
            )
            self._wait(record, said)
            return
        for host in spec.hosts:
            if host not in record.placed_on:
                self._place_named(group, spec, host)
            elif host in self.desired.draining:
                self._wait(record, f"{host} is being emptied, and keeps its member, because it is named")
        awaited = self._awaited(group, spec)
        self._let_lead(group, spec, is_whole=not awaited)
        others = [host for host in record.placed_on if host not in spec.hosts]
        if others and awaited:
            said = f"{', '.join(others)} not named, and stays until {', '.join(awaited)} can do without it"
            self._wait(record, said)
        elif others:
            self.actions.append(Remove(record.group, others[0], f"{others[0]} is not named"))

    def _awaited(self, group: GroupFact, spec: GroupSpec) -> list[HostId]:
        """The named hosts whose members are not in sync yet."""
        return [host for host in spec.hosts if host not in group.in_sync]

    def _place_named(self, group: GroupFact, spec: GroupSpec, host: HostId) -> None:
        """Place a member on a named host, or say why not yet."""
        record, known = group.record, self._hosts.get(host)
        is_listed = any(each.host == host for each in group.view.members)
        if known is None or not known.is_alive:
            self._wait(record, f"{host}, which is named, does not live")
        elif not self._may_take(known, spec):
            self._wait(record, f"{host}, which is named, {self._problem_of(host, spec)}")
        elif record.placement(host) is not None and not is_listed:
            self._wait(record, f"{host}, which is named, is still leaving")
        elif self._learners[host] >= LEARNERS_MAX:
            self._wait(record, f"{host} is next when other members have caught up there")
        else:
            never_leads = host in spec.never_lead
            self.actions.append(Place(record.group, host, f"{host} is named", never_leads=never_leads))
            self._count(host, is_learner=True)

    def _let_lead(self, group: GroupFact, spec: GroupSpec, *, is_whole: bool) -> None:
        """Say which members never lead (W3), once all named ones are in sync. *Otherwise* the last one that
        may lead could be gone before the next has caught up."""
        record = group.record
        for each in record.members:
            is_barred = each.host in spec.never_lead
            if each.is_leaving or each.host not in spec.hosts or each.never_leads == is_barred:
                continue
            if not is_barred:
                self.actions.append(LetLead(record.group, each.host, "it may lead", never_leads=False))
            elif is_whole:
                self.actions.append(LetLead(record.group, each.host, "it never leads", never_leads=True))

    def _crowded(self, group: GroupFact, spec: GroupSpec, good: list[HostId]) -> HostId | None:
        """A member that shares its location with another one, if it can be elsewhere: not the primary, and
        one that is not in sync first."""
        locations = {self._hosts[host].location: None for host in good}
        if len(locations) == len(good):
            return None
        free = [each for each in self._fit(group, spec) if each.location not in locations]
        beside = [self._hosts[host] for host in good]
        if choose(free, beside, self._load, locations=spec.locations) is None:
            return None
        stays: dict[str, None] = {}
        for host in sorted(good, key=lambda host: (host != group.view.primary, host not in group.in_sync)):
            if self._hosts[host].location in stays:
                return host
            stays[self._hosts[host].location] = None
        return None

    def _fit(self, group: GroupFact, spec: GroupSpec) -> list[HostFact]:
        """The hosts that could take a member of the group, now or later. A host that leaves blocks its
        location until it has left (FTC-134)."""
        entries = {each.host: None for each in group.record.members}
        leaving = [each.host for each in group.record.members if each.is_leaving and each.host in self._hosts]
        blocked = {self._hosts[host].location: None for host in leaving if not self._is_lost(host)}
        return [
            each
            for each in self.observed.hosts
            if each.host not in entries and each.location not in blocked and self._may_take(each, spec)
        ]

    def _remove_one(
        self,
        group: GroupFact,
        whys: dict[HostId, str],
        in_sync: list[HostId],
        *,
        is_whole: bool,
        wanted: int,
    ) -> bool:
        """Remove a member that should not be where it is, one at a time, once the group can do without it.
        *whys* says of each such host why."""
        record = group.record
        host, why = next(iter(whys.items()))
        learning = [each for each in record.placed_on if each not in in_sync and each not in whys]
        if not is_whole or learning or len(in_sync) < wanted:
            awaited = ", ".join(learning) if learning else "others"
            self._wait(record, f"{host} {why}, and stays until {awaited} can do without it")
            return False
        self.actions.append(Remove(record.group, host, f"{host} {why}"))
        return True

    def _move_primary(self, group: GroupFact, spec: GroupSpec, in_sync: list[HostId]) -> None:
        """Make another member primary if the primary's host should not have it, even if it must stay a member
        for a while."""
        record, primary = group.record, group.view.primary
        is_passive = record.style in (Style.COLD_PASSIVE.name.lower(), Style.WARM_PASSIVE.name.lower())
        is_moved = primary in self.desired.draining or not self._is_for(primary, spec)
        able = [host for host in in_sync if record.may_lead(host)]
        if is_moved and able and is_passive:
            to = min(able, key=lambda host: (self._load.get(host, 0), host))
            self.actions.append(Lead(record.group, to, f"{primary} {self._problem_of(primary, spec)}"))

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
        good = [host for host in group.record.placed_on if self._is_good(host, spec)]
        if len(good) < spec.minimum:
            said = f"{len(good)} members, {spec.minimum} wished for: its application places them"
            self._wait(group.record, said)

    # --- what is known

    def _is_lost(self, host: HostId) -> bool:
        known = self._hosts.get(host)
        return known is None or known.gone_ns >= self.desired.loss_ns

    def _is_good(self, host: HostId, spec: GroupSpec) -> bool:
        """Whether the host's member counts: the host is alive or may well come back, it is not draining, and
        it is for such groups."""
        return not self._is_lost(host) and host not in self.desired.draining and self._is_for(host, spec)

    def _is_for(self, host: HostId, spec: GroupSpec) -> bool:
        """Whether the host has the role that the group's members need, as far as is known."""
        known = self._hosts.get(host)
        return known is None or known.has_role(spec.role)

    def _may_take(self, host: HostFact, spec: GroupSpec) -> bool:
        """Whether the host can take members, now or after its learners have caught up."""
        return host.is_alive and host.host not in self.desired.draining and host.has_role(spec.role)

    def _count(self, host: HostId, *, is_learner: bool) -> None:
        self._load[host] = self._load.get(host, 0) + 1
        if is_learner:
            self._learners[host] = self._learners.get(host, 0) + 1

    def _wait(self, record: GroupRecord, why: str) -> None:
        self.waiting.append(Waiting(record.group, why))

    def _problem_of(self, host: HostId, spec: GroupSpec) -> str:
        if self._is_lost(host):
            return "is lost"
        if host in self.desired.draining:
            return "is being emptied"
        if not self._is_for(host, spec):
            return f"has not the role {spec.role}"
        return f"shares {self._hosts[host].location} with another member"

    def _able_host_text(self, spec: GroupSpec) -> str:
        where = f"in {', '.join(spec.locations)} " if spec.locations else ""
        if any(each.is_alive and not each.has_role(spec.role) for each in self.observed.hosts):
            where += f"with the role {spec.role} "
        return f"{where}can take it"


def _why_placed(good: int, wanted: int) -> str:
    return f"{good} of {wanted} members" if good < wanted else "in place of one that goes"


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
        case LetLead():
            return f"say that {action.host} {'never leads' if action.never_leads else 'may lead'}"
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
