"""The annexes that groups have: here, and nowhere else, is one entered (W9).

Hosts find them here, and so do the processes that replay records with an older version of a class (E7).
"""

from collections.abc import Callable
from typing import Final

from holdfast.authority.groups import GroupRecord
from holdfast.execution.annex import Annex
from holdfast.streams.annex import streams_of

MakeAnnex = Callable[[GroupRecord, type], Annex | None]
"""Makes an annex for a member of that group, whose object is of that class; None if the group has none of the
kind."""

ANNEXES: Final[tuple[MakeAnnex, ...]] = (streams_of,)


def annexes_of(record: GroupRecord, cls: type, table: tuple[MakeAnnex, ...] = ANNEXES) -> tuple[Annex, ...]:
    """The annexes of a member of that group, not bound yet."""
    return tuple(annex for make in table if (annex := make(record, cls)) is not None)
