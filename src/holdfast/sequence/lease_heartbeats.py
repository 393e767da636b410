"""Heartbeats that give and renew leases between hosts, and a detector of this host's pauses (R1, R3, R4, K3).

Rules. When a peer answers a host's heartbeat, the host has a lease: it counts from before the heartbeat was
sent, by the host's own clock (R3). The peer that answers promises not to claim any group of exactly that
incarnation until the grace has passed on its own clock, counted from the receipt. The grace is longer than
the lease by any clock within the rate bound. A lapsed lease does not revive: the next answer starts a new
lease, numbered by its first heartbeat (R1). A host that reports that it has not heard us for a whole lease
gets no answer: it can send but not receive, so it must give up its groups (K3).

Lengths (R5). Hosts may have different settings for a while. So the answer says how long a lease it grants and
what grace it promised for it, and the holder goes by that and never by its own settings, which can only make
the lease shorter. A promise that was given is never shortened by a later one.

Threads (R4). :class:`LeaseHeartbeats` may run on a different thread than the groups, so that a host keeps its
groups while its main loop is blocked for a moment. One thread drives it; any thread may query it. Shared
values are replaced as a whole, never changed in place, and a promise is recorded before its answer is sent.
So a member may find that a promise has run out, and claim, while another heartbeat is being answered. That is
safe: the answer leaves after the previous lease has ended by the holder's clock too, and starts a lease that
nobody has confirmed.

Pauses. A process that was paused finds, when it continues, that it has heard nobody for a long time, although
what the others sent still waits to be read. If it concluded that they were gone, it would claim the groups of
healthy hosts or drop healthy backups. So silence counts only from the moment the host was awake again, as
after a start (V3), and no promise has run out before a grace has passed since then. Waiting longer is always
safe.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from holdfast.model.ids import HostId, Incarnation
from holdfast.model.pauses import PauseDetector
from holdfast.model.ports import Clock, Network
from holdfast.sequence.config import LeaseConfig
from holdfast.sequence.messages import Beat, BeatAnswer

BEATS_KEPT: Final = 64
"""For how many heartbeats the sending time is remembered; an answer to an older one is worthless."""
PROCESSES_KEPT: Final = 4
"""For how many processes of one host promises are remembered; when a fifth starts, the oldest is long gone.
"""
NOBODY: Final = Incarnation(0)
"""An incarnation that no process ever has."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The lease that a peer has given to this host."""

    incarnation: Incarnation = NOBODY
    first: int = 0
    """The number of the heartbeat that began the lease."""
    until: int = -1
    granted_ns: int = 0
    """How long leases that host grants now, as its last answer said."""


@dataclass(frozen=True, slots=True)
class Promise:
    """What this host has promised to one process."""

    until: int
    answered_at: int
    """When the process's last heartbeat was answered."""


@dataclass(frozen=True, slots=True)
class Promised:
    """What this host has promised to a peer."""

    incarnation: Incarnation = NOBODY
    beat: int = 0
    """The newest heartbeat answered, of the peer's newest process."""
    to: Mapping[Incarnation, Promise] = field(default_factory=dict)

    def until(self, incarnation: Incarnation) -> int:
        """Until when that process was promised something; 0 if it was not."""
        promise = self.to.get(incarnation)
        return 0 if promise is None else promise.until


@dataclass(frozen=True, slots=True)
class TimeThere:
    """The time at a peer, as its heartbeat reported it (X4)."""

    wall_ns: int
    heard_at: int


@dataclass(slots=True)
class Peer:
    """One peer: the lease that it gave and the promises made to it. Each field is replaced as a whole."""

    heard_at: int
    lease: Lease = Lease()
    promised: Promised = field(default_factory=Promised)
    time: TimeThere | None = None


