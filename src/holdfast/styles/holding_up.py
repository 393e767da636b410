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
    """It has not begun: the operations below hold up the line. Otherwise it is one of them itself, or found
    no room."""
    by: list[Outgoing]
    """Calls to other groups that are waited for, and have left."""


def held_up(
    execution: Execution, committed: Position, request: Request, *, has_room: bool = True
) -> HeldUp | None:
    """What *request* waits for; None when it is not known here, has ended, or waits for nobody else.

    In a class whose operations are interleaved few stand in line: where a moment of rest is awaited, for the
    end of all that wait; and where too many wait already, for the end of any. Of the latter a circle may end
    by itself, and it is broken all the same: nobody knows whether it will.

    Without room a call is turned away until a checkpoint makes some, and that waits for a moment of rest: for
    the end of all that wait. Such a call stands in no line here, so another of the circle must give way.
    """
    line = execution.line
    own = line.outgoing_of(request)
    if own is not None:
        return HeldUp(False, [own]) if own.position <= committed else None
    is_in_line = line.is_in_line(request)
    if not is_in_line and (has_room or execution.retention.reply_to(*request) is not None):
        return None
    by = [each for each in islice(line.outgoings(), HELD_UP_BY_MAX) if each.position <= committed]
    return HeldUp(is_in_line, by) if by else None
