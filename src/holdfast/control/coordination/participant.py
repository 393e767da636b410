"""A host's part in the control plane: it holds the current role and passes events to it.

A process never resumes a role (IM-2), and every change of role goes through bootstrap (IM-5, IM-63).
"""

from collections.abc import Callable

from holdfast.authority.control_records import Participant, TermRecord
from holdfast.authority.sessions import Session
from holdfast.control.coordination.bootstrap import Bootstrap, ContextRecovery
from holdfast.control.coordination.config import ControlConfig
from holdfast.control.coordination.coordinator import Coordinator
from holdfast.control.coordination.messages import Declined, Message, Newer, Prepare
from holdfast.control.coordination.ports import Application, ControlPorts, ParticipantRole, Tell
from holdfast.control.coordination.replica import ContextReplica, Observer
from holdfast.control.coordination.role_base import OwnPart, RoleBase
from holdfast.control.coordination.state_file import Context, StateFile
from holdfast.model.errors import Rejected, Unavailable
from holdfast.model.ids import HostId, Incarnation, Term
from holdfast.model.proven_dead import ProvenDead


class NotCoordinator(Unavailable):
    """Raised when a change is requested on a host that does not coordinate; names the host that may
    (IM-137)."""

    code = "not_coordinator"

    def __init__(self, coordinator: HostId | None) -> None:
        who = f"{coordinator} does" if coordinator is not None else "nobody is known to"
        super().__init__(f"this host does not coordinate the domain; {who}")
        self.coordinator = coordinator


