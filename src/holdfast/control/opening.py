"""Opening an update at the authority: who takes part, and under which number (IM-9, IM-34, T3, T4)."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from holdfast.authority.outcome import Contended, InDoubt, Seen, answering
from holdfast.authority.recipe import Recipe
from holdfast.authority.standing import Standing, Status, Transaction, read_standing
from holdfast.authority.transactions import (
    AlreadyDecided,
    Deposed,
    NotReady,
    TransactionOpen,
    WrongCas,
    create_transaction,
    next_cas,
    set_transaction_status,
)
from holdfast.control.participants import are_too_few, chosen
from holdfast.model.ids import HostId, Nonce, Term


@dataclass(frozen=True, slots=True)
class Opened:
    transaction: Transaction


@dataclass(frozen=True, slots=True)
class Short:
    """Not now: others must first hold the context. Nothing was opened."""

    why: str


@answering
def open_update(
    term: Term,
    host: HostId,
    *,
    absent: Callable[[Standing], Collection[HostId]],
    wanted: int,
    nonce: Nonce,
) -> Recipe[Opened | Short | Deposed | InDoubt]:
    """Open the next transaction of *term* with *wanted* managers that hold the committed context, without
    those who are *absent* as things stand."""
    standing = yield from read_standing()
    last = standing.last.value
    if last is not None and last.nonce == nonce:
        return Opened(last)
    coordinator = standing.coordinator()
    if standing.current_term != term or coordinator is None or coordinator.value.host != host:
        return Deposed(standing.current_term)
    left = standing.open_transaction
    if left is not None and left.term == term:
        # One that was given up in doubt, and was made after all: this process opens one at a time.
        ended = yield from set_transaction_status(
            term, left.cas, Status.ROLLBACK, nonce=Nonce(f"{nonce} left")
        )
        if not isinstance(ended, Transaction | AlreadyDecided):
            return Short(f"update {left.cas} is open: {ended}")
        standing = yield from read_standing()
    participants = chosen(standing, host, absent(standing), wanted)
    if are_too_few(standing, participants):
        return Short("no other host holds the state context yet")
    cas = next_cas(standing)
    answer = yield from create_transaction(term, cas, participants, nonce=nonce, as_of=standing)
    match answer:
        case Seen(value=transaction):
            return Opened(transaction)
        case Deposed() | InDoubt():
            return answer
        case NotReady() | WrongCas() | Contended():
            return Short(f"others were changing the membership: {answer}")
        case TransactionOpen():
            return Deposed(standing.current_term)
    return InDoubt(nonce, str(answer))
