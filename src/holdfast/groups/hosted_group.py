"""One group on one host: its sequence member, its replication style, and its turns.

If the group's class cannot be loaded on this host, the member holds the sequence without an object (O3). It
may be listed as in sync, and then nothing might commit without it. So it follows and acknowledges like any
member without its object, never leads, and keeps its log short by taking states from the primary.
"""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Final, NoReturn, Protocol

from holdfast.authority.groups import GroupRecord
from holdfast.authority.recipe import Seen
from holdfast.authority.views import View
from holdfast.execution.definition import Definition, NotMade
from holdfast.groups.backend import Backend
from holdfast.groups.checkpoint_jobs import CopyJobs, ReplayJobs
from holdfast.groups.group_history import GroupHistory
from holdfast.groups.ports import EndingTimers, MakeTimers
from holdfast.groups.settings import GroupsConfig, is_self_kept, tuned
from holdfast.model.errors import HoldfastError, Unavailable
from holdfast.model.ids import Epoch, GroupId, HostId, Position
from holdfast.model.ports import Timers
from holdfast.model.properties import Style
from holdfast.sequence.member import Member
from holdfast.sequence.messages import PeerMessage
from holdfast.sequence.ports import Application, Kept
from holdfast.sequence.role import Fitness, Rank, Role
from holdfast.storage.record import ORIGIN
from holdfast.styles.by_name import make_member, style_named
from holdfast.styles.ports import StylePorts
from holdfast.styles.replica import Replica
from holdfast.styles.stateless import Stateless

SHOWN_MAX: Final = 20
"""How many groups without an object or a checkpoint a host lists in its status."""


