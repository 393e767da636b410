"""Leases between two hosts, and what groups may conclude from them (PROTOCOL R1, R3, K3).

Rules. A host's heartbeat, answered, gives it a lease: it began before the heartbeat was sent, and lasts
``lease_ns`` from then by its own clock (R3). Who answers promises that it will claim no group of exactly that
incarnation before its own clock has counted the grace from the receipt; grace is longer than the lease by any
clock within the rate bound. A lapsed lease does not revive: the next answer begins another, numbered by its
first heartbeat (R1). A host that says it has not heard us for a lease gets no answer: it can send and not
receive, and must go (K3).

The lease alone lets no primary read: *the right to read is per group*. Every answer of a backup that carries
its group's epoch also carries the number of the latest heartbeat it had from the primary's host; it counts
from the lease that is in force if that number is not older than the lease's first.
*Without the number:* an acknowledgement of epoch 1, written before the cut, arrives after the healing and
confirms the new lease, although its writer is in epoch 2 by then.
"""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Final

from holdfast.model.ids import Epoch, GroupId, HostId, Incarnation
from holdfast.model.ports import Clock, Network, Timers, Trace
from holdfast.sequence.config import LeaseConfig
from holdfast.sequence.messages import Beat, BeatAnswer, Confirm, Confirmed
from holdfast.sequence.peer_clocks import PeerClocks

BEATS_KEPT: Final = 64
"""Heartbeats whose sending times are remembered; an answer to an older one is worth nothing."""
NOBODY: Final = Incarnation(0)
"""Issued to no process."""
_BEAT: Final = "beat"
_CONFIRM: Final = "confirm"


@dataclass(slots=True)
class _Peer:
    """The other host of a pair, seen from both sides."""

    # As holder of its lease.
    lease_first: int = 0
    lease_until: int = -1
    lease_incarnation: Incarnation = NOBODY
    # As the one who promises.
    incarnation: Incarnation = NOBODY
    beat: int = 0
    promised_until: dict[Incarnation, int] = field(default_factory=dict)
    heard_at: int = 0
    to_confirm: dict[GroupId, Epoch] = field(default_factory=dict)


