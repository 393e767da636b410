"""The replication of one replica: its links, its statements, and what follows from everybody's.

It is driven by events: connections that come and go (``on_up``, ``on_message``, ``on_down``), the replica's
commits, and timers. On each tick it gives up silent links, makes a statement if one is due, retires ids that
all agree about, trims the changelog and purges old state.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Final

from holdfast.clock.vector import Vector
from holdfast.directory.replica.update import Update
from holdfast.directory.replication.acknowledging import Acknowledgements, Answer
from holdfast.directory.replication.admission import NotReady, check_write
from holdfast.directory.replication.giving import Givers
from holdfast.directory.replication.housekeeping import Housekeeping
from holdfast.directory.replication.lag import LagMeter
from holdfast.directory.replication.link import Link, Phase
from holdfast.directory.replication.messages import (
    FORMAT,
    CopyAsk,
    CopyOffered,
    CopyTaken,
    Counted,
    Message,
    Reason,
    Refused,
    ShippedCopyAsk,
    shortened,
)
from holdfast.directory.replication.ports import ReplicationConfig, ReplicationPorts
from holdfast.directory.replication.roster import CSNSTATE, TOLD_OVER, Roster, Rows
from holdfast.directory.replication.statement import Statement
from holdfast.directory.store import MapName
from holdfast.model.csn import Csn
from holdfast.model.errors import Unavailable
from holdfast.model.ids import MILLISECOND, ReplicaId
from holdfast.model.ports import Token
from holdfast.model.validation import insist_valid

TICK = "replication.tick"
RELAY = "replication.relay"
TELL = "replication.tell"
PURGE = "replication.purge"

PURGE_PAUSE_NS: Final = 10 * MILLISECOND
"""How long others have between two slices of a purge, which take a quarter of it: 100,000 entries that nobody
changed are passed by in twenty seconds."""


class Replicator:
    """A listener of one replica (:class:`holdfast.directory.replica.seam.ReplicaListener`)."""

    def __init__(
        self,
        ports: ReplicationPorts,
        roster: Roster,
        config: ReplicationConfig,
        *,
        maps: Sequence[MapName],
        peers: Sequence[str] = (),
        masters: Callable[[], Sequence[str]] = tuple,
        allotted: Callable[[], Iterable[ReplicaId]] = tuple,
        on_told_over: Callable[[], None] = lambda: None,
        on_failed: Callable[[str], None] = lambda why: None,
    ) -> None:
        """*maps*: those of the store that a copy has. *peers*: with whom it has links. *masters*: where a
        read-only replica sends writers. *allotted*: the present replica ids of all hosts, as far as the
        authority's word has come: purging waits for one whose sponsor lost his store, too (G7).
        *on_told_over*: others have retired this replica's id, or know that
        its store was put back; open the store again, with another. *on_failed*: the process must end (D1).
        """
        insist_valid(config, "replication")
        self.roster = roster
        self._ports = ports
        self.config = config
        self._masters = masters
        self._on_told_over = on_told_over
        self.on_failed = on_failed
        self._tokens: dict[Token, Callable[[], None]] = {}
        self._last_token = 0
        self._unheard = dict.fromkeys(peers)
        """The peers that have not greeted since this process began."""
        self._began_ns = ports.clock.now()
        self._is_nobody = False
        self._received = Vector.of(ports.replica.vector.generation)
        """What peers have sent, on the disk or on its way there."""
        self._join_target: Vector | None = None
        self._stated_ns: int | None = None
        self._is_relay_set = self._is_tell_set = self._is_purge_set = False
        self.links: dict[str, Link] = {}
        self.problems: dict[str, Refused] = {}
        """The last refusal of each peer that has no open link."""
        self.acknowledgements = Acknowledgements(
            wait_ns=config.acknowledge_ns, waiting_max=config.waiting_max
        )
        self.lag = LagMeter()
        self._givers = Givers(ports, config, tuple(maps), self._count)
        self._housekeeping = Housekeeping(ports, roster, config, self.keep, self.new_token, allotted)
        ports.replica.listen(self)
        ports.timers.set(config.tick_ns, TICK)
        self._maybe_ready()

    @property
    def vector(self) -> Vector:
        """What is committed here."""
        return self._ports.replica.vector

    @property
    def now_ns(self) -> int:
        return self._ports.clock.now()

    @property
    def is_stuck(self) -> bool:
        """Whether this replica may not issue anything yet, a peer cannot bring it up to date, and that peer
        has all that it has: then it is of no use as it is, and filling it anew loses nothing."""
        if self.roster.own.is_ready:
            return False
        return any(
            link.shortage is not None
            and link.supplier is not None
            and link.supplier.committed.covers_all(self.vector)
            for link in self.links.values()
        )

    # --- connections

    def on_up(self, peer: str) -> None:
        """There is a new connection; one that was there before is over."""
        self.on_down(peer)
        self.links[peer] = Link(peer, self._ports, self.roster, self.config, self.new_token, self)

    def on_down(self, peer: str) -> None:
        self._givers.drop(peer)
        link = self.links.pop(peer, None)
        if link is not None:
            # What it has received may be committed later; it must not speak on the peer's next connection.
            link.phase = Phase.ENDED
            self._ports.sessions.end_session(peer)
            if link.problem is not None:
                self.problems[peer] = link.problem

    def on_message(self, peer: str, message: Message) -> None:
        link = self.links.get(peer)
        if link is not None:
            link.heard_ns = self._ports.clock.now()
        if isinstance(message, CopyAsk):
            self._give(peer, message)
        elif isinstance(message, ShippedCopyAsk):
            self._offer(peer, message)
        elif isinstance(message, CopyTaken):
            self._givers.on_taken(peer, message)
        elif link is not None and link.phase is not Phase.ENDED:
            link.on_message(message)

    def _give(self, peer: str, ask: CopyAsk) -> None:
        if not self.roster.own.is_ready:
            why = "this replica has not got all its data yet; ask another"
            self._ports.links.send(peer, Refused(Reason.NOT_READY, why))
            self._ports.links.close(peer)
            return
        self._givers.on_ask(peer, ask, self._ports.replica.suffix)

    def _offer(self, peer: str, ask: ShippedCopyAsk) -> None:
        """Let a copy of the store's file be made, once the replica that will have it is counted (G5)."""
        copies = self._ports.copies
        replica = ReplicaId(ask.replica)
        if copies is None or not self.roster.own.is_ready:
            self._refuse_copy(peer, "no file is shipped from here now")
        elif ask.format != FORMAT or ask.suffix != self._ports.replica.suffix:
            self._refuse_copy(peer, f"this is {self._ports.replica.suffix} in format {FORMAT}")
        else:
            offered = copies.offer
            self._count(replica, lambda: offered(replica, lambda manifest: self._offered(peer, manifest)))

    def _offered(self, peer: str, manifest: bytes | None) -> None:
        if manifest is None:
            self._refuse_copy(peer, "no copy of the file could be made")
        else:
            self._ports.links.send(peer, CopyOffered(manifest))

    def _refuse_copy(self, peer: str, why: str) -> None:
        self._ports.links.send(peer, Refused(Reason.NOT_READY, shortened(why)))

    # --- what links say

    def on_put_back(self, link: Link, newest: Csn) -> None:
        """A peer has what this replica issued and does not remember: nothing more is issued under its id."""
        self._ports.trace.note("directory_store_put_back", peer=link.peer, newest=newest)
        self._become_nobody()

    def _become_nobody(self) -> None:
        """The own id is over: nothing more is issued, and the store is opened again, with another."""
        if not self._is_nobody:
            self._is_nobody = True
            self.keep([(TOLD_OVER, b"1")], self._on_told_over)

    def on_open(self, link: Link, *, is_ready: bool) -> None:
        self._unheard.pop(link.peer, None)
        self.lag.follow(link.peer)
        self._ports.trace.note("directory_link_open", peer=link.peer, replica=link.replica)
        assert link.replica is not None
        if is_ready and self._ports.copies is not None:
            self._ports.copies.taken(link.replica)
        if is_ready:
            self._count(link.replica, lambda: None)
        elif self.roster.own.is_ready:
            self._count(link.replica, lambda: self._tell_counted(link))

    def _tell_counted(self, link: Link) -> None:
        if self.links.get(link.peer) is link and link.phase is Phase.OPEN:
            self._ports.links.send(link.peer, Counted(self._ports.replica.vector.text()))

    def on_refused(self, link: Link, refused: Refused) -> None:
        self.problems[link.peer] = refused
        self._ports.trace.note(
            "directory_refused_by_peer", peer=link.peer, reason=refused.reason.value, why=refused.why
        )
        if refused.reason is Reason.RETIRED:
            self._become_nobody()

    def on_have(self, link: Link) -> None:
        self.problems.pop(link.peer, None)  # it has greeted, and so was not refused either
        if link.supplier is not None:
            committed = link.supplier.committed
            self.acknowledgements.on_second_store(committed)
            self.lag.confirmed(link.peer, committed.get(self.roster.replica), self._ports.clock.now())

    def on_received(self, newest: Vector) -> None:
        self._received = self._received.merged(newest)

    def on_counted(self, vector: Vector) -> None:
        if not self.roster.own.is_ready and self._join_target is None:
            self._join_target = vector
            self._maybe_ready()

    def on_moved(self) -> None:
        self._maybe_ready()
        if not self._is_tell_set:
            self._is_tell_set = True
            self._ports.timers.set(self.config.have_ns, TELL)

    # --- the replica (ReplicaListener)

    def on_committed(self, updates: Sequence[Update], *, is_own: bool) -> None:
        self._housekeeping.newest_update = max(
            self._housekeeping.newest_update, *(update.csn for update in updates)
        )
        if is_own:
            self.lag.issued(updates[-1].csn, self._ports.clock.now())
            self._pump(own_only=True)
        else:
            self._relay_later()

    def on_applied(self, token: Token) -> None:
        then = self._tokens.pop(token, None)
        if then is not None:
            then()

    # --- writing

    def check_write(self) -> None:
        """Raise unless a client may write here: :class:`.admission.ReferredElsewhere` or
        :class:`.admission.NotReady`."""
        check_write(self.roster.own, self._masters())
        if not self._may_issue():
            raise NotReady(f"this replica was just opened and has not heard {', '.join(self._unheard)} yet")

    def _may_issue(self) -> bool:
        """Whether peers have had their time to say that this store was put back since it was last opened."""
        is_late = self._ports.clock.now() - self._began_ns >= self.config.hear_first_ns
        return not self._is_nobody and (not self._unheard or is_late)

    def acknowledge(self, csn: Csn, answer: Answer) -> None:
        """Answer when a second store has *csn*, which is committed here, or when it is late."""
        self.acknowledgements.wait(csn, self._ports.clock.now(), answer)
        for link in self.links.values():
            self.on_have(link)

    def leave(self) -> None:
        """Say a last word: nothing more is issued here, and the id may be retired without loss."""
        self.keep(self.roster.leave(), self._state)

    def retire(self, replica: ReplicaId, *, force: bool = False) -> str:
        """Call a replica over, and say what that loses; see :func:`.retiring.retire`."""
        return self._housekeeping.retire(replica, force=force)

    def go_on_alone(self) -> None:
        """Issue changes although nobody counts this replica: for the last one that is left. What others issue
        that it does not know may be refused by it later."""
        self._become_ready()

    # --- timers

    def on_timer(self, tag: Hashable) -> None:
        if tag == TICK:
            self._ports.timers.set(self.config.tick_ns, TICK)
            self._tick()
        elif tag == RELAY:
            self._is_relay_set = False
            self._pump(own_only=False)
        elif tag == TELL:
            self._is_tell_set = False
            for link in list(self.links.values()):
                link.tell()
        elif tag == PURGE:
            self._is_purge_set = False
            self._ports.replica.purge_on()
            self._purge_later()

    def _tick(self) -> None:
        now_ns = self._ports.clock.now()
        self.acknowledgements.on_time(now_ns)
        for link in list(self.links.values()):
            if link.phase is not Phase.ENDED and now_ns - link.heard_ns > self.config.silence_ns:
                self._ports.trace.note("directory_link_silent", peer=link.peer)
                link.end()
                self.on_down(link.peer)
            else:
                link.tell(is_due=True)
        self._maybe_ready()
        if self.roster.replica in self.roster.over:
            self._become_nobody()
        self._refuse_over(self.roster.over)
        if self._stated_ns is None or now_ns - self._stated_ns >= self.config.statement_ns:
            self._state()
        self._housekeeping.tick(now_ns)
        self._purge_later()

    # --- statements

    def _state(self) -> None:
        own = self.roster.own
        over = self.roster.over
        if not own.is_ready or not self._may_issue() or own.replica in over:
            return
        self._refuse_over(over)
        replica = self._ports.replica
        # What is still on its way to the disk of a replica that is over would be left out: others would
        # believe that this is all that there is of it.
        if any(csn.replica in over and not replica.vector.covers(csn) for csn in self._received):
            return
        try:
            csn = replica.heartbeat(self.new_token(lambda: None))
        except Unavailable:
            return  # the clock's next reservation is not stored yet
        self._stated_ns = self._ports.clock.now()
        statement = Statement(
            csn,
            replica.vector.advanced(csn).text(),
            base=own.base,
            known=tuple(self.roster.live),
            over=tuple(over),
            purged="" if self.roster.purged is None else self.roster.purged.text(),
            final=self.roster.finals(),
            is_leaving=own.is_leaving,
        )
        rows = self.roster.state(statement)
        rows.append((CSNSTATE, self._ports.sessions.csnstate().encode()))
        self.keep(rows, lambda: self._pump(own_only=True))

    def _refuse_over(self, over: Sequence[ReplicaId]) -> None:
        """End the sessions with replicas that are over, before anything is said about them: what they have
        more is not taken any more, or others would retire an id of which this replica has more than they."""
        for link in list(self.links.values()):
            if link.phase is Phase.OPEN and link.replica in over:
                link.refuse(Refused(Reason.RETIRED, f"replica {link.replica} was retired: take a new id"))
                self.on_down(link.peer)

    def _maybe_ready(self) -> None:
        if self.roster.own.is_ready:
            return
        target = self._join_target
        is_alone = not [each for each in self.roster.live if each != self.roster.replica]
        if is_alone or (target is not None and self._ports.replica.vector.covers_all(target)):
            self._become_ready()

    def _become_ready(self) -> None:
        base = self._ports.replica.vector
        self._ports.trace.note("directory_ready", replica=self.roster.replica, base=base.text())
        self.keep(self.roster.become_ready(base), self._state)

    # --- internal

    def keep(self, rows: Rows, then: Callable[[], None]) -> None:
        """Write rows of replication's own, and go on when they are on the disk."""
        if rows:
            self._ports.replica.keep(rows, self.new_token(then))
        else:
            then()

    def new_token(self, then: Callable[[], None]) -> Token:
        self._last_token += 1
        token = ("replication", self._last_token)
        self._tokens[token] = then
        return token

    def _count(self, replica: ReplicaId, then: Callable[[], None]) -> None:
        self.keep(self.roster.count(replica), then)

    def _pump(self, *, own_only: bool) -> None:
        for link in list(self.links.values()):
            if link.phase is Phase.OPEN and link.supplier is not None:
                link.supplier.pump(own_only=own_only)

    def _relay_later(self) -> None:
        if not self._is_relay_set:
            self._is_relay_set = True
            self._ports.timers.set(self.config.relay_ns, RELAY)

    def _purge_later(self) -> None:
        if self._ports.replica.is_purging and not self._is_purge_set:
            self._is_purge_set = True
            self._ports.timers.set(PURGE_PAUSE_NS, PURGE)
