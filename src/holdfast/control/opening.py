"""Opening an update at the authority: who takes part, and under which number (IM-9, IM-34, T3, T4)."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from holdfast.authority.outcome import Contended, InDoubt, Seen, answering
from holdfast.authority.recipe import Recipe
from holdfast.authority.standing import MANAGER, Standing, Transaction, read_standing
from holdfast.authority.transactions import (
    PARTICIPANTS_MAX,
    Deposed,
    NotReady,
    TransactionOpen,
    WrongCas,
    create_transaction,
    holds_context,
    next_cas,
)
from holdfast.model.ids import HostId, Nonce, Term

ENOUGH_HOSTS: Final = 3
PARTICIPANTS_MIN: Final = 2
"""Never fewer than two take part while three hosts are there (T4)."""


@dataclass(frozen=True, slots=True)
class Opened:
    transaction: Transaction


@dataclass(frozen=True, slots=True)
class Short:
    """Not now: others must first hold the context. Nothing was opened."""

    why: str


@answering
def open_update(
    term: Term, host: HostId, *, without: Collection[HostId], nonce: Nonce
) -> Recipe[Opened | Short | Deposed | InDoubt]:
    """Open the next transaction of *term* with every manager that holds the committed context, *without*
    those of whom nothing is heard."""
    standing = yield from read_standing()
    last = standing.last.value
    if last is not None and last.nonce == nonce:
        return Opened(last)
    coordinator = standing.coordinator()
    if standing.current_term != term or coordinator is None or coordinator.value.host != host:
        return Deposed(standing.current_term)
    participants = _holders(standing, host, without)
    managers = sum(MANAGER in each.value.roles for each in standing.members)
    if managers >= ENOUGH_HOSTS and len(participants) < PARTICIPANTS_MIN:
        return Short("no other host holds the state context yet")
    answer = yield from create_transaction(term, next_cas(standing), participants, nonce=nonce)
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


def _holders(standing: Standing, host: HostId, without: Collection[HostId]) -> list[HostId]:
    """This host first."""
    others = [
        each.value.host
        for each in standing.members
        if each.value.host != host
        and each.value.host not in without
        and holds_context(standing, each.value.host)
    ]
    return [host, *others[: PARTICIPANTS_MAX - 1]]
