"""The heartbeats that give and renew leases between two hosts (R1, R3, K3).

Rules. A host's heartbeat, answered, gives it a lease: it began before the heartbeat was sent, and lasts
``lease_ns`` from then by its own clock (R3). Who answers promises that it will claim no group of exactly that
incarnation before its own clock has counted the grace from the receipt; grace is longer than the lease by any
clock within the rate bound. A lapsed lease does not revive: the next answer begins another, numbered by its
first heartbeat (R1). A host that says it has not heard us for a lease gets no answer: it can send and not
receive, and must go (K3).

Threads (R4). This machine may run on another thread than the groups, so that a host whose loop stands for a
while keeps its groups. One thread drives it; any thread may ask. What is asked for is replaced as a whole,
never changed in place, and a promise is kept before its answer is sent. So whoever finds that a promise has
run out, and claims, can do so while another heartbeat is being answered: that answer leaves after the lease
before it has ended by the holder's clock too, and begins a lease which nobody has confirmed.

Pauses. A promise runs out by the clock, and also because whoever made it was paused and did not read what
would have renewed it: so no promise has run out before a grace since this host woke (this module).

Whether a host was itself awake all the time for which it has not heard of another.

A process that was paused finds, when it goes on, that nobody has been heard for long: what the others said
meanwhile still waits to be read. Who concludes from that that they are gone takes the groups of healthy
hosts, or drops healthy backups. So silence counts only from when one was awake again, as after a start (V3).
To wait longer is always safe.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from holdfast.model.ids import HostId, Incarnation
from holdfast.model.ports import Clock, Network
from holdfast.sequence.config import LeaseConfig
from holdfast.sequence.messages import Beat, BeatAnswer

MISSED: Final = 3
"""Who looks only after so many of its intervals was held up."""


class PauseDetector:
    """Of somebody who means to look every *interval_ns*. One thread looks, any may ask."""

    def __init__(self, clock: Clock, interval_ns: int) -> None:
        self._clock = clock
        self._interval_ns = interval_ns
        self._looked_at: int | None = None
        self._since = 0

    def look(self) -> None:
        """It looks now."""
        now = self._clock.now()
        if self._is_asleep(now):
            self._since = now
        self._looked_at = now  # last: who asks in between takes it for asleep

    def since(self) -> int:
        """Since when it has missed no look: 0, from its beginning; now, while it is missing one."""
        now = self._clock.now()
        return now if self._is_asleep(now) else self._since

    def _is_asleep(self, now: int) -> bool:
        return self._looked_at is not None and now - self._looked_at > MISSED * self._interval_ns


BEATS_KEPT: Final = 64
"""Heartbeats whose sending times are remembered; an answer to an older one is worth nothing."""
PROCESSES_KEPT: Final = 4
"""Of one host, to which something was promised; with a fifth the oldest is long gone."""
NOBODY: Final = Incarnation(0)
"""Issued to no process."""


@dataclass(frozen=True, slots=True)
class Lease:
    """What a peer has given us."""

    incarnation: Incarnation = NOBODY
    first: int = 0
    """The heartbeat that began it."""
    until: int = -1


@dataclass(frozen=True, slots=True)
class Promised:
    """What we have promised a peer."""

    incarnation: Incarnation = NOBODY
    beat: int = 0
    """The newest heartbeat answered, of the newest process."""
    until: Mapping[Incarnation, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TimeThere:
    """What a heartbeat said of its sender's time (X4)."""

    wall_ns: int
    heard_at: int


@dataclass(slots=True)
class Peer:
    """The other host of a pair, seen from both sides. Each field is replaced as a whole."""

    heard_at: int
    lease: Lease = Lease()
    promised: Promised = field(default_factory=Promised)
    time: TimeThere | None = None


class LeaseHeartbeats:
    """The heartbeats of one host with all its peers. Whoever drives it calls :meth:`beat` every
    ``interval_ns``."""

    def __init__(
        self, *, incarnation: Incarnation, clock: Clock, network: Network, config: LeaseConfig
    ) -> None:
        self.config = config
        self.peers: Mapping[HostId, Peer] = {}
        self.wall_ahead_ns: int | None = None
        """By how much this host's time is ahead of ``now()``; None where nothing is stamped (X4)."""
        self._incarnation = incarnation
        self._clock = clock
        self._network = network
        self._number = 0
        self._sent_at: dict[int, int] = {}
        self._wakefulness = PauseDetector(clock, config.interval_ns)

    @property
    def earliest_end(self) -> int:
        """Before this no promise has run out: this host was paused, and must hear the others first."""
        awake_since = self._wakefulness.since()
        return awake_since + self.config.grace_ns if awake_since else 0

    def start(self, peers: Iterable[HostId]) -> None:
        """Exchange them with these hosts from now on. Any thread, once."""
        now = self._clock.now()
        self.peers = {host: Peer(heard_at=now) for host in peers}

    def meet(self, hosts: Iterable[HostId]) -> None:
        """Exchange them with these hosts too: the domain may have grown. From the thread that started it."""
        now = self._clock.now()
        new = {host: Peer(heard_at=now) for host in hosts if host not in self.peers}
        if new:
            self.peers = {**self.peers, **new}

    def beat(self) -> None:
        self._wakefulness.look()
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
        known = peer.promised
        if beat.incarnation < known.incarnation or beat.heard_age_ns > self.config.lease_ns:
            return
        newest = beat.number if beat.incarnation > known.incarnation else max(known.beat, beat.number)
        others = [each for each in known.until.items() if each[0] != beat.incarnation]
        until = self._clock.now() + self.config.grace_ns
        kept = dict([*others[-(PROCESSES_KEPT - 1) :], (beat.incarnation, until)])
        peer.promised = Promised(beat.incarnation, newest, kept)
        self._network.send(host, BeatAnswer(self._incarnation, beat.incarnation, beat.number))

    def _on_answer(self, peer: Peer, answer: BeatAnswer) -> None:
        sent_at = self._sent_at.get(answer.number)
        if answer.of_incarnation != self._incarnation or sent_at is None:
            return
        held, until = peer.lease, sent_at + self.config.lease_ns
        if self._clock.now() >= held.until or answer.incarnation != held.incarnation:
            # Lapsed, or given by another process: what was confirmed under the old one counts no more.
            peer.lease = Lease(answer.incarnation, answer.number, until)
        else:
            peer.lease = Lease(held.incarnation, held.first, max(held.until, until))
