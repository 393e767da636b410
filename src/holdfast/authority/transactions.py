"""Transactions of the state context: the commit point of its two-phase commit (T2; IM D, N-2, N-3).

The coordinator of the current term creates a transaction as ``initial``, and it ends once, as ``commit`` or
``rollback``. Ending it compares the term it began in and the record that was ``initial``, so that a deposed
coordinator's late commit is refused, and so is a second decision. A CAS is used only once, even after a
rollback: a host that still holds the log of a rolled-back CAS would take another update's commit for its own.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from holdfast.authority import keys
from holdfast.authority.contract import Applied, Change, Delete
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
from holdfast.authority.recipe import (
    ATTEMPTS_MAX,
    Contended,
    InDoubt,
    Recipe,
    Seen,
    answering,
    change,
    put,
    read,
    read_all,
)
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import HostId, Nonce, Term

TRANSACTION_LOG_MAX: Final = 1_000
"""The most outcomes in the rolling log; a host that missed more starts from the coordinator's copy."""

PARTICIPANTS_MAX: Final = 32
"""The most participants: few hosts take part (T4), and each costs a compare in the opening transaction."""


class Deposed(msgspec.Struct, frozen=True, tag="deposed"):
    """The caller is not, or no longer, the coordinator of this term."""

    current_term: Term


class TransactionOpen(msgspec.Struct, frozen=True, tag="transaction_open"):
    """Another transaction has not ended yet."""

    transaction: Transaction


class WrongCas(msgspec.Struct, frozen=True, tag="wrong_cas"):
    """The next transaction has another CAS than the caller expects."""

    next_cas: int


class NotReady(msgspec.Struct, frozen=True, tag="not_ready"):
    """These hosts cannot take part: they are not members, or have not stored the current context (T3)."""

    hosts: tuple[HostId, ...]


class AlreadyDecided(msgspec.Struct, frozen=True, tag="already_decided"):
    """The transaction has ended the other way, and that is final."""

    transaction: Transaction


class NoTransaction(msgspec.Struct, frozen=True, tag="no_transaction"):
    """There is no record of that CAS: below *oldest* it left the log, above *last* it was never created."""

    cas: int
    oldest: int
    last: int


@answering
def create_transaction(
    term: Term, cas: int, participants: Sequence[HostId], *, nonce: Nonce, as_of: Standing | None = None
) -> Recipe[Seen[Transaction] | Deposed | TransactionOpen | WrongCas | NotReady | Contended | InDoubt]:
    """CreateTransaction: open update *cas* with exactly these participants, the coordinator among them.

    *as_of* is the snapshot they were chosen from; nothing is opened if a host has joined or left since.
    """
    if not 1 <= len(participants) <= PARTICIPANTS_MAX or len(set(participants)) != len(participants):
        raise InvalidRequest(f"a transaction has 1 to {PARTICIPANTS_MAX} participants, each once")
    for _ in range(ATTEMPTS_MAX):
        standing = yield from read_standing()
        last = standing.last.value
        if last is not None and last.nonce == nonce:
            return Seen(standing.last.key, last, standing.last.modified)
        objection = _objection_to_create(standing, term, cas, participants)
        if objection is not None:
            return objection
        if as_of is not None and standing.guard.modified != as_of.guard.modified:
            return Contended("the membership")
        chosen = [each for each in standing.members if each.value.host in participants]
        transaction = Transaction(
            cas=cas,
            term=term,
            status=Status.INITIAL,
            participants=tuple(
                Participant(host=each.value.host, incarnation=each.value.incarnation) for each in chosen
            ),
            nonce=nonce,
        )
        result = yield from change(
            [
                standing.term.unchanged(),
                standing.last.unchanged(),
                standing.guard.unchanged(),
                standing.identity.unchanged(),
                *(each.unchanged() for each in chosen),
            ],
            [*records(transaction), Delete(keys.transaction(max(cas - TRANSACTION_LOG_MAX, 0)))],
            nonce=nonce,
        )
        if isinstance(result, Applied):
            return Seen(standing.last.key, transaction, result.revision)
        if isinstance(result, InDoubt):
            return result
    return Contended(f"the creation of transaction {cas}")


