"""Elects the coordinator of the control plane (T2, T3; IM-35, IM-139, N-3).

An election is one transaction. It takes the next term, turns a transaction that an older term left
``initial`` into ``rollback``, and names the coordinator. From then on nothing of the older term can be
decided. Only a living member that took part in the last *committed* transaction and declares its context is
eligible. When no such member lives, there is no coordinator.

Elections rightly choose only holders of the committed context (IM-139). When all of them are lost for good, a
person decides whose copy the domain continues with (:func:`recover_context`, T4). One transaction begins a
new term and records, as committed, an update whose only participant is that host. From then on that host
holds the committed context.
"""

from collections.abc import Sequence

import msgspec

from holdfast.authority import keys
from holdfast.authority.contract import Applied, Change, Compare
from holdfast.authority.control_records import (
    MANAGER,
    Member,
    Participant,
    Standing,
    Status,
    TermRecord,
    Transaction,
    read_standing,
)
from holdfast.authority.membership import NotJoined
from holdfast.authority.recipe import ATTEMPTS_MAX, Contended, InDoubt, Recipe, Seen, answering, change, put
from holdfast.authority.transactions import WrongCas, next_cas, records
from holdfast.model.ids import HostId, Incarnation, Nonce, Term


class TermMoved(msgspec.Struct, frozen=True, tag="term_moved"):
    """Another election ended this term first."""

    current: TermRecord | None


class Elected(msgspec.Struct, frozen=True, tag="elected"):
    """The term is taken. Its coordinator is None when no eligible host lives: elect again when one joins."""

    term: TermRecord


@answering
def elect(
    from_term: Term, *, nonce: Nonce, prefer: HostId | None = None
) -> Recipe[Elected | TermMoved | Contended | InDoubt]:
    """End *from_term* (0 before the first election) and elect in the next term, *prefer* if eligible."""
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
    """The living managers that hold the last committed context, sorted by host."""
    return tuple(each for each in standing.members if _is_eligible(standing, each.value))


def _is_eligible(standing: Standing, member: Member) -> bool:
    if MANAGER not in member.roles or member.context_cas != standing.committed_cas:
        return False
    committed = standing.committed.value
    # Before the first commit there is no context to hold and nobody has taken part in a transaction.
    return committed is None or any(each.host == member.host for each in committed.participants)


def _choose(candidates: Sequence[Seen[Member]], prefer: HostId | None) -> Seen[Member] | None:
    preferred = (each for each in candidates if each.value.host == prefer)
    return next(preferred, candidates[0] if candidates else None)


def _compares(standing: Standing, chosen: Seen[Member] | None) -> list[Compare]:
    """Compare every record the choice depends on: no join, commit or restoration can come in between."""
    compares = [
        standing.term.unchanged(),
        standing.last.unchanged(),
        standing.guard.unchanged(),
        standing.identity.unchanged(),
    ]
    return compares if chosen is None else [*compares, chosen.unchanged()]


def _closing(standing: Standing, nonce: Nonce) -> list[Change]:
    """Roll back the transaction that the old term left open, as part of the new term's first change (N-3)."""
    left = standing.open_transaction
    if left is None:
        return []
    return records(msgspec.structs.replace(left, status=Status.ROLLBACK, nonce=nonce))


class Governed(msgspec.Struct, frozen=True, tag="governed"):
    """A host coordinates or can be elected, so there is nothing to recover."""

    host: HostId


class Recovered(msgspec.Struct, frozen=True, tag="recovered"):
    transaction: Transaction


@answering
def recover_context(
    host: HostId, incarnation: Incarnation, cas: int, *, nonce: Nonce
) -> Recipe[Recovered | Governed | NotJoined | WrongCas | Contended | InDoubt]:
    """Make the update *cas*, which that process has logged, the committed context."""
    for _ in range(ATTEMPTS_MAX):
        standing = yield from read_standing()
        committed = standing.committed.value
        if committed is not None and committed.nonce == nonce:
            return Recovered(committed)
        able = governing(standing)
        if able is not None:
            return Governed(able)
        found = standing.member(host)
        if found is None or found.value.incarnation != incarnation or MANAGER not in found.value.roles:
            return NotJoined(host, incarnation)
        if cas != next_cas(standing):
            return WrongCas(next_cas(standing))
        term = Term(max(standing.current_term, standing.floors.term) + 1)
        transaction = Transaction(
            cas=cas,
            term=term,
            status=Status.COMMIT,
            participants=(Participant(host=host, incarnation=incarnation),),
            nonce=nonce,
        )
        result = yield from change(
            [
                standing.term.unchanged(),
                standing.last.unchanged(),
                standing.guard.unchanged(),
                standing.identity.unchanged(),
                found.unchanged(),
            ],
            [
                put(keys.TERM, TermRecord(term=term, coordinator=None, address="", nonce=nonce)),
                *_closing_open(standing, nonce),
                *records(transaction),
            ],
            nonce=nonce,
        )
        if isinstance(result, Applied):
            return Recovered(transaction)
        if isinstance(result, InDoubt):
            return result
    return Contended("the recovery of the state context")


def governing(standing: Standing) -> HostId | None:
    """The host that coordinates or can be elected, or None."""
    coordinator = standing.coordinator()
    if coordinator is not None:
        return coordinator.value.host
    able = eligible(standing)
    return able[0].value.host if able else None


def _closing_open(standing: Standing, nonce: Nonce) -> list[Change]:
    """Roll back an update that was left open. The recovering update is now the last one."""
    left = standing.open_transaction
    if left is None:
        return []
    ended = msgspec.structs.replace(left, status=Status.ROLLBACK, nonce=nonce)
    return [put(keys.transaction(left.cas), ended)]
