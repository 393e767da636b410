"""A new state context where nobody holds the last committed one any more (T4).

Elections choose only holders of the committed context, and are right to (IM-139); when all of them are lost
for good, a person decides from whose copy the domain goes on. One transaction begins a new term and puts on
record, as committed, an update whose only participant is that host: from then on it holds what is committed.
"""

import msgspec

from holdfast.authority import keys
from holdfast.authority.contract import Applied, Change
from holdfast.authority.election import eligible
from holdfast.authority.membership import NotJoined
from holdfast.authority.outcome import ATTEMPTS_MAX, Contended, InDoubt, answering, change, put
from holdfast.authority.recipe import Recipe
from holdfast.authority.standing import (
    MANAGER,
    Participant,
    Standing,
    Status,
    TermRecord,
    Transaction,
    read_standing,
)
from holdfast.authority.transactions import WrongCas, next_cas, records
from holdfast.model.ids import HostId, Incarnation, Nonce, Term


class Governed(msgspec.Struct, frozen=True, tag="governed"):
    """A host coordinates, or can be elected: nothing is to be recovered."""

    host: HostId


class Recovered(msgspec.Struct, frozen=True, tag="recovered"):
    transaction: Transaction


@answering
def recover_context(
    host: HostId, incarnation: Incarnation, cas: int, *, nonce: Nonce
) -> Recipe[Recovered | Governed | NotJoined | WrongCas | Contended | InDoubt]:
    """Let what that process has logged as update *cas* be the committed context."""
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
                *_closing(standing, nonce),
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
    """Who coordinates or can be elected, if anybody."""
    coordinator = standing.coordinator()
    if coordinator is not None:
        return coordinator.value.host
    able = eligible(standing)
    return able[0].value.host if able else None


def _closing(standing: Standing, nonce: Nonce) -> list[Change]:
    """An update left open has come to nothing; the last is now the one that recovers."""
    left = standing.open_transaction
    if left is None:
        return []
    ended = msgspec.structs.replace(left, status=Status.ROLLBACK, nonce=nonce)
    return [put(keys.transaction(left.cas), ended)]
