"""The coordinator: makes one update at a time, by two-phase commit with the authority as commit point (IM D,
T2).

Only this process, in this term, ever posts *commit* for its updates; what it tells callers follows from that.
Until it starts to post, every failure is definite. From then on only the authority's record can say (IM-132).

:func:`open_update` opens an update at the authority: who takes part, and under which number (IM-9, IM-34, T3,
T4).
"""

from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final

from holdfast.authority import membership
from holdfast.authority.control_records import Participant, Standing, Status, Transaction, read_standing
from holdfast.authority.recipe import Contended, InDoubt, NoAnswer, Recipe, Seen, answering
from holdfast.authority.transactions import (
    AlreadyDecided,
    Deposed,
    NoTransaction,
    NotReady,
    TransactionOpen,
    WrongCas,
    create_transaction,
    next_cas,
    set_transaction_status,
)
from holdfast.control.coordination.config import CHANGES_BYTES_MAX, CONTEXT_BYTES_MAX
from holdfast.control.coordination.members import Liveness, are_too_few, chosen, is_worth_listing, superfluous
from holdfast.control.coordination.messages import (
    Beat,
    BeatAnswer,
    Decided,
    Declined,
    Hello,
    Message,
    Prepare,
    Prepared,
    Same,
    Whole,
)
from holdfast.control.coordination.ports import Accepted, Failed, Tell, Unsettled
from holdfast.control.coordination.role_base import OwnPart, RoleBase
from holdfast.control.coordination.state_file import Context, digest_of
from holdfast.model.errors import HoldfastError, InvalidRequest, Overloaded, Rejected, Unavailable
from holdfast.model.ids import HostId, Incarnation, Nonce, Term


@dataclass(frozen=True, slots=True)
class Opened:
    transaction: Transaction


@dataclass(frozen=True, slots=True)
class Short:
    """Nothing was opened: other hosts must hold the context first."""

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
    """Open the next transaction of *term* with *wanted* managers that hold the committed context, leaving out
    those that *absent* returns for the current state."""
    standing = yield from read_standing()
    last = standing.last.value
    if last is not None and last.nonce == nonce:
        return Opened(last)
    coordinator = standing.coordinator()
    if standing.current_term != term or coordinator is None or coordinator.value.host != host:
        return Deposed(standing.current_term)
    left = standing.open_transaction
    if left is not None and left.term == term:
        # An opening that was given up in doubt took effect after all; this process opens one at a time.
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


PREPARES: Final = 3
"""How many times a participant is asked before it counts as failed."""


@dataclass(slots=True)
class Update:
    """One transaction, from the changes that wait for it to its end."""

    body: bytes
    changes: list[bytes]
    tells: list[Tell]
    replies: list[bytes]
    nonce: Nonce
    since_ns: int
    cas: int = 0
    missing: dict[HostId, None] = field(default_factory=dict)
    """The participants that have not accepted yet."""
    participants: tuple[HostId, ...] = ()
    decision: Status | None = None

    def tell_failed(self, why: HoldfastError) -> None:
        tells, self.tells = self.tells, []
        for tell in tells:
            tell(Failed(why))