class HostedGroup:
    """A group that has a member on this host. *later* schedules a call of :meth:`turn` at the end of this
    turn."""

    def __init__(
        self,
        record: GroupRecord,
        definition: Definition,
        backend: Backend,
        config: GroupsConfig,
        *,
        style_ports: Callable[["HostedGroup"], StylePorts],
        timers: MakeTimers,
        history: GroupHistory,
        copies: CopyJobs | None,
        old_code: ReplayJobs | None,
        later: Callable[["HostedGroup"], None],
        on_ready: Callable[[GroupId], None],
        is_read: Callable[[GroupId], bool],
        for_others: Callable[[Kept | None], Kept | None] = lambda kept: kept,
        why_no_class: str = "",
    ) -> None:
        """*on_ready* is called when this member starts taking calls. *is_read* says whether reads wait for
        commits. *for_others* wraps a state that is offered to others. *why_no_class* says why this host has
        no class to make an object from (O3)."""
        kept = backend.keeping.opened(record.group)
        self.record = record
        self.group = record.group
        self._on_ready = on_ready
        self._was_ready = False
        self.has_claimed = False
        """Whether this member has claimed the group and has not served it since."""
        self._passed_on = 0
        self._rank = Rank.NEAR
        self._wants_state = False
        self.backend = backend
        self.history = history
        self.copies = copies
        self.old_code = old_code
        self.code = definition.code
        """The version of the class on this host (E7)."""
        self.ask_turn: Callable[[], None] = partial(later, self)
        self._timers: list[EndingTimers] = []
        self._make_timers = timers
        self.style = make_member(
            Style.COLD_PASSIVE if why_no_class else style_named(record.style),
            definition,
            style_ports(self),
            tuned(config, record).style,
            is_self_kept=is_self_kept(record) and not why_no_class,
        )
        self._config = config
        self.member = Member(
            record.group,
            backend.me,
            ports=replace(backend.ports, timers=self._timers_of_its_own, trace=history),
            config=tuned(config, record).sequence,
            application=_Turning(
                self.style, self.ask_turn, partial(is_read, self.group), self._on_claiming, for_others
            ),
            committed=kept.position if kept is not None else Position(0),
            is_doubtful=backend.is_doubtful(),
        )
        if isinstance(self.style, Replica):
            self.style.bind(self.member)
        if kept is not None:
            self.style.install(kept)
        if isinstance(self.style, Replica):
            self.style.readiness.begin_unproven()
        if why_no_class and isinstance(self.style, Replica):
            self.style.readiness.go_without(why_no_class)
        void_up_to = backend.keeping.void_up_to(record.group)
        if void_up_to is not None and not why_no_class and isinstance(self.style, Replica):
            self.style.readiness.begin_void(void_up_to)

    def tune(self, config: GroupsConfig) -> None:
        """Go on with other settings of the host, as far as the group's own options leave it to them."""
        self._config = config
        own = tuned(config, self.record)
        self.member.tune(own.sequence)
        if isinstance(self.style, Replica):
            self.style.tune(own.style)

    def on_record(self, seen: Seen[GroupRecord]) -> None:
        """Apply a changed record: where the group shall have members, or how they shall behave."""
        is_wish_new, is_tuned = (
            seen.value.upgrade != self.record.upgrade,
            seen.value.tuned != self.record.tuned,
        )
        self.record = seen.value
        if is_tuned:
            self.tune(self._config)
        self.member.on_record(seen)
        if is_wish_new:
            self.reconsider()

    @property
    def view(self) -> View | None:
        """The view as the member knows it. The member is the first to know the changes it makes itself."""
        return self.member.standing.view

    @property
    def is_primary(self) -> bool:
        return self.member.role is Role.PRIMARY

    @property
    def is_ready(self) -> bool:
        """Whether calls are taken here: the sequence is serving and the object is up to date."""
        return self.member.is_serving and self.style.is_ready

    @property
    def is_taking_over(self) -> bool:
        """Whether this member has claimed the group, or won it, and is likely to serve it in a moment."""
        if not self.has_claimed or self.member.role not in (Role.CLAIMING, Role.PRIMARY):
            return False
        return isinstance(self.style, Replica) and self.style.fitness().rank is Rank.NEAR

    @property
    def why_no_checkpoint(self) -> str:
        """Why the last checkpoint here failed (E9); empty if it did not."""
        return "" if isinstance(self.style, Stateless) else self.style.why_no_checkpoint

    @property
    def replica(self) -> Replica:
        """The group's replica. Raises ``Unavailable`` for a stateless group, which has none."""
        if isinstance(self.style, Stateless):
            raise Unavailable(f"group {self.group} keeps no record: there is nothing to ask about")
        return self.style

    def time_ns(self, here_ns: Callable[[], int]) -> int:
        """Return the group's time; *here_ns* returns the host's. A group with a state may be ahead of it
        (X4)."""
        return here_ns() if isinstance(self.style, Stateless) else self.style.time_ns()

    def reconsider(self) -> None:
        """Check again whether the object may continue: the code of some host, or the requested upgrade, has
        changed."""
        if isinstance(self.style, Replica):
            self.style.reconsider()

    def pass_on(
        self,
        why: str,
        *,
        log_below: int | None = None,
        has_space: bool = False,
        is_trial: bool = False,
        spread: int = 0,
    ) -> None:
        """Hand over to another member because this one cannot serve. Each attempt picks the next member,
        because the previous one may be unable to serve as well. Members that report that they are unable (O3,
        E8) are not tried, nor members whose log is not shorter than *log_below*, nor, with *has_space*,
        members whose host is short of disk space. If no member is able, the group stays here, or, with
        *is_trial*, goes to one that may make its object of what it holds (E9). *spread* says with which of
        them to begin."""
        if not self.member.is_serving:
            return
        me = self.backend.me.host
        able = self.able_successors(log_below, has_space=has_space)
        if is_trial and not able:
            able = self.member.successors(log_below, has_space=has_space)
        others = sorted(able, key=lambda host: (host < me, host))
        if others:
            self.member.hand_over(others[(self._passed_on + spread) % len(others)], why)
            self._passed_on += 1

    def able_successors(self, log_below: int | None = None, *, has_space: bool = False) -> list[HostId]:
        """The hosts that could take the group over and serve it, as far as this primary knows."""
        found = self.member.successors(log_below, has_space=has_space)
        return [host for host in found if self.member.rank_of(host) < Rank.UNABLE]

    def make_anew(self, why: str) -> None:
        """Replace a faulty object by one made from the committed state. If there is another member, it serves
        first. Raises ``NotMade`` if the class cannot even make an empty object."""
        self.history.note("made_anew", group=self.group, why=why)
        self.style.make_anew(why)
        self.ask_turn()

    def lose_files(self, why: str) -> None:
        """Go on without the object, whose files are damaged, until another member's state comes (W7)."""
        if isinstance(self.style, Replica):
            self.style.readiness.lose_files(why, self.member.committed)
            self.ask_turn()

    def settle(self) -> bool:
        """Prepare for an orderly stop: see :meth:`holdfast.styles.replica.Replica.settle`. There is nothing
        to prepare where nothing outlives the process."""
        if not self.backend.keeping.outlives_process:
            return True
        is_settled = not isinstance(self.style, Replica) or self.style.settle()
        return is_settled and not self.backend.keeping.is_writing(self.group)

    def turn(self) -> int | None:
        """Do the work that is due. Returns the wall clock time by which the next turn must come, or None."""
        self.style.turn()
        # Readiness is announced only once calls are taken. Clients come at once, and one that is turned away
        # tries the other members, which may hang.
        was_ready, self._was_ready = self._was_ready, self.member.is_serving and self.style.is_ready
        if self._was_ready and not was_ready:
            self.has_claimed = False
            self._on_ready(self.group)
        fitness = self.style.fitness()
        if fitness.rank is not self._rank or fitness.wants_state is not self._wants_state:
            self._tell_fitness(fitness)
        return None if isinstance(self.style, Stateless) else self.style.next_wake_ns()

    def _on_claiming(self) -> None:
        self.has_claimed = True

    def _tell_fitness(self, fitness: Fitness) -> None:
        rank, self._rank = self._rank, fitness.rank
        is_news = rank is not self._rank and max(rank, self._rank) >= Rank.UNABLE
        wanted_state, self._wants_state = self._wants_state, fitness.wants_state
        if is_news or (self._wants_state and not wanted_state):
            self.member.on_fitness()

    def close(self) -> None:
        """Stop everything this group does here."""
        for timers in self._timers:
            timers.close()
        if self.copies is not None:
            self.copies.drop()
        if self.old_code is not None:
            self.old_code.drop()

    def _timers_of_its_own(self, on_timer: Callable[[Hashable], None]) -> Timers:
        timers = self._make_timers(on_timer)
        self._timers.append(timers)
        return timers