class LeaseHeartbeats:
    """The heartbeats between one host and all its peers. The driver calls :meth:`beat` every
    ``interval_ns``."""

    def __init__(
        self, *, incarnation: Incarnation, clock: Clock, network: Network, config: LeaseConfig
    ) -> None:
        self.config = config
        """Replaced as a whole, by :meth:`Leases.retune`."""
        self.peers: Mapping[HostId, Peer] = {}
        self.wall_ahead_ns: int | None = None
        """How far this host's wall clock is ahead of ``now()``; None if the host sends no timestamps (X4)."""
        self._incarnation = incarnation
        self._clock = clock
        self._network = network
        self._number = 0
        self._sent_at: dict[int, int] = {}
        self._pauses = PauseDetector(clock)

    @property
    def earliest_end(self) -> int:
        """No promise has run out before this time, because this host was paused and must hear the others
        first."""
        awake_since = self._pauses.since()
        return awake_since + self.config.grace_ns if awake_since else 0

    def start(self, peers: Iterable[HostId]) -> None:
        """Begin to exchange heartbeats with these hosts. Called once, from any thread."""
        now = self._clock.now()
        self.peers = {host: Peer(heard_at=now) for host in peers}

    def meet(self, hosts: Iterable[HostId]) -> None:
        """Also exchange heartbeats with these hosts, since the domain may have grown. Called from the thread
        that called :meth:`start`."""
        now = self._clock.now()
        new = {host: Peer(heard_at=now) for host in hosts if host not in self.peers}
        if new:
            self.peers = {**self.peers, **new}

    def beat(self) -> None:
        self._pauses.look(self.config.interval_ns)
        now, ahead_ns = self._clock.now(), self.wall_ahead_ns
        wall_ns = 0 if ahead_ns is None else now + ahead_ns
        self._number += 1
        self._sent_at[self._number] = now
        self._sent_at.pop(self._number - BEATS_KEPT, None)
        for host, peer in self.peers.items():
            self._network.send(host, Beat(self._incarnation, self._number, now - peer.heard_at, wall_ns))

    def on_message(self, host: HostId, message: Beat | BeatAnswer) -> None:
        peer = self.peers.get(host)
        if peer is None:
            return
        peer.heard_at = self._clock.now()
        if isinstance(message, BeatAnswer):
            self._on_answer(peer, message)
            return
        if message.wall_ns:
            peer.time = TimeThere(message.wall_ns, peer.heard_at)
        self._on_beat(host, peer, message)

    def _on_beat(self, host: HostId, peer: Peer, beat: Beat) -> None:
        known, now, config = peer.promised, self._clock.now(), self.config
        if beat.heard_age_ns > config.lease_ns:
            return
        if beat.incarnation < known.incarnation and now < known.until(known.incarnation):
            # A later process has been heard within a grace, so this is a late message of an earlier one. If
            # the later one has fallen silent, its number may never have been issued (K7); each process has a
            # promise of its own, so that promising both breaks none.
            return
        newest = beat.number if beat.incarnation != known.incarnation else max(known.beat, beat.number)
        others = [each for each in known.to.items() if each[0] != beat.incarnation]
        until = self._promise_until(known.until(beat.incarnation), now + config.grace_ns)
        kept = dict([*others[-(PROCESSES_KEPT - 1) :], (beat.incarnation, Promise(until, now))])
        peer.promised = Promised(beat.incarnation, newest, kept)
        answer = BeatAnswer(
            self._incarnation, beat.incarnation, beat.number, config.lease_ns, config.grace_ns
        )
        self._network.send(host, answer)

    def _promise_until(self, known: int, until: int) -> int:
        """Until when a process is promised something that has the promise *known*. If the settings were
        shortened meanwhile, the earlier lease is still held (R5)."""
        return max(known, until)

    def _on_answer(self, peer: Peer, answer: BeatAnswer) -> None:
        sent_at = self._sent_at.get(answer.number)
        if answer.of_incarnation != self._incarnation or sent_at is None:
            return
        held, until = peer.lease, sent_at + self._held_ns(answer)
        if self._clock.now() >= held.until or answer.incarnation != held.incarnation:
            # The lease lapsed or another process gave it: confirmations under the old lease no longer count.
            peer.lease = Lease(answer.incarnation, answer.number, until, answer.lease_ns)
        else:
            peer.lease = Lease(held.incarnation, held.first, max(held.until, until), answer.lease_ns)

    def _held_ns(self, answer: BeatAnswer) -> int:
        """How long a lease lasts for its holder: as it was granted, or shorter, if by the holder's own bound
        for clocks it might otherwise outlast what was promised (R5)."""
        return min(answer.lease_ns, self.config.lease_within(answer.grace_ns))
