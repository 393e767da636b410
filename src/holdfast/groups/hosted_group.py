"""One group on one host: its member of the sequence, the style that stands on it, and their turns.

A group whose class cannot be had on this host: its member holds the sequence, and no object (O3).

It was listed, perhaps, and counts: were it not there at all, nothing might commit. So it follows and
acknowledges, as any member without its object, never leads, and keeps its log short by taking states.
"""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import replace
from itertools import islice
from typing import Final, NoReturn

import msgspec

from holdfast.authority.groups import GroupRecord
from holdfast.authority.recipe import Seen
from holdfast.authority.views import View
from holdfast.execution.definition import Definition, NotMade
from holdfast.groups.backend import Backend
from holdfast.groups.checkpoint_jobs import CopyJobs, ReplayJobs
from holdfast.groups.group_history import GroupHistory
from holdfast.groups.ports import EndingTimers, GroupsConfig, MakeTimers
from holdfast.groups.settings import is_self_kept, tuned
from holdfast.model.errors import HoldfastError, Unavailable
from holdfast.model.ids import Epoch, GroupId, Position
from holdfast.model.ports import Timers
from holdfast.model.properties import Style
from holdfast.sequence.member import Member
from holdfast.sequence.ports import Application, Kept
from holdfast.sequence.role import Fitness, Rank, Role
from holdfast.storage.record import ORIGIN
from holdfast.styles.by_name import make_member, style_named
from holdfast.styles.ports import StylePorts
from holdfast.styles.replica import Replica
from holdfast.styles.stateless import Stateless

SHOWN_MAX: Final = 20
"""Groups without their object, in what a host tells of itself."""


class HostedGroup:
    """A group that has a member here. *later* asks that :meth:`turn` be called at the end of this turn."""

    def __init__(
        self,
        record: GroupRecord,
        definition: Definition,
        ground: Backend,
        config: GroupsConfig,
        *,
        style_ports: Callable[["HostedGroup"], StylePorts],
        timers: MakeTimers,
        chronicle: GroupHistory,
        copies: CopyJobs | None,
        old_code: ReplayJobs | None,
        later: Callable[["HostedGroup"], None],
        on_ready: Callable[[GroupId], None],
        is_read: Callable[[GroupId], bool],
        vacant_for: str = "",
    ) -> None:
        """*on_ready* is told when calls are taken here, *is_read* says whether reads wait for commits.
        *vacant_for*: why there is no class here to make an object of (O3)."""
        kept = ground.keeping.opened(record.group)
        self.record = record
        self._on_ready = on_ready
        self._was_ready = False
        self._passed_on = 0
        self._rank = Rank.NEAR
        self._is_read = is_read
        self.ground = ground
        self.chronicle = chronicle
        self.copies = copies
        self.old_code = old_code
        self.code = definition.code
        """The class as it is here (E7)."""
        self._later = later
        self._timers: list[EndingTimers] = []
        self._make_timers = timers
        self.style = make_member(
            Style.COLD_PASSIVE if vacant_for else style_named(record.style),
            definition,
            style_ports(self),
            tuned(config.style, record),
            is_self_kept=is_self_kept(record) and not vacant_for,
        )
        self._config = config
        self.member = Member(
            record.group,
            ground.me,
            ports=replace(ground.ports, timers=self._timers_of_its_own, trace=chronicle),
            config=msgspec.structs.replace(config.sequence, min_in_sync=record.min_in_sync),
            application=_Turning(self.style, self.ask_turn, self._awaits_turn),
            committed=kept.position if kept is not None else Position(0),
            is_doubtful=ground.is_doubtful(),
        )
        if isinstance(self.style, Replica):
            self.style.bind(self.member)
        if kept is not None:
            self.style.install(kept)
        if isinstance(self.style, Replica):
            self.style.readiness.begin_unproven()
        if vacant_for and isinstance(self.style, Replica):
            self.style.readiness.go_without(vacant_for)
        void_up_to = ground.keeping.void_up_to(record.group)
        if void_up_to is not None and not vacant_for and isinstance(self.style, Replica):
            self.style.readiness.begin_void(void_up_to)

    def on_record(self, seen: Seen[GroupRecord]) -> None:
        """The group's record is another: where it shall have members, or what it shall be like."""
        if seen.value.tuned != self.record.tuned and isinstance(self.style, Replica):
            self.style.tune(tuned(self._config.style, seen.value))
        is_wish_new = seen.value.upgrade != self.record.upgrade
        self.record = seen.value
        self.member.on_record(seen)
        if is_wish_new:
            self.reconsider()

    @property
    def group(self) -> GroupId:
        return self.record.group

    @property
    def view(self) -> View | None:
        """As its member knows it: of its own changes it knows first."""
        return self.member.standing.view

    @property
    def is_primary(self) -> bool:
        return self.member.role is Role.PRIMARY

    @property
    def is_ready(self) -> bool:
        """Whether calls are taken here: the sequence serves, and the object has what it lacked."""
        return self.member.is_serving and self.style.is_ready

    @property
    def why_no_checkpoint(self) -> str:
        """Why the last checkpoint here failed (E9); empty when it did not."""
        return "" if isinstance(self.style, Stateless) else self.style.why_no_checkpoint

    @property
    def replica(self) -> Replica:
        """Raises ``Unavailable`` for a stateless group, which has none."""
        if isinstance(self.style, Stateless):
            raise Unavailable(f"group {self.group} keeps no record: there is nothing to ask about")
        return self.style

    def time_ns(self, here_ns: int) -> int:
        """The group's time, where the host's is *here_ns*: one with a state may be ahead (X4)."""
        return here_ns if isinstance(self.style, Stateless) else self.style.time_ns()

    def reconsider(self) -> None:
        """Which host has which code is another than before, or what is wished: one that waits may go on."""
        if isinstance(self.style, Replica):
            self.style.reconsider()

    def ask_turn(self) -> None:
        self._later(self)

    def pass_on(self, why: str) -> None:
        """Hand over to another member, since this one cannot serve; each time to the next, as whoever had it
        before may not be able either. Who says so itself is not tried (O3, E8): where no member is able, the
        group stays where it is."""
        if not self.member.is_serving:
            return
        me = self.ground.me.host
        able = [host for host in self.member.successors() if self.member.rank_of(host) < Rank.UNABLE]
        others = sorted(able, key=lambda host: (host < me, host))
        if others:
            self.member.hand_over(others[self._passed_on % len(others)], why)
            self._passed_on += 1

    def make_anew(self, why: str) -> None:
        """Its object is faulty: another is made of what is committed, and another member serves first, if
        there is one. Raises ``NotMade`` of a class that cannot even begin."""
        self.chronicle.note("made_anew", group=self.group, why=why)
        self.style.make_anew(why)
        self.ask_turn()

    def settle(self) -> bool:
        """Before an orderly stop: see :meth:`holdfast.styles.replica.Replica.settle`."""
        is_settled = not isinstance(self.style, Replica) or self.style.settle()
        return is_settled and not self.ground.keeping.is_writing(self.group)

    def _awaits_turn(self) -> bool:
        """Whether a commit must be followed by a turn."""
        return isinstance(self.style, Stateless) or self.style.awaits_turn or self._is_read(self.group)

    def turn(self) -> int | None:
        """Do what is due; when, by the wall clock, the next turn must be at the latest."""
        self.style.turn()
        self._tell_if_ready()
        self._tell_if_fit()
        return None if isinstance(self.style, Stateless) else self.style.next_wake_ns()

    def _tell_if_ready(self) -> None:
        """Not before: clients come at once, and who is turned away tries the others, which may hang."""
        was_ready, self._was_ready = self._was_ready, self.is_ready
        if self._was_ready and not was_ready:
            self._on_ready(self.group)

    def _tell_if_fit(self) -> None:
        rank, self._rank = self._rank, self.style.fitness().rank
        if rank is not self._rank and max(rank, self._rank) >= Rank.UNABLE:
            self.member.on_fitness()

    def close(self) -> None:
        """Nothing happens here any more."""
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


