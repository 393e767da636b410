"""Electing the coordinator (T2, T3; IM-35, IM-139, N-3).

One transaction takes the next term, turns what an older term left ``initial`` into ``rollback``, and names
the coordinator: from then on nothing of the older term can be decided. Eligible is only a living member that
took part in the last *committed* transaction and declares its context; when none lives there is no
coordinator, not any one.
"""

from collections.abc import Sequence

import msgspec

from holdfast.authority import keys
from holdfast.authority.contract import Applied, Change, Compare
from holdfast.authority.outcome import ATTEMPTS_MAX, Contended, InDoubt, Seen, answering, change, put
from holdfast.authority.recipe import Recipe
from holdfast.authority.standing import (
    MANAGER,
    Member,
    Participant,
    Standing,
    Status,
    TermRecord,
    read_standing,
)
from holdfast.authority.transactions import records
from holdfast.model.ids import HostId, Nonce, Term


class TermMoved(msgspec.Struct, frozen=True, tag="term_moved"):
    """Another election came first."""

    current: TermRecord | None


class Elected(msgspec.Struct, frozen=True, tag="elected"):
    """The term is taken. Its coordinator is None when no eligible host lives: elect again when one joins."""

    term: TermRecord


@answering
def elect(
    from_term: Term, *, nonce: Nonce, prefer: HostId | None = None
) -> Recipe[Elected | TermMoved | Contended | InDoubt]:
    """End *from_term* (0 before the first election) and elect in the next, *prefer* if it is eligible."""
    for _ in range(ATTEMPTS_MAX):
        standing = yield from read_standing()
        current = standing.term.value
        if current is not None and current.nonce == nonce:
            return Elected(current)
        if standing.current_term != from_term:
            return TermMoved(current)
        chosen = _choose(eligible(standing), prefer)
        record = TermRecord(
            term=Term(max(from_term, standing.floors.term) + 1),
            coordinator=None
            if chosen is None
            else Participant(host=chosen.value.host, incarnation=chosen.value.incarnation),
            address="" if chosen is None else chosen.value.address,
            nonce=nonce,
        )
        result = yield from change(
            _compares(standing, chosen),
            [put(keys.TERM, record), *_closing(standing, nonce)],
            nonce=nonce,
        )
        if isinstance(result, Applied):
            return Elected(record)
        if isinstance(result, InDoubt):
            return result
    return Contended(f"the election after term {from_term}")


@answering
def read_term() -> Recipe[TermRecord | None]:
    """The current term; None before the first election."""
    standing = yield from read_standing()
    return standing.term.value


def eligible(standing: Standing) -> tuple[Seen[Member], ...]:
    """The living managers that hold the last committed context, by host."""
    return tuple(each for each in standing.members if _is_eligible(standing, each.value))


def _is_eligible(standing: Standing, member: Member) -> bool:
    if MANAGER not in member.roles or member.context_cas != standing.committed_cas:
        return False
    committed = standing.committed.value
    # Before the first commit there is no context to hold, and nobody has taken part in anything.
    return committed is None or any(each.host == member.host for each in committed.participants)


def _choose(candidates: Sequence[Seen[Member]], prefer: HostId | None) -> Seen[Member] | None:
    preferred = (each for each in candidates if each.value.host == prefer)
    return next(preferred, candidates[0] if candidates else None)


def _compares(standing: Standing, chosen: Seen[Member] | None) -> list[Compare]:
    """Everything the choice rests on: no join, commit or restoration may slip in between."""
    compares = [
        standing.term.unchanged(),
        standing.last.unchanged(),
        standing.guard.unchanged(),
        standing.identity.unchanged(),
    ]
    return compares if chosen is None else [*compares, chosen.unchanged()]


def _closing(standing: Standing, nonce: Nonce) -> list[Change]:
    """The end of a transaction the old term left open (N-3): the first change of the new one."""
    left = standing.open_transaction
    if left is None:
        return []
    return records(msgspec.structs.replace(left, status=Status.ROLLBACK, nonce=nonce))
