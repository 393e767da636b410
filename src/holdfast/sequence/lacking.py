"""A member that holds the sequence and not the object: it says so, and asks for a state (O3, E8).

It stays listed and acknowledges as before. Whoever is primary is told, again and again, so that it hands the
group to somebody else, and that it offers a state where one is wanted. Messages may be lost and primaries may
change: the next one is told the same.
"""

from collections.abc import Callable
from typing import Final

from holdfast.sequence.acceptance import Acceptance
from holdfast.sequence.alarms import Alarm, Alarms
from holdfast.sequence.fitness import Rank
from holdfast.sequence.footing import Footing
from holdfast.sequence.messages import Lacking
from holdfast.sequence.role import Role

BELIEVED_TIMES: Final = 5
"""A primary believes what it was told for so many times ``lack_ns``: some messages may be lost."""


class Lack:
    """Of one member. *role* is the member's."""

    def __init__(self, on: Footing, alarms: Alarms, acceptance: Acceptance, role: Callable[[], Role]) -> None:
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
            self._alarms.ensure(Alarm.LACK, self._on.config.lack_ns)
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
