"""Saying hello until one is fed: a learner, and a backup that has heard nothing in its epoch (S2, M3)."""

from collections.abc import Callable

from holdfast.sequence.acceptance import Acceptance
from holdfast.sequence.alarms import Alarm, Alarms
from holdfast.sequence.footing import Footing
from holdfast.sequence.loss import Loss
from holdfast.sequence.role import Role


class Asking:
    """Of one member. So many of a host ask another host at a time (:mod:`.turnstiles`)."""

    def __init__(
        self, on: Footing, alarms: Alarms, acceptance: Acceptance, loss: Loss, role: Callable[[], Role]
    ) -> None:
        self._on = on
        self._alarms = alarms
        self._acceptance = acceptance
        self._loss = loss
        self._role = role

    def soon(self) -> None:
        """The primary knows of this member and will speak first; if it does not, it is asked."""
        self._alarms.ensure(Alarm.ASK, self._on.config.ask_ns)

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
        self._alarms.ensure(Alarm.ASK, self._on.config.silence_ns // 4)