class Manager:
    """One process's part in the control plane."""

    def __init__(
        self,
        session: Session,
        archive: StateFile,
        *,
        ports: ControlPorts,
        application: Application,
        config: ControlConfig,
    ) -> None:
        self.role = ParticipantRole.BOOTSTRAP
        self.term = Term(0)
        """The highest term that this process has heard of."""
        self._me = OwnPart(session.host, session.incarnation, archive, ports, application, config)
        self._session = session
        self._tenure: RoleBase | None = None
        self._given_up = Term(0)
        self._proven_dead = ProvenDead(ports.clock, ports.heard_at, config.silence_ns)
        self._silent: dict[HostId, Term] = {}
        """The hosts that were silent as coordinators, each with its term, and that have not been heard since.
        A newer term that names such a host shows that it lives, so it gets time to speak. Otherwise two hosts
        that consider each other silent would depose each other for ever without a word."""

    def start(self) -> None:
        for damage in self._me.archive.damaged:
            self._me.ports.trace.note("damaged", what=str(damage))
        self._enter_bootstrap("it has just started")

    @property
    def context(self) -> Context:
        """The newest context that this host knows to be committed."""
        tenure = self._tenure
        return tenure.context if isinstance(tenure, Coordinator | Observer) else self._me.archive.context

    @property
    def coordinator(self) -> HostId | None:
        """The host that coordinates, as far as this host knows."""
        match self._tenure:
            case Coordinator():
                return self._me.host
            case ContextReplica(coordinator=coordinator) | Observer(coordinator=coordinator):
                return coordinator.host
        return None

    def look(self) -> None:
        """Fetch a newer context for somebody who waits for it. Participants get it anyway, but an onlooker
        must ask."""
        if isinstance(self._tenure, Observer):
            self._tenure.look()

    def close(self) -> None:
        """Stop taking part, because this process ends. Waiting callers are told as much as can be known."""
        tenure, self._tenure = self._tenure, None
        if tenure is not None:
            tenure.close()

    # --- events

    def update(self, change: bytes, tell: Tell) -> None:
        """Request *change*; *tell* gets the outcome. Raises :class:`NotCoordinator` or ``Overloaded``."""
        if not isinstance(self._tenure, Coordinator):
            raise NotCoordinator(self.coordinator)
        self._tenure.update(change, tell)

    def recover(self, body: bytes, tell: Tell) -> None:
        """Make *body* the context from now on, because nobody holds the committed one any more (T4). *tell*
        gets the outcome. Raises ``Rejected`` if somebody coordinates."""
        if not isinstance(self._tenure, Bootstrap):
            raise Rejected(
                f"{self.coordinator or 'a host'} coordinates the domain: nothing is to be recovered"
            )
        recovery = ContextRecovery(self._me, body, tell, self._enter_bootstrap)
        self._change(ParticipantRole.BOOTSTRAP, recovery, recovery.begin, "the context is to be recovered")

    def on_message(self, peer: HostId, message: Message) -> None:
        self._silent.pop(peer, None)
        if message.term > self.term:
            self._hear_of(message.term)
        elif isinstance(message, Newer):
            return
        elif message.term < self.term:
            self._me.ports.network.send(peer, Newer(self.term))
        else:
            self._pass_on(peer, message)

    def on_term(self, record: TermRecord) -> None:
        """Handle the authority's news that this term has begun (IM-66, IM-110)."""
        if record.term > self.term:
            self._hear_of(record.term)

    def rejoin(self, why: str) -> None:
        """Give up the current role and find out the role of this process again (IM-107 to IM-109)."""
        if not isinstance(self._tenure, Bootstrap | None):
            self._enter_bootstrap(why)

    def on_death(self, host: HostId, incarnation: Incarnation) -> None:
        """Handle an agent's proof that exactly this process is gone (K2)."""
        self._proven_dead.on_proof(host, incarnation)
        match self._tenure:
            case ContextReplica(coordinator=found) | Observer(coordinator=found) if self._is_dead(found):
                self._enter_bootstrap(f"{host} is dead")
            case Coordinator() as tenure:
                tenure.on_death(host, incarnation)

    def _pass_on(self, peer: HostId, message: Message) -> None:
        match self._tenure:
            case Coordinator() as coordinator if coordinator.term == message.term:
                coordinator.on_message(peer, message)
            case ContextReplica(term=term, coordinator=by) as tenure if (term, by.host) == (
                message.term,
                peer,
            ):
                tenure.on_message(message)
            case Observer(term=term, coordinator=by) as tenure if (term, by.host) == (message.term, peer):
                tenure.on_message(message)
            case ContextReplica() as replica if replica.term == message.term and isinstance(message, Prepare):
                why = f"{replica.coordinator.host} coordinates term {message.term}"
                self._me.ports.network.send(peer, Declined(message.term, message.cas, why))  # IM-77

    def _hear_of(self, term: Term) -> None:
        """Take note of a newer term, which makes the current role out of date (IM-142)."""
        self.term = term
        if isinstance(self._tenure, Coordinator | ContextReplica | Observer):
            self._enter_bootstrap(f"term {term} has begun")

    # --- roles

    def _enter_bootstrap(self, why: str) -> None:
        if isinstance(self._tenure, Coordinator):
            self._given_up = self._tenure.term
        bootstrap = Bootstrap(
            self._me,
            self._session,
            given_up=self._given_up,
            is_dead=self._is_dead,
            is_silent=self._is_silent,
            coordinate=self._coordinate,
            follow=self._follow,
            look_on=self._look_on,
        )
        self._change(ParticipantRole.BOOTSTRAP, bootstrap, bootstrap.begin, why)

    def _coordinate(self, term: Term) -> None:
        if not self._takes_up(term):
            return
        coordinator = Coordinator(
            self._me, term, self._enter_bootstrap, unheard=tuple(self._silent), is_dead=self._is_dead
        )
        self._change(
            ParticipantRole.COORDINATOR, coordinator, coordinator.begin, f"it was elected in term {term}"
        )

    def _follow(self, term: Term, coordinator: Participant) -> None:
        if not self._takes_up(term):
            return

        def leave(why: str, is_gone: bool) -> None:
            if is_gone:
                self._silent[coordinator.host] = term
            self._enter_bootstrap(why)

        replica = ContextReplica(self._me, term, coordinator, leave)
        self._change(
            ParticipantRole.REPLICA, replica, replica.begin, f"{coordinator.host} coordinates term {term}"
        )

    def _look_on(self, term: Term, coordinator: Participant) -> None:
        if not self._takes_up(term):
            return
        onlooker = Observer(self._me, term, coordinator, self._enter_bootstrap)
        self._change(
            ParticipantRole.ONLOOKER, onlooker, onlooker.begin, f"{coordinator.host} coordinates term {term}"
        )

    def _takes_up(self, term: Term) -> bool:
        """Whether *term* is still the newest one heard of. If not, bootstrap starts again."""
        if term < self.term:
            self._enter_bootstrap(f"term {self.term} has begun")
            return False
        self.term = term
        return True

    def _change(self, role: ParticipantRole, tenure: RoleBase, begin: Callable[[], None], why: str) -> None:
        self._me.ports.trace.note("role", role=role.value, term=self.term, why=why)
        former, self._tenure, self.role = self._tenure, tenure, role
        if former is not None:
            former.close()
        self._me.application.on_role(role, self.term)
        begin()

    def _is_dead(self, participant: Participant) -> bool:
        return self._proven_dead.is_gone(participant.host, participant.incarnation)

    def _is_silent(self, host: HostId, term: Term) -> bool:
        return self._silent.get(host, 0) >= term