class Leases:
    """The leases of one host with all its peers, in both directions."""

    def __init__(
        self,
        *,
        incarnation: Incarnation,
        clock: Clock,
        timers: Callable[[Callable[[Hashable], None]], Timers],
        network: Network,
        trace: Trace,
        config: LeaseConfig,
        on_lapsed: Callable[[HostId], None],
        is_in: Callable[[GroupId, Epoch, HostId], bool],
        on_confirmed: Callable[[HostId, Incarnation, GroupId, Epoch, int], None],
        clocks: PeerClocks | None = None,
    ) -> None:
        """*on_lapsed*: a promise to that host has run out. *is_in*: whether the member of that group is a
        backup in that epoch, asked by that host. *on_confirmed*: that host says so of its member. *clocks*:
        learns what time it is at the peers; None where nothing is stamped."""
        self.config = config
        self._incarnation = incarnation
        self._clock = clock
        self._timers = timers(self._on_timer)
        self._network = network
        self._trace = trace
        self._on_lapsed = on_lapsed
        self._is_in = is_in
        self._on_confirmed = on_confirmed
        self._clocks = clocks
        self._peers: dict[HostId, _Peer] = {}
        self._number = 0
        self._sent_at: dict[int, int] = {}

    def start(self, peers: Iterable[HostId]) -> None:
        now = self._clock.now()
        self._peers = {host: _Peer(heard_at=now) for host in peers}
        self._beat()

    # --- as holder

    def lease(self, host: HostId) -> tuple[Incarnation, int] | None:
        """The lease that *host* has given us, as (its incarnation, first heartbeat); None when it lapsed."""
        peer = self._peers.get(host)
        if peer is None or self._clock.now() >= peer.lease_until:
            return None
        return peer.lease_incarnation, peer.lease_first

    def confirm(self, host: HostId, group: GroupId, epoch: Epoch) -> None:
        """Ask *host* whether its member is still in *epoch*; all questions of a turn go together."""
        peer = self._peers.get(host)
        if peer is None:
            return
        if not any(each.to_confirm for each in self._peers.values()):
            self._timers.set(0, _CONFIRM)
        peer.to_confirm[group] = epoch

    # --- as the one who promises

    def promised_until(self, host: HostId, incarnation: Incarnation) -> int:
        """Before this, by our clock, no group of that process is claimed; 0 when nothing was promised."""
        peer = self._peers.get(host)
        return 0 if peer is None else peer.promised_until.get(incarnation, 0)

    def latest_beat(self, host: HostId) -> tuple[Incarnation, int]:
        """The newest heartbeat we have answered to *host*."""
        peer = self._peers.get(host)
        return (NOBODY, 0) if peer is None else (peer.incarnation, peer.beat)

    def hears(self, host: HostId) -> bool:
        """Whether that host was heard within a lease."""
        peer = self._peers.get(host)
        return peer is not None and self._clock.now() - peer.heard_at < self.config.lease_ns

    def heard(self) -> int:
        """How many hosts were heard within a lease."""
        now = self._clock.now()
        return sum(now - peer.heard_at < self.config.lease_ns for peer in self._peers.values())

    @property
    def is_clock_off(self) -> bool:
        """Whether this host's time differs from most of its peers' (X4)."""
        return self._clocks is not None and self._clocks.is_off

    # --- events

    def on_message(self, peer: HostId, message: object) -> None:
        known = self._peers.get(peer)
        if known is None:
            return
        match message:
            case Beat():
                known.heard_at = self._clock.now()
                if self._clocks is not None and message.wall_ns:
                    self._clocks.heard(peer, message.wall_ns)
                self._on_beat(peer, known, message)
            case BeatAnswer():
                known.heard_at = self._clock.now()
                self._on_answer(known, message)
            case Confirm():
                groups = tuple(pair for pair in message.groups if self._is_in(*pair, peer))
                if groups:
                    answer = Confirmed(self._incarnation, groups, known.beat)
                    self._network.send(peer, answer)
            case Confirmed():
                for group, epoch in message.groups:
                    self._on_confirmed(peer, message.incarnation, group, epoch, message.beat)

    def _on_beat(self, host: HostId, peer: _Peer, beat: Beat) -> None:
        if beat.incarnation < peer.incarnation or beat.heard_age_ns > self.config.lease_ns:
            return
        if beat.incarnation > peer.incarnation:
            peer.incarnation, peer.beat = beat.incarnation, 0
        peer.beat = max(peer.beat, beat.number)
        peer.promised_until[beat.incarnation] = self._clock.now() + self.config.grace_ns
        self._network.send(host, BeatAnswer(self._incarnation, beat.incarnation, beat.number))

    def _on_answer(self, peer: _Peer, answer: BeatAnswer) -> None:
        sent_at = self._sent_at.get(answer.number)
        if answer.of_incarnation != self._incarnation or sent_at is None:
            return
        now, until = self._clock.now(), sent_at + self.config.lease_ns
        if now >= peer.lease_until or answer.incarnation != peer.lease_incarnation:
            # Lapsed, or given by another process: what was confirmed under the old one counts no more.
            peer.lease_first, peer.lease_incarnation = answer.number, answer.incarnation
            peer.lease_until = until
        else:
            peer.lease_until = max(peer.lease_until, until)

    def _on_timer(self, tag: Hashable) -> None:
        if tag == _BEAT:
            self._beat()
        else:
            for host, peer in self._peers.items():
                if peer.to_confirm:
                    self._network.send(host, Confirm(tuple(peer.to_confirm.items())))
                    peer.to_confirm.clear()

    def _beat(self) -> None:
        now = self._clock.now()
        wall_ns = self._clocks.clock.wall() if self._clocks is not None else 0
        self._number += 1
        self._sent_at[self._number] = now
        self._sent_at.pop(self._number - BEATS_KEPT, None)
        for host, peer in self._peers.items():
            self._network.send(host, Beat(self._incarnation, self._number, now - peer.heard_at, wall_ns))
            lapsed = [each for each, until in peer.promised_until.items() if now >= until]
            for incarnation in lapsed:
                del peer.promised_until[incarnation]
            if lapsed:
                self._trace.note("promise_lapsed", host=host, incarnations=lapsed)
                self._on_lapsed(host)
        self._timers.set(self.config.interval_ns, _BEAT)
