"""A group whose class cannot be had on this host: its member holds the sequence, and no object (O3).

It was listed, perhaps, and counts: were it not there at all, nothing might commit. So it follows and
acknowledges, as any member without its object, never leads, and keeps its log short by taking states.
"""

from typing import NoReturn

from holdfast.authority.groups import GroupRecord
from holdfast.model.errors import HoldfastError
from holdfast.model.properties import Style
from holdfast.styles.definition import Definition, NotMade
from holdfast.styles.style import style_named


class Vacancy:
    """Stands where the class would."""


def has_vacancy(record: GroupRecord) -> bool:
    """Whether a member without the class is of any use: of groups whose members keep a record."""
    return style_named(record.style) is not Style.STATELESS


def vacant(record: GroupRecord, why: HoldfastError) -> Definition:
    """A definition of no object; whoever tries to make one is told *why*."""

    def fresh() -> NoReturn:
        raise NotMade(str(why))

    return Definition(
        group=record.name or str(record.group), cls=Vacancy, fresh=fresh, created_ns=record.created_ns
    )
