"""Bootstrap: settles what was left open, joins the control plane, and finds out who coordinates (IM F1, N-3).

Every role starts here, in this order. A left-over log is settled by the authority's record. The process joins
and declares which context it holds. Then it takes the role that the current term gives it, and starts an
election if the term names no living coordinator.

:class:`ContextRecovery` makes this host's copy of the context the committed one, when a person says so (T4).
The copy is logged as the next update, and the authority's record commits it. So if anything interrupts the
recovery, the record settles the log like any other.
"""

from collections.abc import Callable
from dataclasses import dataclass

from holdfast.authority import election, membership
from holdfast.authority.control_records import (
    INDEXER,
    MANAGER,
    ONLOOKER,
    Member,
    Participant,
    Standing,
    Status,
    Transaction,
    read_standing,
)
from holdfast.authority.election import Elected, Governed, Recovered, TermMoved, recover_context
from holdfast.authority.membership import Held, NotJoined
from holdfast.authority.recipe import NoAnswer, Recipe, Seen, answering
from holdfast.authority.sessions import NoSession, Session
from holdfast.authority.transactions import NoTransaction, find_transaction, next_cas
from holdfast.control.coordination.members import shall_take_part
from holdfast.control.coordination.ports import Accepted, Failed, Outcome, Tell, Unsettled
from holdfast.control.coordination.role_base import OwnPart, RoleBase
from holdfast.control.coordination.state_file import Context
from holdfast.model.errors import Rejected, Unavailable
from holdfast.model.host_roles import SEARCH
from holdfast.model.ids import HostId, Term


@dataclass(frozen=True, slots=True)
class Surveyed:
    """The state of the control plane at the authority, and the outcome of the transaction whose log is left
    over here."""

    standing: Standing
    left: Transaction | NoTransaction | None


@answering
def survey(log_cas: int | None) -> Recipe[Surveyed]:
    standing = yield from read_standing()
    left = None if log_cas is None else (yield from find_transaction(log_cas))
    return Surveyed(standing, left)


