"""Conflicts for people: both sides in clear, where the entry is, and what can be done."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from msgspec import Struct

from holdfast.directory.conflicts import BY_PEOPLE, Conflict, Kind, Side
from holdfast.directory.primitives import EntryId, uuid_text
from holdfast.directory.replica.snapshot import Snapshot
from holdfast.directory.results import quoted
from holdfast.model.csn import ZERO

KEPT: Final = "kept"
LOST: Final = "lost"

DnOf = Callable[[EntryId], str]
"""The name of an entry, or something by which people recognise it."""


class ConflictText(Struct, frozen=True, kw_only=True):
    """One conflict, told."""

    id: str
    kind: str
    entry: str
    """The entryUUID."""
    dn: str
    attribute: str = ""
    kept: str
    lost: str
    resolve: str
    """How it is resolved."""


def told(conflicts: Iterable[Conflict], snapshot: Snapshot) -> Iterator[ConflictText]:
    """Yield each of *conflicts* for people, with the names that entries have in *snapshot*."""

    def dn_of(entry: EntryId) -> str:
        return f"entryUUID={uuid_text(entry)}" if snapshot.shown(entry) is None else snapshot.dn(entry)[0]

    for each in conflicts:
        yield _told(each, dn_of)


def find_conflict(found: Iterable[Conflict], wanted: str) -> Conflict | None:
    return next((each for each in found if each.id == wanted), None)


def _told(conflict: Conflict, dn_of: DnOf) -> ConflictText:
    return ConflictText(
        id=conflict.id,
        kind=str(conflict.kind),
        entry=uuid_text(conflict.entry),
        dn=dn_of(conflict.entry),
        attribute=conflict.attribute,
        kept=_side(conflict.kept, dn_of),
        lost=_side(conflict.lost, dn_of),
        resolve=_advice(conflict),
    )


def _side(side: Side, dn_of: DnOf) -> str:
    parts = [side.change]
    if side.value is not None:
        parts.append(quoted(side.value.content))
    if side.name is not None:
        parts.append(quoted(side.name.text))
    if side.parent is not None and side.name is None:
        parts.append(f"below {dn_of(side.parent)}")
    if side.entry is not None:
        parts.append(f"of {uuid_text(side.entry)}")
    if side.csn != ZERO:
        parts.append(f"by {side.csn} ({side.csn.describe()})")
    return " ".join(parts)


def _advice(conflict: Conflict) -> str:
    if conflict.kind in BY_PEOPLE:
        return BY_PEOPLE[conflict.kind]
    if conflict.kind is Kind.REMOVED:
        return "keep it as it is (kept); what was lost can be added in a new entry"
    return "keep it as it is (kept), or take what lost instead (lost)"


def chosen(choice: str) -> bool:
    """Whether to keep what was kept. Raises ``ValueError``."""
    if choice not in (KEPT, LOST):
        raise ValueError(
            f"a conflict is resolved for what was {KEPT} or what was {LOST}, not {quoted(choice)}"
        )
    return choice == KEPT
