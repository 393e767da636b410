"""Whether a member's object is the group's, so that it may lead, and what ends if it is not (O3, E8).

An object that was found to differ from the one that answered is given up at once, together with what was
captured of it; so is an object that the host knows would differ. The member then reports its
:class:`~holdfast.sequence.role.Fitness`.
"""

from collections.abc import Callable
from dataclasses import replace

from holdfast.model.ids import Position
from holdfast.sequence.role import Fitness, Rank
from holdfast.storage.record import ORIGIN
from holdfast.styles.checkpointing import Checkpointing
from holdfast.styles.code_replay import CodeReplay
from holdfast.styles.divergence import Absence, DigestComparison, Diverged
from holdfast.styles.ports import StylePorts
from holdfast.styles.serving_state import ServingState


class Readiness:
    """The readiness of one member. *give_up_object* gives up its object; calls are taken again when there is
    another."""

    def __init__(
        self,
        ports: StylePorts,
        absence: Absence,
        serving: ServingState,
        code_replay: CodeReplay,
        checkpointing: Checkpointing,
        comparing: DigestComparison,
        give_up_object: Callable[[], None],
    ) -> None:
        self._ports = ports
        self._absence = absence
        self._serving_state = serving
        self._code_replay = code_replay
        self._checkpointing = checkpointing
        self._comparing = comparing
        self._give_up_object = give_up_object
        self.forgiven = Position(0)
        """Differences up to this position are accepted by an operator, who wants the group to continue from
        this member (V4)."""

    def unable(self, why: str) -> Fitness:
        """The fitness of a member that cannot make an object."""
        wants = self._code_replay.wants if self._code_replay.is_met else None
        return Fitness(
            Rank.UNABLE,
            why,
            wants or Position(0),
            wants_state=wants is not None,
            since_ns=self._serving_state.unable_since_ns,
        )

    def without(self, found: Fitness, *, is_log_long: bool) -> Fitness:
        """The fitness of a member that has no object for the reason *found*."""
        if not found.wants_state and is_log_long:
            # Without an object it makes no checkpoints. So it takes the primary's state, although no object
            # is made from it.
            return self.short_of_room(found)
        return found

    def short_of_room(self, found: Fitness) -> Fitness:
        """The fitness of a member whose log is long and that can make no checkpoint: otherwise as *found*,
        but it wants the primary's state. With a full log it could acknowledge nothing (D4)."""
        return replace(found, wants_state=True, found_at=Position(self._checkpointing.kept + 1))

    def force(self, tail: Position) -> None:
        """Let the group continue from here, with the object that this member's log up to *tail* gives
        (V4)."""
        self.forgiven = tail
        self._absence.end()
        self._checkpointing.make_due()  # so that nobody has to replay what differed
        self._ports.wake()

    def go_without(self, why: str) -> None:
        """Give up the object and do not lead until :meth:`go_on_with`, because the host knows a reason why
        the object would not be the group's. Do not call this within an event of the sequence."""
        self._absence.begin(why)
        self._part()

    def renew(self, why: str, found_at: Position) -> None:
        """Give up the object and take the primary's state at *found_at* or later in its place, because an
        annex cannot go on from here (W10). The member leads only if nobody else can: with an object of what
        it holds. Do not call this within an event of the sequence."""
        self._absence.begin(why, found_at=found_at, wants_state=True, rank=Rank.UNABLE)
        self._part()

    def go_on_with(self) -> None:
        """Make an object again from what this host keeps: the reason is gone."""
        self._absence.end()
        self._ports.wake()

    def differs(self, found: Diverged) -> None:
        """Give up the object, which was found to differ from the one that answered, and what was captured of
        it (E8)."""
        self._ports.fault("divergence", str(found))
        self._absence.differs(found)
        self._ports.void_checkpoints(self._comparing.last_equal)
        self._part()

    def begin_unproven(self) -> None:
        """Start without proof that this host's checkpoints are the group's: an earlier process may never have
        compared them (E8)."""
        self._comparing.last_equal = ORIGIN.position

    def begin_void(self, up_to: Position) -> None:
        """Start without an object: an earlier process found that what this host keeps is not the group's
        (E8)."""
        why = "what this host keeps is of an object that was found to differ from the one that answered"
        self._absence.begin(why, found_at=up_to, wants_state=True)
        self._part()

    def lose_files(self, why: str, committed: Position) -> None:
        """Give up an object whose files are not here or not whole, until another member's state comes with
        its files (W7). Do not call this within an event of the sequence."""
        self._ports.fault("object_failed", why)
        self._absence.begin(why, found_at=committed, wants_state=True)
        self._part()

    def _part(self) -> None:
        self._give_up_object()
        self._checkpointing.void()
        self._ports.wake()
