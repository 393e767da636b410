"""The replication manager's plan: what to do so that what is so becomes what is wished for (FTC-135, 198).

A pure function of wishes and facts, made anew whenever either changes; it remembers nothing. What it asks for
takes effect through the groups' records, and is carried out by primaries and hosts (M5, M6), which
never wait for it: failover is theirs alone. Each action is one change of one record from exactly the record
that the plan was made from, so a plan that is out of date does nothing.

The order is always the same: first place who is missing, wait until it is in-sync, then let go who is lost or
to be emptied. A group is never left with fewer in-sync members than it has, unless by a host's own death.
Members beyond the minimum stay: somebody put them there.

A plan's steps for one group, as changes of its record at the authority (T1, M5, M6).

The first is made from exactly the record that was planned from, each other one from the record that the one
before has left. Whoever else changes the record ends them: what is left was planned on an old picture, or by
a host that does not coordinate any more, and is planned anew.
*Without it:* h1 is being emptied, and the group can do without it; while the plan waits for its turn a person
takes h2 away; the plan removes h1 as well, and one member fewer is left than was wished for.

Where a member is placed: never two in one location, far from the others, where there is the least to do.

FTC-134, FTC-170. A location is written from the widest region to the narrowest (``hall1/rack2/host3``); two
places that share more of its beginning fail together more likely.
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
    """The best place for one more member *beside* those there are; None when there is none.

    *load*: how many members each host has. *locations*: the only ones allowed, if any is named; a host is in
    a location that its own lies within.
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
    """As many as there are places for, at most *count*, the best first."""
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
    """How many parts two locations have in common, from the widest on."""
    count = 0
    for mine, theirs in zip(one.split("/"), other.split("/"), strict=False):
        if mine != theirs:
            break
        count += 1
    return count


LEARNERS_MAX: Final = 16
"""Members that one host may have placed and not in-sync yet: beyond, more wait, so that copying states leaves
room for calls."""


@dataclass(frozen=True, slots=True)
class Action:
    """One step for one group."""

    group: GroupId
    host: HostId
    why: str
    """For people."""


class Place(Action):
    """Let the group have a member on *host*."""


class Remove(Action):
    """Let the group have no member on *host*."""


class Forget(Action):
    """Let the entry of *host* go, which was to leave and is of the domain no more (M6)."""


@dataclass(frozen=True, slots=True)
class Tune(Action):
    """Let the group's hosts know what was set while it ran."""

    tuned: str


class Lead(Action):
    """Let the in-sync member on *host* be primary."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Something is wished for that cannot be done now."""

    group: GroupId
    why: str


@dataclass(frozen=True, slots=True)
class Plan:
    actions: tuple[Action, ...] = ()
    waiting: tuple[Waiting, ...] = ()


def plan(wishes: DesiredState, facts: ObservedState) -> Plan:
    """What can be done now, and what must wait. By the groups' numbers, so always the same."""
    planner = _Planner(wishes, facts)
    for group in sorted(facts.groups, key=lambda each: each.record.group):
        planner.see_to(group)
    return Plan(tuple(planner.actions), tuple(planner.waiting))