@answering
def set_transaction_status(
    term: Term, cas: int, status: Status, *, nonce: Nonce
) -> Recipe[Transaction | Deposed | AlreadyDecided | NoTransaction | Contended | InDoubt]:
    """SetTransactionStatus: end the open transaction. Returns the record once it has exactly that status."""
    if status is Status.INITIAL:
        raise InvalidRequest("a transaction ends as commit or rollback")
    for _ in range(ATTEMPTS_MAX):
        found = yield from read(keys.LAST_TRANSACTION, Transaction)
        current = yield from read(keys.TERM, TermRecord)
        if found.value is None or found.value.cas != cas:
            past = yield from find_transaction(cas)
            return past if isinstance(past, NoTransaction) else _past(past, status)
        if found.value.status is not Status.INITIAL:
            return _past(found.value, status)
        if current.value is None or current.value.term != term or found.value.term != term:
            return Deposed(Term(0) if current.value is None else current.value.term)
        decided = msgspec.structs.replace(found.value, status=status, nonce=nonce)
        result = yield from change([found.unchanged(), current.unchanged()], records(decided), nonce=nonce)
        if isinstance(result, Applied):
            return decided
        if isinstance(result, InDoubt):
            return result
    return Contended(f"the end of transaction {cas}")


def find_transaction(cas: int) -> Recipe[Transaction | NoTransaction]:
    """The record of *cas* from the rolling log, as a step; :func:`get_transaction_status` stands alone."""
    found = yield from read(keys.transaction(cas), Transaction)
    if found.value is not None:
        return found.value
    latest = yield from read(keys.LAST_TRANSACTION, Transaction)
    last = 0 if latest.value is None else latest.value.cas
    return NoTransaction(cas, oldest=max(1, last - TRANSACTION_LOG_MAX + 1), last=last)


get_transaction_status = answering(find_transaction)


@answering
def list_transactions() -> Recipe[tuple[Transaction, ...]]:
    """List the rolling log, oldest first."""
    found = yield from read_all(keys.TRANSACTION_LOG, Transaction)
    return tuple(each.value for each in found.items)


@answering
def last_transaction() -> Recipe[Transaction | None]:
    """LastTransaction: the latest transaction, open or ended."""
    found = yield from read(keys.LAST_TRANSACTION, Transaction)
    return found.value


@answering
def last_committed() -> Recipe[Transaction | None]:
    """The last committed transaction, whose context is current."""
    found = yield from read(keys.COMMITTED, Transaction)
    return found.value


def records(transaction: Transaction) -> list[Change]:
    """The changes to every record that a transaction in this status affects."""
    changes: list[Change] = [
        put(keys.LAST_TRANSACTION, transaction),
        put(keys.transaction(transaction.cas), transaction),
    ]
    if transaction.status is Status.COMMIT:
        changes.append(put(keys.COMMITTED, transaction))
    return changes


def _objection_to_create(
    standing: Standing, term: Term, cas: int, participants: Sequence[HostId]
) -> Deposed | TransactionOpen | WrongCas | NotReady | None:
    coordinator = standing.coordinator()
    if standing.current_term != term or coordinator is None:
        return Deposed(standing.current_term)
    if coordinator.value.host not in participants:
        raise InvalidRequest("the coordinator takes part in its own transactions")
    if standing.open_transaction is not None:
        return TransactionOpen(standing.open_transaction)
    if cas != next_cas(standing):
        return WrongCas(next_cas(standing))
    unready = tuple(host for host in participants if not holds_context(standing, host))
    return NotReady(unready) if unready else None


def next_cas(standing: Standing) -> int:
    """The CAS that the next transaction must have."""
    return max(0 if standing.last.value is None else standing.last.value.cas, standing.floors.cas) + 1


def holds_context(standing: Standing, host: HostId) -> bool:
    """Whether *host* declared the committed context, or stored it as a participant in this process (T3)."""
    found = standing.member(host)
    if found is None or MANAGER not in found.value.roles:
        return False
    return found.value.context_cas == standing.committed_cas or _took_part(standing, found.value)


def _took_part(standing: Standing, member: Member) -> bool:
    committed = standing.committed.value
    process = Participant(host=member.host, incarnation=member.incarnation)
    return committed is not None and process in committed.participants


def _past(transaction: Transaction, wanted: Status) -> Transaction | AlreadyDecided:
    return transaction if transaction.status is wanted else AlreadyDecided(transaction)
