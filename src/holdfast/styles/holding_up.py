"""Whom a call that has not ended waits for, as the primary of the called group knows it (PROTOCOL E10)."""

from dataclasses import dataclass

from holdfast.model.calls import Request
from holdfast.model.ids import Position
from holdfast.styles.effects import Outgoing
from holdfast.styles.execution import Execution


@dataclass(frozen=True, slots=True)
class HeldUp:
    """Why a call has not ended."""

    is_in_line: bool
    """It has not begun: the operations below hold up the line. Otherwise it is one of them itself."""
    by: list[Outgoing]
    """Calls to other groups that are waited for, and have left."""


def held_up(execution: Execution, committed: Position, request: Request) -> HeldUp | None:
    """What *request* waits for; None when it is not known here, has ended, or waits for nobody else."""
    line = execution.line
    if line.is_running(request):
        own = line.outgoing_of(request)
        return HeldUp(False, [own]) if own is not None and own.position <= committed else None
    if not line.is_in_line(request):
        return None
    # Each of those that run must end before it begins, wherever several may run at once.
    by = [each for _, each in line.outgoing_since(0) if each.position <= committed]
    return HeldUp(True, by) if by else None