def without_object(hosted: Iterable[HostedGroup]) -> tuple[tuple[str, str], ...]:
    """Return the names of groups whose member here has no object, with the reasons, at most ``SHOWN_MAX``."""
    lacking = ((each.record.name, each.style.fitness()) for each in hosted)
    return tuple(islice(((name, found.why) for name, found in lacking if found.is_without), SHOWN_MAX))


def without_checkpoint(hosted: Iterable[HostedGroup]) -> tuple[tuple[str, str], ...]:
    """Return the names of groups whose last checkpoint here failed, with the reasons, at most
    ``SHOWN_MAX``."""
    failed = ((each.record.name, each.why_no_checkpoint) for each in hosted)
    return tuple(islice(((name, why) for name, why in failed if why), SHOWN_MAX))


class _Style(Application, Protocol):
    """A style with its object."""

    @property
    def awaits_turn(self) -> bool:
        """Whether a turn must follow a commit."""
        ...


class _Turning:
    """Passes the sequence's events on to the style, and asks for a turn after each event that may need
    one."""

    def __init__(
        self,
        style: _Style,
        ask_turn: Callable[[], None],
        is_read: Callable[[], bool],
        on_claiming: Callable[[], None],
        for_others: Callable[[Kept | None], Kept | None],
    ) -> None:
        self._style = style
        self._ask_turn = ask_turn
        self._is_read = is_read
        self._on_claiming = on_claiming
        self._for_others = for_others

    def on_serving(self, epoch: Epoch) -> None:
        self._style.on_serving(epoch)
        self._ask_turn()

    def on_claiming(self) -> None:
        self._on_claiming()
        self._style.on_claiming()

    def on_following(self) -> None:
        self._style.on_following()

    def on_committed(self, up_to: Position) -> None:
        self._style.on_committed(up_to)
        if self._style.awaits_turn or self._is_read():
            self._ask_turn()

    def capture(self, at_least: Position = ORIGIN.position) -> Kept | None:
        return self._for_others(self._style.capture(at_least))

    def install(self, kept: Kept) -> None:
        self._style.install(kept)
        self._ask_turn()

    def keeps(self, kept: Kept) -> None:
        self._style.keeps(kept)

    @property
    def is_ready(self) -> bool:
        return self._style.is_ready

    def fitness(self) -> Fitness:
        return self._style.fitness()

    def on_forced(self) -> None:
        self._style.on_forced()
        self._ask_turn()

    def on_peer_message(self, peer: HostId, message: PeerMessage) -> None:
        self._style.on_peer_message(peer, message)
        self._ask_turn()


class MissingClass:
    """Takes the place of a class that cannot be loaded."""


def is_useful_without_class(record: GroupRecord) -> bool:
    """Whether a member without the class is useful: it is, unless the group is stateless and keeps no
    records."""
    return style_named(record.style) is not Style.STATELESS


def definition_without_class(record: GroupRecord, why: HoldfastError) -> Definition:
    """Return a definition without an object. Any attempt to make the object raises an error that says
    *why*."""

    def fresh() -> NoReturn:
        raise NotMade(str(why))

    return Definition(
        group=record.name or str(record.group), cls=MissingClass, fresh=fresh, created_ns=record.created_ns
    )