class Coordinator(RoleBase):
    """The role of the host that makes updates. *step_down* returns to bootstrap, with the reason. *unheard*
    are the hosts that were silent before this term. *is_dead* says whether a process is proved dead."""

    def __init__(
        self,
        me: OwnPart,
        term: Term,
        step_down: Callable[[str], None],
        *,
        unheard: Collection[HostId] = (),
        is_dead: Callable[[Participant], bool],
    ) -> None:
        super().__init__(me)
        self.term = term
        self.context = me.archive.context
        self._step_down = step_down
        self._waiting: deque[tuple[bytes, Tell]] = deque()
        self._update: Update | None = None
        self._replicas = Liveness(
            me.host, me.ports.clock, me.config.silence_ns, unheard=unheard, is_dead=is_dead
        )

    def begin(self) -> None:
        self._beat()
        self._poll()

    def close(self) -> None:
        """Tell every waiting caller as much as can be known."""
        super().close()
        update, self._update = self._update, None
        if update is not None and update.decision is Status.COMMIT:
            tells, update.tells = update.tells, []
            for tell in tells:
                tell(Unsettled(update.cas))
        elif update is not None:
            update.tell_failed(Rejected("this host no longer coordinates; nothing was changed"))
        while self._waiting:
            _, tell = self._waiting.popleft()
            tell(Failed(Rejected("this host no longer coordinates; nothing was changed")))

    # --- changes

    def update(self, change: bytes, tell: Tell) -> None:
        """Make *change* part of the next transaction; *tell* is called once with its outcome."""
        if len(self._waiting) >= self.me.config.waiting_max:
            raise Overloaded(f"{self.me.config.waiting_max} changes wait already; try again later")
        self._waiting.append((change, tell))
        self._open_next()

    def _open_next(self) -> None:
        if self._update is not None or not self._waiting:
            return
        now = self.me.ports.clock.now()
        update = Update(self.context.body, [], [], [], self.me.ports.nonce(), now)
        while self._waiting and self._has_room(update, self._waiting[0][0]):
            self._add(update, *self._waiting.popleft())
        if update.changes:
            self._update = update
            self._open(update)

    def _has_room(self, update: Update, change: bytes) -> bool:
        """Whether the change still fits in one message to the participants; a single change always does."""
        size = sum(map(len, update.changes)) + len(change)
        return not update.changes or (
            len(update.changes) < self.me.config.changes_max and size <= CHANGES_BYTES_MAX
        )

    def _add(self, update: Update, change: bytes, tell: Tell) -> None:
        """Add a change to the update. A change that cannot be made fails alone, and the others go on."""
        try:
            body, reply = self.me.application.apply(update.body, change)
            if len(body) > CONTEXT_BYTES_MAX:
                raise InvalidRequest(
                    f"the state context would have {len(body)} bytes; at most {CONTEXT_BYTES_MAX}"
                )
        except InvalidRequest as error:
            tell(Failed(error))
            return
        update.body = body
        update.changes.append(change)
        update.tells.append(tell)
        update.replies.append(reply)

    # --- opening an update (IM-9, IM-10, IM-131)

    def _open(self, update: Update) -> None:
        absent, wanted = self._replicas.absent, self.me.config.participants
        recipe = open_update(self.term, self.me.host, absent=absent, wanted=wanted, nonce=update.nonce)
        self.ask(recipe, lambda answer: self._opened(update, answer))

    def _opened(self, update: Update, answer: Opened | Short | Deposed | InDoubt | NoAnswer) -> None:
        match answer:
            case Opened(transaction=transaction):
                self._prepare(update, transaction)
            case Deposed():
                self._step_down(f"term {answer.current_term} is not this host's")
            case InDoubt():
                self.later(self.me.config.retry_ns, lambda: self._open(update))
            case Short(why=why) if self._may_wait(update):
                self.me.ports.trace.note("short", why=why)
                self.later(self.me.config.retry_ns, lambda: self._open(update))
            case Short(why=why):
                self._give_up_unopened(update, Unavailable(why))
            case NoAnswer(reason=reason):
                said = f"the authority cannot be reached ({reason}); nothing was changed"
                self._give_up_unopened(update, Unavailable(said))

    def _may_wait(self, update: Update) -> bool:
        return self.me.ports.clock.now() - update.since_ns < self.me.config.patience_ns

    def _give_up_unopened(self, update: Update, why: HoldfastError) -> None:
        update.tell_failed(why)
        self._update = None
        self.later(self.me.config.retry_ns, self._open_next)

    # --- phase one (IM-21 to IM-26)

    def _prepare(self, update: Update, transaction: Transaction) -> None:
        update.cas = transaction.cas
        update.participants = tuple(each.host for each in transaction.participants)
        update.missing = dict.fromkeys(update.participants)
        proposed = Context(update.cas, update.body)

        def kept() -> None:
            self._accepted(self.me.host, update)

        self.me.archive.keep_log(proposed, self.still(kept))
        self._send_prepares(update, PREPARES)

    def _send_prepares(self, update: Update, left: int) -> None:
        if update.decision is not None:
            return
        if not left:
            self._decide(update, Status.ROLLBACK, f"no answer from {', '.join(update.missing)}")
            return
        message = Prepare(
            self.term,
            update.cas,
            self.context.cas,
            self.context.digest,
            tuple(update.changes),
            digest_of(update.cas, update.body),
        )
        for host in update.missing:
            if host != self.me.host:
                self._send(host, message)
        self.later(self.me.config.prepare_ns // PREPARES, lambda: self._send_prepares(update, left - 1))

    def _accepted(self, host: HostId, update: Update) -> None:
        update.missing.pop(host, None)
        if not update.missing and update.decision is None:
            self._accepted_all(update)

    def _accepted_all(self, update: Update) -> None:
        self._decide(update, Status.COMMIT)

    # --- the commit point (IM-24, IM-27, IM-30)

    def _decide(self, update: Update, status: Status, why: str = "") -> None:
        update.decision = status
        if status is Status.ROLLBACK:
            update.tell_failed(Rejected(f"{why}; rolled back, nothing was changed"))
        nonce = self.me.ports.nonce()
        self.insist(
            lambda: set_transaction_status(self.term, update.cas, status, nonce=nonce),
            lambda answer: self._decided(update, answer),
        )

    def _decided(
        self, update: Update, answer: Transaction | Deposed | AlreadyDecided | NoTransaction
    ) -> None:
        found = answer.transaction if isinstance(answer, AlreadyDecided) else answer
        if not isinstance(found, Transaction):
            self._step_down(f"what became of update {update.cas} is for the record to say: {found}")
        elif found.status is Status.COMMIT:
            self._committed(update)
        else:
            update.tell_failed(Rejected("another coordinator was elected; nothing was changed"))
            self._finish(update, is_commit=False)

    # --- phase two (IM-25, IM-28, IM-134)

    def _committed(self, update: Update) -> None:
        self.context = Context(update.cas, update.body)
        self._finish(update, is_commit=True)
        tells, update.tells = update.tells, []
        for tell, reply in zip(tells, update.replies, strict=True):
            tell(Accepted(update.cas, reply))
        self.me.application.on_context(self.context)

    def _finish(self, update: Update, *, is_commit: bool) -> None:
        for host in update.participants:
            if host != self.me.host:
                self._send(host, Decided(self.term, update.cas, is_commit))

        def settled() -> None:
            self._update = None
            self._open_next()

        if is_commit:
            self.me.archive.promote(update.cas, self.still(settled))
        else:
            self.me.archive.drop_log(self.still(settled))

    # --- replicas

    def on_message(self, peer: HostId, message: Message) -> None:
        """Handle a message of this term."""
        self._replicas.hear(peer)
        update = self._update
        match message:
            case Hello(cas=cas, digest=digest):
                is_same = (cas, digest) == (self.context.cas, self.context.digest)
                self._send(peer, Same(self.term, cas) if is_same else Whole(self.term, self.context))
            case Prepared(cas=cas) if update is not None and update.cas == cas:
                self._accepted(peer, update)
            case Declined(cas=cas, why=why) if update is not None and update.cas == cas:
                if update.decision is None and peer in update.missing:
                    self._decide(update, Status.ROLLBACK, f"{peer} cannot take part: {why}")
            case BeatAnswer() | _:
                pass

    def on_death(self, host: HostId, incarnation: Incarnation) -> None:
        """Handle a proved death (K2): nothing waits for that process, and the next update leaves it out."""
        update = self._update
        if not self._replicas.on_death(host, incarnation):
            return
        if update is None:
            self._remove_silent()
        elif update.decision is None and host in update.missing:
            self._decide(update, Status.ROLLBACK, f"{host} is dead")

    def _beat(self) -> None:
        for host in self._replicas:
            self._send(host, Beat(self.term, self.context.cas))
        self.later(self.me.config.beat_ns, self._beat)

    def _send(self, host: HostId, message: object) -> None:
        self.me.ports.network.send(host, message)

    # --- polling the authority (IM-3, IM-105, IM-141)

    def _poll(self) -> None:
        now, config = self.me.ports.clock.now(), self.me.config
        if now - self.answered_at > config.isolation_ns:
            self._step_down("the authority cannot be reached")
            return
        self.ask(answering(read_standing)(), self._polled)
        self.later(config.poll_ns, self._poll)

    def _polled(self, standing: Standing | NoAnswer) -> None:
        if isinstance(standing, NoAnswer):
            return
        coordinator = standing.coordinator()
        if standing.current_term != self.term or coordinator is None:
            self._step_down(f"term {standing.current_term} is not this host's")
            return
        self._replicas.on_standing(standing)
        if self._update is None:
            self._end_left_open(standing.open_transaction)
            self._remove_silent()
            self._adjust_participants(standing)

    def _end_left_open(self, left: Transaction | None) -> None:
        """Roll back an opening that was given up in doubt but took effect after all. Nobody else ends it
        while this host coordinates, and until then nobody can join (IM-34). If it has ended since, that
        outcome stands."""
        if left is not None:
            nonce, cas = self.me.ports.nonce(), left.cas
            self.insist(
                lambda: set_transaction_status(self.term, cas, Status.ROLLBACK, nonce=nonce), _nothing_more
            )

    def _remove_silent(self) -> None:
        """Remove replicas that do not answer from the list (IM-105); they come back through bootstrap."""
        for each in self._replicas.silent():
            self._remove(each.host, each.incarnation)

    def _remove(self, host: HostId, incarnation: Incarnation) -> None:
        self.me.ports.trace.note("remove", host=host)
        self.ask(membership.leave(host, incarnation, nonce=self.me.ports.nonce()), _nothing_more)

    def _adjust_participants(self, standing: Standing) -> None:
        """Keep as many participants as wanted, and make sure that all of them can be elected."""
        wanted = self.me.config.participants
        for each in superfluous(standing, wanted):
            self._remove(each.host, each.incarnation)
        if standing.open_transaction is None and is_worth_listing(standing, self.me.host, wanted):
            self._list_participants()

    def _list_participants(self) -> None:
        """Make an update without changes, whose participants are thereby listed."""
        if self._update is None:
            body, now = self.context.body, self.me.ports.clock.now()
            self._update = Update(body, [], [], [], self.me.ports.nonce(), now)
            self._open(self._update)


def _nothing_more(_: object) -> None:
    """Ignore the answer; the next poll shows the result."""
