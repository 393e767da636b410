"""The two following roles: replicas, which keep the coordinator's context, and onlookers, which only read it
(IM F3).

A :class:`ContextReplica` holds what its coordinator holds, and accepts updates from it alone.

An :class:`Observer` is the role of a host that takes no part because enough others do. It holds the
coordinator's context in memory, slightly late, so that it can be read on every host. It stores nothing and
cannot be elected (T3). When a place among the participants becomes free, it takes part.
"""

from collections.abc import Callable

from holdfast.authority import membership
from holdfast.authority.control_records import (
    Member,
    Participant,
    Standing,
    Status,
    Transaction,
    read_standing,
)
from holdfast.authority.membership import NotJoined
from holdfast.authority.recipe import NoAnswer, Seen, answering
from holdfast.authority.transactions import NoTransaction, get_transaction_status, last_committed
from holdfast.control.coordination.members import shall_take_part
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
from holdfast.control.coordination.role_base import OwnPart, RoleBase
from holdfast.control.coordination.state_file import Context
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import Term


class ContextReplica(RoleBase):
    """The role of a participant that follows a coordinator. *leave* returns to bootstrap, with the reason and
    whether the coordinator is considered gone."""

    def __init__(
        self, me: OwnPart, term: Term, coordinator: Participant, leave: Callable[[str, bool], None]
    ) -> None:
        super().__init__(me)
        self.term = term
        self.coordinator = coordinator
        self.is_ready = False
        """Whether it holds the coordinator's context and has declared that at the authority."""
        self._leave = leave
        self._heard_at = me.ports.clock.now()
        self._is_writing = False
        """Whether the state file is being changed, or the coordinator's copy was stored and is not declared
        yet."""
        self._decided_cas = 0
        """The newest update whose outcome is known here. Late messages about it are ignored."""
        self._is_settling = False

    def begin(self) -> None:
        self._hello()
        self._watch()
        self._poll()

    # --- the coordinator's copy (IM-75, IM-78)

    def _hello(self) -> None:
        if not self.is_ready and not self._is_writing:
            context = self.me.archive.context
            self._send(Hello(self.term, context.cas, context.digest))
        if not self.is_ready:
            self.later(self.me.config.retry_ns, self._hello)

    def _take(self, context: Context) -> None:
        if self.is_ready or self._is_writing:
            return
        if self.me.archive.context.cas > context.cas:
            self.ask(last_committed(), lambda committed: self._take_older(context, committed))
        else:
            self._replace(context)

    def _take_older(self, context: Context, committed: Transaction | NoAnswer | None) -> None:
        """Take an older context only if the record does not know the one held here: the authority was
        restored (A5). Otherwise the copy is a late one from earlier in this term. *Without that:* it undoes
        the committed context, of which this host may be the last holder (T3)."""
        held = self.me.archive.context
        if isinstance(committed, NoAnswer) or self.is_ready or self._is_writing:
            return
        if held.cas > (0 if committed is None else committed.cas):
            self.me.ports.trace.note("given_up", cas=held.cas, for_cas=context.cas)
            self._replace(context)

    def _replace(self, context: Context) -> None:
        self._is_writing = True
        self.me.archive.replace(context, self.still(self._taken))

    def _taken(self) -> None:
        nonce, cas = self.me.ports.nonce(), self.me.archive.context.cas

        def declared(answer: Seen[Member] | NotJoined) -> None:
            # Not before: once declared, the replica may take part in updates, and a second, late copy of the
            # context would undo one that it has committed (T3).
            self._is_writing = False
            if isinstance(answer, NotJoined):
                self._leave("it is no member any more", False)
            else:
                self._be_ready()

        self.insist(
            lambda: membership.declare_context(
                self.me.host, self.me.incarnation, context_cas=cas, nonce=nonce
            ),
            declared,
        )

    def _be_ready(self) -> None:
        if not self.is_ready:
            self.is_ready = True
            self.me.application.on_context(self.me.archive.context)

    # --- updates (IM-23, IM-77, IM-79 to IM-81)

    def on_message(self, message: Message) -> None:
        """Handle a message of this term from the coordinator."""
        self._heard_at = self.me.ports.clock.now()
        match message:
            case Whole(context=context):
                self._take(context)
            case Same(cas=cas) if cas == self.me.archive.context.cas and not self._is_writing:
                self._be_ready()
            case Prepare():
                self._prepare(message)
            case Decided(cas=cas, is_commit=is_commit):
                self._decided(cas, is_commit)
            case Beat(cas=cas):
                self._send(BeatAnswer(self.term, self.me.archive.context.cas))
                self._compare(cas)
            case _:
                pass

    def _prepare(self, asked: Prepare) -> None:
        archive = self.me.archive
        if asked.cas <= self._decided_cas or self._is_writing:
            return  # a late copy, or the log is being written
        if archive.log is not None and archive.log.cas == asked.cas:
            self._send(Prepared(self.term, asked.cas))
        elif archive.log is not None:
            self._settle()  # the coordinator asks again
        elif (asked.base_cas, asked.base_digest) != (archive.context.cas, archive.context.digest):
            why = f"it holds the context of {archive.context.cas}, not of {asked.base_cas}"
            self.decline(asked.cas, why)
            if self.is_ready:
                self._leave(why, False)
        else:
            self._keep(asked)

    def decline(self, cas: int, why: str) -> None:
        """Refuse to take part in *cas*, which is then rolled back (IM-24)."""
        self._send(Declined(self.term, cas, why))

    def _keep(self, asked: Prepare) -> None:
        proposed = self._made_of(asked)
        if proposed is None:
            self.decline(asked.cas, "the changes lead to another context here")
            return
        self._is_writing = True

        def kept() -> None:
            self._is_writing = False
            self._send(Prepared(self.term, asked.cas))

        self.me.archive.keep_log(proposed, self.still(kept))

    def _made_of(self, asked: Prepare) -> Context | None:
        body = self.me.archive.context.body
        try:
            for change in asked.changes:
                body, _ = self.me.application.apply(body, change)
        except InvalidRequest:
            return None
        proposed = Context(asked.cas, body)
        return proposed if proposed.digest == asked.digest else None

    def _decided(self, cas: int, is_commit: bool) -> None:
        archive = self.me.archive
        if self._is_writing:
            return  # a write of another update, or of one that was given up; the record will say
        self._decided_cas = max(self._decided_cas, cas)
        if archive.log is None or archive.log.cas != cas:
            return
        self._is_writing = True

        def settled() -> None:
            self._is_writing = False
            if is_commit:
                self.me.application.on_context(archive.context)

        if is_commit:
            archive.promote(cas, self.still(settled))
        else:
            archive.drop_log(self.still(settled))

    def _compare(self, cas: int) -> None:
        """Compare the coordinator's context number with the one here. A difference means that the end of an
        update, or whole updates, were missed."""
        archive = self.me.archive
        if not self.is_ready or self._is_writing or cas == archive.context.cas:
            return
        if archive.log is not None:
            self._settle()
        elif cas > archive.context.cas:
            self._leave(f"it missed updates: the coordinator holds {cas}", False)

    def _settle(self) -> None:
        """Ask the record how the update that is logged here ended (IM-32)."""
        log = self.me.archive.log
        if log is None or self._is_settling:
            return
        self._is_settling = True
        cas = log.cas

        def answered(found: Transaction | NoTransaction | NoAnswer) -> None:
            self._is_settling = False
            if isinstance(found, Transaction) and found.status is not Status.INITIAL:
                self._decided(cas, found.status is Status.COMMIT)

        self.ask(get_transaction_status(cas), answered)

    # --- checking coordinator, membership and term (IM-80, IM-106, IM-142)

    def _watch(self) -> None:
        if self.me.ports.clock.now() - self._heard_at > self.me.config.silence_ns:
            self._leave(f"{self.coordinator.host} is silent", True)
        else:
            self.later(self.me.config.beat_ns, self._watch)

    def _poll(self) -> None:
        self.ask(answering(read_standing)(), self._polled)
        self.later(self.me.config.poll_ns, self._poll)

    def _polled(self, standing: Standing | NoAnswer) -> None:
        if isinstance(standing, NoAnswer):
            return
        mine, coordinator = standing.member(self.me.host), standing.coordinator()
        if mine is None or mine.value.incarnation != self.me.incarnation:
            self._leave("it is no member any more", False)
        elif standing.current_term != self.term or coordinator is None:
            self._leave(f"the term is {standing.current_term}", False)

    def _send(self, message: object) -> None:
        self.me.ports.network.send(self.coordinator.host, message)


