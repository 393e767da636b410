"""Whom a call that has not ended waits for, as the primary of the called group knows it (E10)."""

from dataclasses import dataclass
from itertools import islice
from typing import Final

from holdfast.model.calls import Request
from holdfast.model.ids import Position
from holdfast.styles.effects import Outgoing
from holdfast.styles.execution import Execution

HELD_UP_BY_MAX: Final = 64
"""Operations that hold up a line, of those that are looked at: the oldest."""


@dataclass(frozen=True, slots=True)
class HeldUp:
    """Why a call has not ended."""

    is_in_line: bool
    """It has not begun: the operations below hold up the line. Otherwise it is one of them itself."""
    by: list[Outgoing]
    """Calls to other groups that are waited for, and have left."""


def held_up(execution: Execution, committed: Position, request: Request) -> HeldUp | None:
    """What *request* waits for; None when it is not known here, has ended, or waits for nobody else.

    In a class whose operations are interleaved few stand in line: where a moment of rest is awaited, for the
    end of all that wait; and where too many wait already, for the end of any. Of the latter a circle may end
    by itself, and it is broken all the same: nobody knows whether it will.
    """
    line = execution.line
    own = line.outgoing_of(request)
    if own is not None:
        return HeldUp(False, [own]) if own.position <= committed else None
    if not line.is_in_line(request):
        return None
    by = [each for each in islice(line.outgoings(), HELD_UP_BY_MAX) if each.position <= committed]
    return HeldUp(True, by) if by else None
