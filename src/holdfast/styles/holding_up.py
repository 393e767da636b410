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
    waits = execution.outgoing()
    if waits is None or waits.position > committed:
        return None
    if execution.line.is_running(request):
        return HeldUp(False, [waits])
    return HeldUp(True, [waits]) if execution.line.is_in_line(request) else None