class Observer(RoleBase):
    """The role of a host that takes no part. *leave* returns to bootstrap, with the reason."""

    def __init__(
        self,
        me: OwnPart,
        term: Term,
        coordinator: Participant,
        leave: Callable[[str], None],
    ) -> None:
        super().__init__(me)
        self.term = term
        self.coordinator = coordinator
        self.context = me.archive.context
        """The coordinator's context, as far as it was heard."""
        self._is_heard = False
        self._leave = leave

    def begin(self) -> None:
        self.look()
        self.later(self.me.config.poll_ns, self._poll)

    def look(self) -> None:
        """Ask the coordinator for a newer context."""
        hello = Hello(self.term, self.context.cas, self.context.digest)
        self.me.ports.network.send(self.coordinator.host, hello)

    def on_message(self, message: Message) -> None:
        """Handle a message of this term from the coordinator."""
        match message:
            case Whole(context=context) if context.cas > self.context.cas or not self._is_heard:
                self._is_heard = True
                self.context = context
                self.me.application.on_context(context)
            case Same():
                self._is_heard = True
            case _:
                pass

    def _poll(self) -> None:
        self.ask(answering(read_standing)(), self._polled)
        self.later(self.me.config.poll_ns, self._poll)

    def _polled(self, standing: Standing | NoAnswer) -> None:
        if isinstance(standing, NoAnswer):
            return
        mine, coordinator = standing.member(self.me.host), standing.coordinator()
        held, wanted = self.me.archive.context.cas, self.me.config.participants
        if mine is None or mine.value.incarnation != self.me.incarnation:
            self._leave("it is no member any more")
        elif standing.current_term != self.term or coordinator is None:
            self._leave(f"the term is {standing.current_term}")
        elif shall_take_part(standing, self.me.host, held, wanted):
            self._leave("it shall take part")
        else:
            self.look()