def without_object(housed: Iterable[HostedGroup]) -> tuple[tuple[str, str], ...]:
    """The names of groups whose member here has no object, and why; some of them."""
    lacking = ((each.record.name, each.style.fitness()) for each in housed)
    return tuple(islice(((name, found.why) for name, found in lacking if found.is_without), SHOWN_MAX))


def without_checkpoint(housed: Iterable[HostedGroup]) -> tuple[tuple[str, str], ...]:
    """The names of groups of whose member here the last checkpoint failed, and why; some of them."""
    failed = ((each.record.name, each.why_no_checkpoint) for each in housed)
    return tuple(islice(((name, why) for name, why in failed if why), SHOWN_MAX))


class _Turning:
    """Passes the sequence's events on to the style, and asks for a turn after each that may need one."""

    def __init__(
        self, style: Application, ask_turn: Callable[[], None], awaits_turn: Callable[[], bool]
    ) -> None:
        self._style = style
        self._ask_turn = ask_turn
        self._awaits_turn = awaits_turn

    def on_serving(self, epoch: Epoch) -> None:
        self._style.on_serving(epoch)
        self._ask_turn()

    def on_following(self) -> None:
        self._style.on_following()

    def on_committed(self, up_to: Position) -> None:
        self._style.on_committed(up_to)
        if self._awaits_turn():
            self._ask_turn()

    def capture(self, at_least: Position = ORIGIN.position) -> Kept | None:
        return self._style.capture(at_least)

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


class Vacancy:
    """Stands where the class would."""


def has_vacancy(record: GroupRecord) -> bool:
    """Whether a member without the class is of any use: of groups whose members keep a record."""
    return style_named(record.style) is not Style.STATELESS


def vacant(record: GroupRecord, why: HoldfastError) -> Definition:
    """A definition of no object; whoever tries to make one is told *why*."""

    def fresh() -> NoReturn:
        raise NotMade(str(why))

    return Definition(
        group=record.name or str(record.group), cls=Vacancy, fresh=fresh, created_ns=record.created_ns
    )