class Bootstrap(RoleBase):
    """The role of a process that has yet to find its role. *given_up* is the last term that this process
    coordinated and left. *is_dead* says whether a process is proved dead. *is_silent* says whether a host was
    silent as coordinator of a term. *coordinate*, *follow* and *look_on* end the bootstrap."""

    def __init__(
        self,
        me: OwnPart,
        session: Session,
        *,
        given_up: Term,
        is_dead: Callable[[Participant], bool],
        is_silent: Callable[[HostId, Term], bool],
        coordinate: Callable[[Term], None],
        follow: Callable[[Term, Participant], None],
        look_on: Callable[[Term, Participant], None],
    ) -> None:
        super().__init__(me)
        self._session = session
        self._given_up = given_up
        self._is_dead = is_dead
        self._is_silent = is_silent
        self._coordinate = coordinate
        self._follow = follow
        self._look_on = look_on
        self._has_joined = False

    def begin(self) -> None:
        # Writes that an earlier role started must be done first, or they would seem to be missing and appear
        # later.
        self.me.archive.when_idle(self.still(self._survey))

    def _survey(self) -> None:
        log = self.me.archive.log
        self.ask(survey(None if log is None else log.cas), self._surveyed)

    def _survey_later(self) -> None:
        self.later(self.me.config.retry_ns, self._survey)

    def _surveyed(self, found: Surveyed | NoAnswer) -> None:
        if isinstance(found, NoAnswer):
            self._survey_later()
            return
        standing, archive = found.standing, self.me.archive
        mine = standing.member(self.me.host)
        if archive.log is not None:
            self._settle(standing, found.left)
        elif mine is None or mine.value.incarnation != self.me.incarnation:
            self._join(standing)
        elif MANAGER not in mine.value.roles:
            self._join(standing) if self._is_needed(standing) else self._be_onlooker(standing)
        elif mine.value.context_cas != archive.context.cas:
            self._declare()
        else:
            self._take_role(standing)

    # --- a left-over log (IM-31 to IM-33)

    def _settle(self, standing: Standing, left: Transaction | NoTransaction | None) -> None:
        archive = self.me.archive
        if isinstance(left, Transaction) and left.status is Status.INITIAL:
            # Its coordinator may still commit it; only a new term rules that out (N-3).
            self._end_or_wait(standing)
        elif isinstance(left, Transaction) and left.status is Status.COMMIT:
            archive.promote(left.cas, self.still(self._survey))
        elif isinstance(left, NoTransaction) and left.cas >= left.last and not self._has_joined:
            # The log of an interrupted recovery (T4). Its record may still appear, until somebody has joined.
            self._join(standing)
        else:
            archive.drop_log(self.still(self._survey))

    # --- joining (IM-2, IM-34)

    def _join(self, standing: Standing) -> None:
        nonce, cas = self.me.ports.nonce(), self.me.archive.context.cas
        role = MANAGER if self._is_needed(standing) else ONLOOKER
        roles = (role, INDEXER) if SEARCH in self._session.roles else (role,)

        def joined(answer: Seen[Member] | Held | NoSession) -> None:
            if isinstance(answer, NoSession):
                self.me.ports.on_session_lost()
                self._survey_later()
            elif isinstance(answer, Held):
                self._end_or_wait(standing)
            else:
                self._has_joined = True
                self._survey()

        self.insist(lambda: membership.join(self._session, roles=roles, context_cas=cas, nonce=nonce), joined)

    def _is_needed(self, standing: Standing) -> bool:
        held, wanted = self.me.archive.context.cas, self.me.config.participants
        return shall_take_part(standing, self.me.host, held, wanted)

    def _declare(self) -> None:
        nonce, cas = self.me.ports.nonce(), self.me.archive.context.cas

        def declared(_: Seen[Member] | NotJoined) -> None:
            self._survey()

        self.insist(
            lambda: membership.declare_context(
                self.me.host, self.me.incarnation, context_cas=cas, nonce=nonce
            ),
            declared,
        )

    # --- the role (IM-62, IM-67, IM-68)

    def _take_role(self, standing: Standing) -> None:
        coordinator = self._living(standing)
        if coordinator is None:
            self._elect(standing)
        elif coordinator.host != self.me.host:
            self._follow(standing.current_term, coordinator)
        else:
            self._coordinate(standing.current_term)

    def _be_onlooker(self, standing: Standing) -> None:
        """Follow the coordinator that the term names, even one that was silent. Nobody sends to an onlooker
        that does not ask, so to it every coordinator would be silent for ever. The participants elect another
        if it is gone."""
        found = standing.coordinator()
        if found is None or found.value.host == self.me.host:
            self._survey_later()
        else:
            elected = Participant(host=found.value.host, incarnation=found.value.incarnation)
            self._look_on(standing.current_term, elected)

    def _living(self, standing: Standing) -> Participant | None:
        """Return the coordinator, or None if its term is over: it is gone, or this very process has given the
        term up."""
        found = standing.coordinator()
        if found is None:
            return None
        elected = Participant(host=found.value.host, incarnation=found.value.incarnation)
        is_mine = elected.host == self.me.host
        is_given_up = is_mine and standing.current_term <= self._given_up
        if is_given_up or self._is_dead(elected) or self._is_deposable(standing, elected.host):
            return None
        return elected

    def _is_deposable(self, standing: Standing, coordinator: HostId) -> bool:
        """Whether this host may depose a silent coordinator. Silence is no proof, so it counts only for hosts
        that can be elected instead. If the coordinator were gone, they would notice too; otherwise a host
        behind a broken link would depose it again and again."""
        able = (each.value.host for each in election.eligible(standing))
        return self.me.host in able and self._is_silent(coordinator, standing.current_term)

    def _end_or_wait(self, standing: Standing) -> None:
        """A transaction is open: end it by a new term if no coordinator is left to end it, else wait."""
        if self._living(standing) is None:
            self._elect(standing)
        else:
            self._survey_later()

    def _elect(self, standing: Standing) -> None:
        able = self._able(standing)
        if not able and standing.open_transaction is None:
            # The domain prefers no coordinator to a wrong one (IM-139), so it waits for a host that holds the
            # context.
            self._survey_later()
            return
        nonce = self.me.ports.nonce()
        prefer = self.me.host if self.me.host in able or not able else able[0]

        def elected(answer: Elected | TermMoved) -> None:
            self.me.ports.trace.note("elected", answer=answer)
            self._survey_later()

        self.insist(lambda: election.elect(standing.current_term, nonce=nonce, prefer=prefer), elected)

    def _able(self, standing: Standing) -> list[HostId]:
        """Return the hosts that can be elected and are not proved dead. The session of a dead process lasts
        for a while, and a term that named it would only be followed by another."""
        found = (each.value for each in election.eligible(standing))
        return [
            each.host
            for each in found
            if not self._is_dead(Participant(host=each.host, incarnation=each.incarnation))
        ]


class ContextRecovery(RoleBase):
    """Makes *body* the committed context. *tell* gets the outcome; then *leave* returns to bootstrap, with
    the reason."""

    def __init__(self, me: OwnPart, body: bytes, tell: Tell, leave: Callable[[str], None]) -> None:
        super().__init__(me)
        self._body = body
        self._tell: Tell | None = tell
        self._leave = leave
        self._cas = 0

    def begin(self) -> None:
        self.me.archive.when_idle(self.still(self._survey))

    def close(self) -> None:
        super().close()
        self._say(Unsettled(self._cas))

    def _survey(self) -> None:
        self.ask(answering(read_standing)(), self._surveyed)

    def _surveyed(self, standing: Standing | NoAnswer) -> None:
        if isinstance(standing, NoAnswer):
            self._end(Failed(Unavailable("the authority does not answer; nothing was changed")))
        elif self.me.archive.log is not None:
            self._end(Failed(Rejected("an update is not settled here yet; nothing was changed")))
        else:
            self._cas = next_cas(standing)
            self.me.archive.keep_log(Context(self._cas, self._body), self.still(self._put_on_record))

    def _put_on_record(self) -> None:
        me, nonce = self.me, self.me.ports.nonce()
        self.insist(lambda: recover_context(me.host, me.incarnation, self._cas, nonce=nonce), self._answered)

    def _answered(self, answer: object) -> None:
        match answer:
            case Recovered(transaction=transaction):
                self._end(Accepted(transaction.cas, b""))
            case Governed(host=host):
                self._end(Failed(Rejected(f"{host} can coordinate the domain: nothing is to be recovered")))
            case _:
                self._end(Failed(Rejected(f"others came first, nothing was changed: {answer}")))

    def _end(self, outcome: Outcome) -> None:
        self._say(outcome)
        self._leave("the context was to be recovered")

    def _say(self, outcome: Outcome) -> None:
        tell, self._tell = self._tell, None
        if tell is not None:
            tell(outcome)