@dataclass(slots=True)
class _Planner:
    wishes: DesiredState
    facts: ObservedState
    actions: list[Action] = field(default_factory=list)
    waiting: list[Waiting] = field(default_factory=list)
    _hosts: dict[HostId, HostFact] = field(init=False)
    _load: dict[HostId, int] = field(init=False)
    _learners: dict[HostId, int] = field(init=False)

    def __post_init__(self) -> None:
        self._hosts = {each.host: each for each in self.facts.hosts}
        self._load = dict.fromkeys(self._hosts, 0)
        self._learners = dict.fromkeys(self._hosts, 0)
        for group in self.facts.groups:
            for host in group.record.placed_on:
                self._count(host, is_learner=host not in group.in_sync)

    def see_to(self, group: GroupFact) -> None:
        wish = self.wishes.of(group.record.group)
        if wish.tuned != group.record.tuned:
            said = "its properties were changed"
            self.actions.append(Tune(group.record.group, HostId(""), said, wish.tuned))
        self._forget_removed(group)
        if wish.membership is MembershipStyle.MEMB_APP_CTRL:
            self._say_what_lacks(group, wish)
            return
        self._say_who_is_gone(group)
        good = [host for host in group.record.placed_on if self._is_good(host)]
        bad = [host for host in group.record.placed_on if not self._is_good(host)]
        wanted = max(wish.minimum, group.record.min_in_sync)
        # A host that is emptied is replaced one for one, while there are places.
        draining = [host for host in bad if not self._is_lost(host)]
        placed = self._place(group, wish, good, max(wanted, len(good) + len(draining)) - len(good), wanted)
        in_sync = [host for host in good if host in group.in_sync]
        if bad and not self._let_go(group, bad, in_sync, is_whole=not placed, wanted=wanted):
            self._lead_elsewhere(group, in_sync)

    # --- steps

    def _place(
        self, group: GroupFact, wish: GroupSpec, good: list[HostId], count: int, wanted: int
    ) -> list[HostFact]:
        """Place *count* more members; those that were."""
        record = group.record
        # Also a host that is leaving is in the way until it has left: never two in one location (FTC-134).
        entries = [self._hosts[each.host] for each in record.members if each.host in self._hosts]
        occupied = [each.location for each in entries if not self._is_lost(each.host)]
        fit = [
            each
            for each in self.facts.hosts
            if each not in entries and each.location not in occupied and self._may_take(each)
        ]
        free = [each for each in fit if self._learners[each.host] < LEARNERS_MAX]
        beside = [self._hosts[host] for host in good if host in self._hosts]
        chosen = choose_many(count, free, beside, self._load, locations=wish.locations)
        for each in chosen:
            self.actions.append(Place(record.group, each.host, _why_placed(len(good), wanted)))
            self._count(each.host, is_learner=True)
        missing = wanted - len(good) - len(chosen)
        if missing > 0 and len(free) < len(fit):
            self._wait(record, f"{missing} more needed: its turn comes when other members have caught up")
        elif missing > 0:
            self._wait(record, f"{missing} more needed, and no host {self._what_lacks(wish)}")
        return chosen

    def _let_go(
        self, group: GroupFact, bad: list[HostId], in_sync: list[HostId], *, is_whole: bool, wanted: int
    ) -> bool:
        """Remove who is lost or to be emptied, one at a time, once the group can do without."""
        record, host = group.record, bad[0]
        learning = [each for each in record.placed_on if each not in in_sync and each not in bad]
        if not is_whole or learning or len(in_sync) < wanted:
            awaited = ", ".join(learning) if learning else "others"
            self._wait(record, f"{host} {self._what_ails(host)}, and stays until {awaited} can do without it")
            return False
        self.actions.append(Remove(record.group, host, f"{host} {self._what_ails(host)}"))
        return True

    def _lead_elsewhere(self, group: GroupFact, in_sync: list[HostId]) -> None:
        """A host that is emptied leads nothing, also where it must stay a member for a while."""
        record, primary = group.record, group.view.primary
        is_passive = record.style in (Style.COLD_PASSIVE.name.lower(), Style.WARM_PASSIVE.name.lower())
        if primary in self.wishes.draining and in_sync and is_passive:
            to = min(in_sync, key=lambda host: (self._load.get(host, 0), host))
            self.actions.append(Lead(record.group, to, f"{primary} is being emptied"))

    def _forget_removed(self, group: GroupFact) -> None:
        """Once no view counts on what it held. It cannot be placed anew as the member it was: each stay has
        its own number."""
        if not self.wishes.removed:
            return
        listed = {each.host: None for each in group.view.members}
        for each in group.record.members:
            if each.is_leaving and each.host in self.wishes.removed and each.host not in listed:
                self.actions.append(Forget(group.record.group, each.host, f"{each.host} was removed"))

    def _say_who_is_gone(self, group: GroupFact) -> None:
        """Of hosts that may well be back."""
        for host in group.record.placed_on:
            known = self._hosts.get(host)
            if known is not None and not known.is_alive and not self._is_lost(host):
                gone_s, loss_s = known.gone_ns // SECOND, self.wishes.loss_ns / SECOND
                self._wait(
                    group.record, f"{host} is gone for {gone_s} s, and taken for lost after {loss_s:g} s"
                )

    def _say_what_lacks(self, group: GroupFact, wish: GroupSpec) -> None:
        good = [host for host in group.record.placed_on if self._is_good(host)]
        if len(good) < wish.minimum:
            said = f"{len(good)} members, {wish.minimum} wished for: its application places them"
            self._wait(group.record, said)

    # --- what is known

    def _is_lost(self, host: HostId) -> bool:
        known = self._hosts.get(host)
        return known is None or known.gone_ns >= self.wishes.loss_ns

    def _is_good(self, host: HostId) -> bool:
        """Whether its member counts: it lives, or may well be back, and is not to be emptied."""
        return not self._is_lost(host) and host not in self.wishes.draining

    def _may_take(self, host: HostFact) -> bool:
        """Now, or when it has brought those up to date that it has taken."""
        return host.is_alive and host.host not in self.wishes.draining

    def _count(self, host: HostId, *, is_learner: bool) -> None:
        self._load[host] = self._load.get(host, 0) + 1
        if is_learner:
            self._learners[host] = self._learners.get(host, 0) + 1

    def _wait(self, record: GroupRecord, why: str) -> None:
        self.waiting.append(Waiting(record.group, why))

    def _what_ails(self, host: HostId) -> str:
        return "is lost" if self._is_lost(host) else "is being emptied"

    def _what_lacks(self, wish: GroupSpec) -> str:
        return f"in {', '.join(wish.locations)} can take it" if wish.locations else "can take it"


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
    """What the plan means for one group, in words."""
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
    """Take them one by one until one comes to nothing; those that were taken. *criteria*: what the factory
    at a host is told (FTC-212)."""
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
