"""The control activity: hosts join the control plane, elect a coordinator, and run transactions.

It exercises T2, T3, IM-34 and IM-35. The replicas' side of the two-phase commit is left out: a host that sees
a committed context adopts it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from holdfast.authority import election, keys, membership, transactions
from holdfast.authority.contract import KeyValue
from holdfast.authority.control_records import Member, Standing, Status, Transaction, read_standing
from holdfast.authority.recipe import InDoubt, NoAnswer, Recipe, Seen, answering
from holdfast.authority.sessions import NoSession
from holdfast.model.ids import MILLISECOND, Nonce, Term
from holdfast.sim.scenarios.authority.host import HostProcess

USURP, ROLL_BACK = 0.06, 0.2
"""The probabilities that a host starts an election although there is a coordinator, and that a coordinator
rolls back."""


@dataclass(slots=True)
class _Opened:
    """A transaction that this process has created and not yet seen decided."""

    term: Term
    cas: int
    status: Status
    nonce: Nonce


def can_govern(items: Mapping[str, KeyValue]) -> bool:
    """Whether a member could be elected: one that took part in the last commit and has its context."""
    members = [
        msgspec.json.decode(item.value, type=Member)
        for key, item in items.items()
        if key.startswith(keys.MEMBERS)
    ]
    if keys.COMMITTED not in items:
        return any(member.context_cas == 0 for member in members)
    committed = msgspec.json.decode(items[keys.COMMITTED].value, type=Transaction)
    hosts = [each.host for each in committed.participants]
    return any(member.host in hosts and member.context_cas == committed.cas for member in members)


class Governing:
    name = "governing"
    think_ns = 300 * MILLISECOND

    def __init__(self, host: HostProcess) -> None:
        self._host = host
        self._opened: _Opened | None = None
        self._join_nonce = host.nonce()

    def round(self) -> Recipe[None]:
        if self._opened is not None:
            # Also when it has been deposed meanwhile: its late commit must be refused (N-2).
            yield from self._decide(self._opened)
            return
        standing = yield from answering(read_standing)()
        if isinstance(standing, NoAnswer):
            return
        me = standing.member(self._host.name)
        if me is None or me.value.incarnation != self._host.session.incarnation:
            yield from self._join(standing)
        else:
            yield from self._govern(standing, me)

    def _join(self, standing: Standing) -> Recipe[None]:
        record = self._host.file.record
        answer = yield from membership.join(
            self._host.session, context_cas=record.context_cas, nonce=self._join_nonce
        )
        if isinstance(answer, NoSession):
            self._host.ports.stop("the session is gone")
        elif isinstance(answer, membership.Held) and standing.coordinator() is None:
            # The host that opened the transaction is gone: only a new term closes it and lets others join
            # (N-3).
            yield from self._elect(standing)
        elif isinstance(answer, Seen):
            self._join_nonce = self._host.nonce()
            self._host.done("joining")

    def _govern(self, standing: Standing, me: Seen[Member]) -> Recipe[None]:
        host = self._host
        self._take_over_context(standing)
        if me.value.context_cas != host.file.record.context_cas:
            yield from membership.declare_context(
                host.name,
                host.session.incarnation,
                context_cas=host.file.record.context_cas,
                nonce=host.nonce(),
            )
        elif standing.coordinator() is None or host.rng.random() < USURP:
            yield from self._elect(standing)
        elif standing.coordinator() == me:
            yield from self._create(standing)

    def _take_over_context(self, standing: Standing) -> None:
        committed = standing.committed.value
        record = self._host.file.record
        if committed is None or record.context_cas >= committed.cas:
            return
        took_part = any(each.host == self._host.name for each in committed.participants)
        if took_part or standing.coordinator() is not None:
            self._host.file.write(context_cas=committed.cas)

    def _elect(self, standing: Standing) -> Recipe[None]:
        nonce = self._host.nonce()
        answer = yield from election.elect(standing.current_term, nonce=nonce, prefer=self._host.name)
        while isinstance(answer, InDoubt):
            answer = yield from election.elect(standing.current_term, nonce=nonce, prefer=self._host.name)

    def _create(self, standing: Standing) -> Recipe[None]:
        rng = self._host.rng
        others = [
            each.value.host
            for each in standing.members
            if each.value.host != self._host.name and each.value.context_cas == standing.committed_cas
        ]
        participants = [self._host.name, *others]
        last = standing.last.value
        nonce, cas = self._host.nonce(), (0 if last is None else last.cas) + 1
        term = standing.current_term
        answer = yield from transactions.create_transaction(term, cas, participants, nonce=nonce)
        while isinstance(answer, InDoubt | transactions.WrongCas):
            cas = answer.next_cas if isinstance(answer, transactions.WrongCas) else cas
            answer = yield from transactions.create_transaction(term, cas, participants, nonce=nonce)
        if isinstance(answer, Seen):
            status = Status.ROLLBACK if rng.random() < ROLL_BACK else Status.COMMIT
            self._opened = _Opened(term, cas, status, self._host.nonce())

    def _decide(self, opened: _Opened) -> Recipe[None]:
        answer = yield from transactions.set_transaction_status(
            opened.term, opened.cas, opened.status, nonce=opened.nonce
        )
        if isinstance(answer, InDoubt):
            self._host.stage.world.sometimes("a decision in doubt")
        elif not isinstance(answer, NoAnswer):
            self._opened = None
            if isinstance(answer, Transaction):
                self._decided(answer)
            else:
                self._host.stage.world.sometimes(f"a decision was {type(answer).__name__.lower()}")

    def _decided(self, transaction: Transaction) -> None:
        truth = self._host.stage.truth
        decision = truth.rules.decision(transaction.cas)
        if decision not in (transaction.status, None):
            self._host.stage.world.violation("N-2", f"{transaction} was told; the decision is {decision}")
        if transaction.status is Status.COMMIT:
            self._host.file.write(context_cas=transaction.cas)
        self._host.done(self.name)
