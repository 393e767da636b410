"""Whether a member's object is the group's, so that it may lead, and what ends when it is not (O3, E8).

An object that was found to differ from the one that answered ends on the spot, and with it what was captured
of it. So does one of which the host knows that it would differ. What the member then says of itself is its
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
    """One member's. *renounce* gives up its object; calls are taken again when there is another."""

    def __init__(
        self,
        ports: StylePorts,
        absence: Absence,
        office: ServingState,
        succession: CodeReplay,
        checkpointing: Checkpointing,
        comparing: DigestComparison,
        renounce: Callable[[], None],
    ) -> None:
        self._ports = ports
        self._absence = absence
        self._office = office
        self._succession = succession
        self._checkpointing = checkpointing
        self._comparing = comparing
        self._renounce = renounce
        self.forgiven = Position(0)
        """What differs up to here a person has seen, and wants the group to go on from this member (V4)."""

    def unable(self, why: str) -> Fitness:
        """The fitness of a member that can make no object."""
        wants = self._succession.wants if self._succession.is_met else None
        return Fitness(
            Rank.UNABLE,
            why,
            wants or Position(0),
            wants_state=wants is not None,
            since_ns=self._office.unable_since_ns,
        )

    def without(self, found: Fitness, *, is_log_long: bool) -> Fitness:
        """The fitness of a member that has no object for the reason *found*."""
        if not found.wants_state and is_log_long:
            # It makes no checkpoints, and with a full log it could acknowledge nothing (D4): it takes the
            # primary's, though no object is made of it.
            return replace(found, wants_state=True, found_at=Position(self._checkpointing.kept + 1))
        return found

    def force(self, tail: Position) -> None:
        """The group goes on from here, with the object that this member's log up to *tail* gives (V4)."""
        self.forgiven = tail
        self._absence.end()
        self._checkpointing.hasten()  # so that nobody has to replay what came out otherwise
        self._ports.wake()

    def go_without(self, why: str) -> None:
        """The object here would not be the group's, for a reason that its host knows: give it up, and do not
        lead, until :meth:`go_on_with`. Not within an event of the sequence."""
        self._absence.begin(why)
        self._part()

    def go_on_with(self) -> None:
        """The reason is gone: have an object of what this host keeps."""
        self._absence.end()
        self._ports.wake()

    def differs(self, found: Diverged) -> None:
        """The object was found to differ from the one that answered: it ends here and now, and so does what
        was captured of it (E8)."""
        self._ports.fault("divergence", str(found))
        self._absence.differs(found)
        self._ports.void_checkpoints(self._comparing.last_equal)
        self._part()

    def begin_unproven(self) -> None:
        """What an earlier process kept was perhaps never compared: of that nothing is known here (E8)."""
        self._comparing.last_equal = ORIGIN.position

    def begin_void(self, up_to: Position) -> None:
        """An earlier process has found that what this host keeps is not of the group's object (E8)."""
        why = "what this host keeps is of an object that was found to differ from the one that answered"
        self._absence.begin(why, found_at=up_to, wants_state=True)
        self._part()

    def _part(self) -> None:
        self._renounce()
        self._checkpointing.void()
        self._ports.wake()
