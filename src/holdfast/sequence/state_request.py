"""What a follower asks its primary for: records, and a state if it has no object (S2, M3, O3, E8).

:class:`JoinRequest` says hello to the primary until it sends records; a learner does this, and a backup that
has heard nothing in its epoch.

:class:`StateRequest` is for a member that holds the sequence but not the object. The member stays listed and
acknowledges as before. It tells its primary repeatedly, so that the primary hands the group to somebody else,
and offers a state where one is wanted. It repeats because messages may be lost and the primary may change.
"""

from collections.abc import Callable
from typing import Final

from holdfast.sequence.acceptance import Acceptance
from holdfast.sequence.member_state import MemberState, MemberTimer, MemberTimers
from holdfast.sequence.messages import Lacking
from holdfast.sequence.recovery import StateLoss
from holdfast.sequence.role import Rank, Role


class JoinRequest:
    """Asks the primary for records on behalf of one member. :mod:`.catchup_limiter` limits how many members
    of a host ask another host at a time."""

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
        """Ask shortly, unless the primary sends first: it knows of this member."""
        self._alarms.ensure(MemberTimer.ASK, self._on.config.ask_ns)

    def while_unfed(self) -> None:
        """Ask now, or as soon as the limiter allows, and again until the primary sends something."""
        role, primary = self._role(), self._acceptance.primary
        if role not in (Role.LEARNER, Role.BACKUP):
            self.end()
        elif self._is_fed(role):
            self.on_fed()
        elif primary is None:
            self.end()
            self._loss.say_once()
            self._again()
        elif self._on.ports.catchup_limiter.enter(primary, self._on.group, self.while_unfed):
            self._acceptance.ask()
            self._loss.say_once()
            self._again()

    def end(self) -> None:
        self._on.ports.catchup_limiter.leave(self._on.group)

    def _is_fed(self, role: Role) -> bool:
        is_backup, silence_ns = role is Role.BACKUP, self._on.config.silence_ns
        return self._acceptance.is_fed_since(None if is_backup else self._on.now - silence_ns // 2)

    def on_fed(self) -> None:
        """Stop asking, if this is a backup; a learner keeps checking, because its primary may forget it."""
        if self._role() is Role.BACKUP:
            self.end()
        else:
            self._again()

    def _again(self) -> None:
        self._alarms.ensure(MemberTimer.ASK, self._on.config.silence_ns // 4)


BELIEVED_TIMES: Final = 5
"""A primary believes what a member said about its object for this many times ``lack_ns``, since some messages
may be lost.
"""


class StateRequest:
    """Tells the primary that this member has no object. *role* returns the member's role."""

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
        """Tell the primary if this member has no object, or had none until now; check again while it has
        none."""
        fitness = self._on.application.fitness()
        was_without, self._was_without = self._was_without, fitness.is_without
        if fitness.is_without != was_without:
            kind = "without_object" if fitness.is_without else "with_object"
            self._on.note(kind, rank=fitness.rank.name.lower(), why=fitness.why)
        if fitness.is_without or fitness.wants_state:
            self._alarms.ensure(MemberTimer.LACK, self._on.config.lack_ns)
        if fitness.is_without or fitness.wants_state or was_without:
            self.tell()

    def tell(self) -> None:
        """Tell the primary how fit this member is."""
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
