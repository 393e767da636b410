"""The annexes that groups have: here, and nowhere else, is one entered (W9).

Hosts find them here, and so do the processes that replay records with an older version of a class (E7).
"""

from collections.abc import Callable
from typing import Final

from holdfast.authority.groups import GroupRecord
from holdfast.execution.annex import Annex

MakeAnnex = Callable[[GroupRecord], Annex | None]
"""Makes an annex for a member of that group; None if the group has none of the kind."""

ANNEXES: Final[tuple[MakeAnnex, ...]] = ()


def annexes_of(record: GroupRecord, table: tuple[MakeAnnex, ...] = ANNEXES) -> tuple[Annex, ...]:
    """The annexes of a member of that group, not bound yet."""
    return tuple(annex for make in table if (annex := make(record)) is not None)
