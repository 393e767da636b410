"""Forced recovery: a person lets a group that cannot go on by itself continue from one member (V4).

The person must see in advance what is given up, so there are two steps. *Inspect* asks the authority for the
view and every host for what its member holds, and says for each member what would be lost. *Recover* replaces
the inspected view by one that lists a single member, under a new generation. That member claims like any
listed primary after a restart. All others, whatever they hold, start over as learners
(:meth:`.member.Member.on_view`). The cause in the view records what was known to be lost, and stays in the
group's history.

:class:`Recovery` runs both steps. :func:`compared` and :func:`held` say what a member holds, to claimants and
to people who consider a recovery. :class:`StateLoss` tells whether a group's state is gone with the processes
that held it.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from holdfast.authority.contract import Compare
from holdfast.authority.identity import Identity
from holdfast.authority.recipe import InDoubt, NoAnswer, Recipes, Seen
from holdfast.authority.views import (
    Cause,
    IdentityChanged,
    Lost,
    NoGroup,
    Unmet,
    View,
    ViewChange,
    Why,
    change_view,
    next_epoch,
    read_view,
)
from holdfast.model.errors import Conflict, InvalidRequest
from holdfast.model.ids import MILLISECOND, SECOND, Epoch, GroupId, HostId, Nonce
from holdfast.model.ports import Clock, Network, Timers
from holdfast.sequence.member_state import MemberState
from holdfast.sequence.messages import Compared, Held, Inspect
from holdfast.sequence.ports import Me
from holdfast.sequence.role import Rank, Role
from holdfast.sequence.store import order_of
from holdfast.sequence.view_state import find, is_volatile
from holdfast.storage.record import ORIGIN

ANSWER_NS: Final = 1 * SECOND
"""How long hosts have to say what they hold."""
RETRY_NS: Final = 100 * MILLISECOND
"""A change without an answer is requested again after this time, with the same nonce (A1)."""


@dataclass(frozen=True, slots=True)
class Losses:
    """What would be lost if the group continued from one member."""

    known: int
    """How many operations this member lacks although some member knows that they are committed."""
    possible: int
    """How many further operations another member holds that may have been committed."""
    is_listed: bool
    """Whether the member is in the view: then it holds everything committed, unless its disk reverted to an
    older state. If not, operations may be lost that nobody who answered knows of."""
    text: str


@dataclass(frozen=True, slots=True)
class Inspection:
    """What was known of a group at one moment."""

    view: Seen[View]
    held: tuple[Held, ...]
    """The answers of the members, by host."""
    silent: tuple[HostId, ...]
    """Hosts on which the group has a member and that did not answer."""

    @property
    def is_served(self) -> bool:
        """Whether a primary of the view in force takes calls, or will once it has loaded its object; a
        primary that has no object does not count (O3, E8)."""
        return any(
            each.is_serving and each.rank < Rank.UNABLE and each.epoch == self.view.value.epoch
            for each in self.held
        )

    @property
    def is_ready(self) -> bool:
        """Whether a primary takes calls now, because its object exists."""
        epoch = self.view.value.epoch
        return any(each.is_serving and each.is_ready and each.epoch == epoch for each in self.held)

    def of(self, host: HostId) -> Held:
        for each in self.held:
            if each.member.host == host:
                return each
        raise InvalidRequest(f"{host} did not say what it holds of group {self.view.value.group}")

    def losses(self, host: HostId) -> Losses:
        """What would be lost if the group continued from *host*. Raises ``InvalidRequest`` if it did not
        answer."""
        source = self.of(host)
        mine = source.tail.position
        committed = max(each.committed for each in self.held)
        known = max(committed - mine, 0)
        longer = [each.tail.position for each in self.held if order_of(each.tail) > order_of(source.tail)]
        possible = max([*longer, mine + known]) - mine - known
        listed = self.view.value.members
        is_listed = any((each.host, each.store) == (host, source.member.store) for each in listed)
        unheard = tuple(each.host for each in listed if each.host in self.silent and not is_listed)
        return Losses(known, possible, is_listed, _describe(source, known, possible, is_listed, unheard))


def _describe(source: Held, known: int, possible: int, is_listed: bool, unheard: tuple[HostId, ...]) -> str:
    """Describe the losses for people. *unheard* are in-sync members that do not need the source's
    acknowledgement and, as far as is known, may go on serving until they hear of the new view."""
    mine = source.tail.position
    parts = [f"from {source.member.host}, which holds up to {mine} (epoch {source.tail.epoch})"]
    if known:
        parts.append(f"{mine + 1} to {mine + known} were committed and are lost")
    if possible:
        first, last = mine + known + 1, mine + known + possible
        parts.append(f"{first} to {last}, held by another member, may have been committed")
    if not is_listed:
        parts.append("it was not in-sync: more may be lost than anybody who answered knows of")
        if unheard:
            parts.append(
                f"{', '.join(unheard)} must not run any more: what it still acknowledges is lost too"
            )
    if source.rank >= Rank.UNABLE:
        parts.append(f"it has no object: {source.why}; it makes one of its log, whatever comes of that")
    if source.is_doubtful:
        parts.append("the end of its log was cut when it started: what lay there may have been committed")
    elif is_listed and not known and not possible:
        parts.append("nothing is known to be lost")
    return "; ".join(parts)


Inspected = Inspection | NoGroup | NoAnswer
Recovered = Seen[View] | Lost | Unmet | IdentityChanged


@dataclass(slots=True)
class _Question:
    group: GroupId
    hosts: tuple[HostId, ...]
    then: Callable[[Inspected], None]
    held: dict[HostId, Held] = field(default_factory=dict)
    view: Seen[View] | None = None
    is_over: bool = False


class Recovery:
    """The inspections and recoveries that one host runs. *own* says what this host's member of a group
    holds."""

    def __init__(
        self,
        host: HostId,
        *,
        clock: Clock,
        timers: Callable[[Callable[[Hashable], None]], Timers],
        network: Network,
        recipes: Recipes,
        identity: Callable[[], Seen[Identity]],
        nonce: Callable[[], Nonce],
        own: Callable[[Inspect], Held | None],
    ) -> None:
        self._host = host
        self._clock = clock
        self._timers = timers(self._on_timer)
        self._network = network
        self._recipes = recipes
        self._identity = identity
        self._nonce = nonce
        self._own = own
        self._asked = 0
        self._questions: dict[int, _Question] = {}
        self._again: dict[int, Callable[[], None]] = {}

    # --- inspecting

    def inspect(self, group: GroupId, hosts: tuple[HostId, ...], then: Callable[[Inspected], None]) -> None:
        """Ask what the members of *group* on *hosts* hold, and call *then* within a second."""
        self._asked += 1
        number = self._asked
        self._questions[number] = _Question(group, hosts, then)
        self._timers.set(ANSWER_NS, number)
        question = Inspect(group, ORIGIN.epoch, number)
        for host in hosts:
            if host != self._host:
                self._network.send(host, question)
        own = self._own(question)
        if own is not None:
            self.on_held(self._host, own)
        self._recipes.start(read_view(group), partial(self._on_view, number))

    def on_held(self, peer: HostId, held: Held) -> None:
        question = self._questions.get(held.number)
        if question is None or held.group != question.group or held.member.host != peer:
            return
        question.held[peer] = held
        self._tell_if_done(held.number, question)

    def _on_view(self, number: int, answer: Seen[View] | NoGroup | NoAnswer) -> None:
        question = self._questions.get(number)
        if question is None:
            return
        if not isinstance(answer, Seen):
            del self._questions[number]
            question.then(answer)
            return
        question.view = answer
        self._tell_if_done(number, question)

    def _on_timer(self, tag: Hashable) -> None:
        assert isinstance(tag, int)
        if tag in self._again:
            self._again.pop(tag)()
        elif tag in self._questions:
            self._questions[tag].is_over = True
            self._tell_if_done(tag, self._questions[tag])

    def _tell_if_done(self, number: int, question: _Question) -> None:
        silent = tuple(host for host in question.hosts if host not in question.held)
        if question.view is None or (silent and not question.is_over):
            return
        del self._questions[number]
        held = tuple(question.held[host] for host in sorted(question.held))
        question.then(Inspection(question.view, held, silent))

    # --- recovering

    def recover(
        self,
        found: Inspection,
        source: HostId,
        then: Callable[[Recovered], None],
        *,
        agreed_to: str = "",
        given: Compare | None = None,
        why: Why = Why.RECOVERED,
    ) -> None:
        """Let the group continue from what *source* holds, if the inspected view is still in force and
        *given* holds: that the group's record still allows *source* a member (M5).

        *agreed_to* is the text of the losses that a person has seen and accepted. *then* gets the new view,
        or what is in force instead. Raises ``InvalidRequest`` for a group that is served or a source that did
        not answer, and ``Conflict`` if the losses have changed; after an error nothing has changed.
        """
        view = found.view.value
        if found.is_served:
            raise InvalidRequest(
                f"group {view.group} is served by {view.primary}: nothing is to be recovered"
            )
        held, epoch = found.of(source), next_epoch(view, self._identity().value)
        losses = found.losses(source).text
        if agreed_to not in ("", losses):
            raise Conflict(f"what would be lost is not what was looked at; it is now: {losses}")
        new = View(
            group=view.group,
            epoch=epoch,
            primary=source,
            members=(held.member,),
            nonce=self._nonce(),
            cause=Cause(why=why, host=source, at_ns=self._clock.wall(), text=losses),
            generation=epoch,
        )
        self._change(ViewChange(found.view, new, given), then)

    def _change(self, wanted: ViewChange, then: Callable[[Recovered], None]) -> None:
        def changed(answer: Recovered | InDoubt) -> None:
            if not isinstance(answer, InDoubt):
                then(answer)
                return
            self._asked += 1
            self._again[self._asked] = lambda: self._change(wanted, then)
            self._timers.set(RETRY_NS, self._asked)

        self._recipes.start(change_view(wanted, identity=self._identity()), changed)


def compared(on: MemberState) -> Compared:
    """What this member holds, for a claimant, which must not hold less (V5, D2)."""
    return Compared(on.group, on.epoch, on.me.store, on.store.tail, on.committed, on.is_doubtful)


def held(on: MemberState, number: int, role: Role, *, is_serving: bool) -> Held:
    """What this member holds, for an inspection; *number* identifies the question."""
    epoch, fitness = max(on.epoch, on.store.followed()), on.application.fitness()
    return Held(
        on.group,
        epoch,
        number,
        on.me,
        on.store.tail,
        on.committed,
        on.is_doubtful,
        role.value,
        is_serving,
        int(fitness.rank),
        fitness.why,
        fitness.since_ns,
        on.application.is_ready,
    )


def is_of_another_generation(on: MemberState, view: View) -> bool:
    """Whether this member's data is no part of the history that *view* continues (V4).

    A member that has followed an epoch of the view's generation has that history. A member that holds nothing
    can learn it.
    """
    is_empty = on.store.tail == ORIGIN and on.store.followed() == ORIGIN.epoch
    is_listed = find(view.members, on.me) is not None
    return on.store.followed() < view.generation and not is_listed and not is_empty


class StateLoss:
    """Knows whether a group in memory has lost its state with all the processes that held it."""

    def __init__(self, on: MemberState) -> None:
        self._on = on
        self._said_in = Epoch(0)

    @property
    def is_total(self) -> bool:
        """Whether every listed process of a group in memory is known to be gone, and the state with them. The
        group is unavailable until a forced recovery."""
        listed = self._on.standing.listed
        return bool(listed) and all(is_volatile(each.store) and self._is_gone(each) for each in listed)

    def say_once(self) -> None:
        """Report a total loss, once for each view."""
        epoch = self._on.standing.epoch
        if self._said_in != epoch and self.is_total:
            self._said_in = epoch
            self._on.note("lost", epoch=epoch)
            self._on.ports.on_lost(self._on.group)

    def _is_gone(self, member: Me) -> bool:
        """Whether that process is gone. A later process of a host starts only after the earlier one is gone
        (V2, K2)."""
        on = self._on
        if member.host == on.me.host:
            return member.incarnation < on.me.incarnation
        latest = on.ports.leases.latest_beat(member.host)[0]
        proven_dead = on.ports.leases.proven_dead
        return latest > member.incarnation or proven_dead.is_gone(member.host, member.incarnation)
