"""Saying hello until one is fed: a learner, and a backup that has heard nothing in its epoch (S2, M3).

A member that holds the sequence and not the object: it says so, and asks for a state (O3, E8).

It stays listed and acknowledges as before. Whoever is primary is told, again and again, so that it hands the
group to somebody else, and that it offers a state where one is wanted. Messages may be lost and primaries may
change: the next one is told the same.
"""

from collections.abc import Callable
from typing import Final

from holdfast.sequence.acceptance import Acceptance
from holdfast.sequence.member_state import MemberState, MemberTimer, MemberTimers
from holdfast.sequence.messages import Lacking
from holdfast.sequence.recovery import StateLoss
from holdfast.sequence.role import Rank, Role


class JoinRequest:
    """Of one member. So many of a host ask another host at a time (:mod:`.catchup_limiter`)."""

    def __init__(
        self,
        on: MemberState,
        alarms: MemberTimers,
        acceptance: Acceptance,
        loss: StateLoss,
        role: Callable[[], Role],
    ) -> None:
        self._on = on
        self._alarms = alarms
        self._acceptance = acceptance
        self._loss = loss
        self._role = role

    def soon(self) -> None:
        """The primary knows of this member and will speak first; if it does not, it is asked."""
        self._alarms.ensure(MemberTimer.ASK, self._on.config.ask_ns)

    def while_unfed(self) -> None:
        """Ask now, or as soon as there is room, and again until something comes."""
        role, primary = self._role(), self._acceptance.primary
        if role not in (Role.LEARNER, Role.BACKUP):
            self.end()
        elif self._is_fed(role):
            self.on_fed()
        elif primary is None:
            self.end()
            self._loss.say_once()
            self._again()
        elif self._on.ports.turnstiles.enter(primary, self._on.group, self.while_unfed):
            self._acceptance.ask()
            self._loss.say_once()
            self._again()

    def end(self) -> None:
        self._on.ports.turnstiles.leave(self._on.group)

    def _is_fed(self, role: Role) -> bool:
        is_backup, silence_ns = role is Role.BACKUP, self._on.config.silence_ns
        return self._acceptance.is_fed_since(None if is_backup else self._on.now - silence_ns // 2)

    def on_fed(self) -> None:
        """A backup goes on being fed; a learner, until its primary forgets it."""
        if self._role() is Role.BACKUP:
            self.end()
        else:
            self._again()

    def _again(self) -> None:
        self._alarms.ensure(MemberTimer.ASK, self._on.config.silence_ns // 4)


BELIEVED_TIMES: Final = 5
"""A primary believes what it was told for so many times ``lack_ns``: some messages may be lost."""


class StateRequest:
    """Of one member. *role* is the member's."""

    def __init__(
        self, on: MemberState, alarms: MemberTimers, acceptance: Acceptance, role: Callable[[], Role]
    ) -> None:
        self._on = on
        self._alarms = alarms
        self._acceptance = acceptance
        self._role = role
        self._was_without = False

    @property
    def is_unfit(self) -> bool:
        """Whether this member must not lead (E8)."""
        return self._on.application.fitness().rank is Rank.UNFIT

    def look(self) -> None:
        """Say how it stands if it is without its object, or was until now; and look again while it is."""
        fitness = self._on.application.fitness()
        was_without, self._was_without = self._was_without, fitness.is_without
        if fitness.is_without != was_without:
            kind = "without_object" if fitness.is_without else "with_object"
            self._on.note(kind, rank=fitness.rank.name.lower(), why=fitness.why)
        if fitness.is_without:
            self._alarms.ensure(MemberTimer.LACK, self._on.config.lack_ns)
        if fitness.is_without or was_without:
            self.tell()

    def tell(self) -> None:
        """Tell whoever is followed how this member stands."""
        on, primary = self._on, self._acceptance.primary
        if self._role() is not Role.BACKUP or primary is None or self._acceptance.is_stopped:
            return
        fitness, me = on.application.fitness(), on.me
        on.send(
            primary,
            Lacking(
                on.group,
                on.epoch,
                me.store,
                me.incarnation,
                int(fitness.rank),
                fitness.why,
                fitness.wants_state,
                fitness.found_at,
            ),
        )
