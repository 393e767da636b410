"""Heartbeats between hosts: one exchange per pair of hosts, however many groups they share.

Every ``interval_ns`` a host tells each peer that it is alive, what it last heard from that peer, and how
its own loop and disk are doing (K3). The listener judges silence by its own clock. This runs on a thread of
its own (R4), so that a long method does not look like a dead host. That thread in turn notices when the
loop or the disk stands still for too long, and ends the host.

If members are monitored here, a loop that stands still answers for none of them. Then it is tolerated no
longer than the shortest of their timeouts (FTC-248), and checked more often. After a pause of its own,
which it notices by the checks that it missed, the thread judges nothing by the time it was paused.

Silence does not prove death: only an agent can prove it (K2).
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Final

from msgspec import Struct

from holdfast.model.ids import MILLISECOND, SECOND, HostId, Incarnation
from holdfast.model.ports import Clock, Network, Timers, Trace
from holdfast.model.validation import Problem

_BEAT: Final = "beat"
_LOOK: Final = "look"
LOOKS: Final = 10
"""How often the loop is checked within its time limit, which may be overrun by one such interval."""


class Heartbeat(Struct, frozen=True, array_like=True, tag="heartbeat"):
    """A heartbeat from one host to one peer."""

    host: HostId
    incarnation: Incarnation
    number: int
    """Counts from 1 in each incarnation of the sender."""
    heard_number: int
    """Number of the last heartbeat the sender received from the receiver; 0 if none."""
    heard_age_ns: int
    """How long ago that was. This tells the receiver of a path that works in one direction only."""
    loop_age_ns: int
    """Time since the sender's loop last turned."""
    sync_age_ns: int
    """Age of the sender's oldest unfinished disk sync."""


class HeartbeatConfig(Struct, frozen=True, kw_only=True):
    """How often to send heartbeats, and how long to tolerate silence, a stopped loop or a hung sync."""

    interval_ns: int = 100 * MILLISECOND
    """Time between two heartbeats. A shorter one detects silence sooner but costs more wake-ups per peer."""
    silence_ns: int = 1 * SECOND
    """A peer unheard for so long counts as silent. Must exceed a few intervals and a collector's pause."""
    hang_limit_ns: int = 20 * SECOND
    """A loop that has not turned for so long ends its host (K3)."""
    sync_limit_ns: int = 10 * SECOND
    """A disk sync that has run for so long ends its host (K3)."""

    def validate(self) -> list[Problem]:
        problems: list[Problem] = []
        if self.interval_ns < MILLISECOND:
            problems.append(("interval_ns", "must be at least 1 ms"))
        if self.silence_ns < 3 * self.interval_ns:
            problems.append(("silence_ns", "must be at least three times interval_ns"))
        for name in ("hang_limit_ns", "sync_limit_ns"):
            if getattr(self, name) <= self.silence_ns:
                problems.append((name, "must be greater than silence_ns"))
        return problems


@dataclass(frozen=True, slots=True)
class Vitals:
    """How the host's own loop and disk are doing, as ages."""

    loop_age_ns: int
    sync_age_ns: int
    loop_limit_ns: int | None = None
    """The shorter limit within which the loop must turn because members are monitored here, if any are."""


@dataclass(frozen=True, slots=True)
class PeerState:
    """What this host knows of one peer by its heartbeats."""

    host: HostId
    incarnation: Incarnation
    heard_age_ns: int | None
    """None if this incarnation of the peer was never heard."""
    is_silent: bool
    hears_us: bool
    """The peer's last heartbeat says that it heard this host within ``silence_ns``."""


@dataclass(slots=True)
class _Peer:
    incarnation: Incarnation
    known_since: int
    heard_at: int | None = None
    last: Heartbeat | None = None
    was_silent: bool = False


class Heartbeats:
    """The heartbeats of one host with all its peers."""

    def __init__(
        self,
        *,
        host: HostId,
        incarnation: Incarnation,
        clock: Clock,
        timers: Callable[[Callable[[Hashable], None]], Timers],
        network: Network,
        trace: Trace,
        vitals: Callable[[], Vitals],
        on_unfit: Callable[[str, int], None],
        config: HeartbeatConfig,
    ) -> None:
        """*on_unfit* is called with the reason why this host must end, and how long its loop has stood
        still (0 if the reason is another).
        """
        self._host = host
        self._incarnation = incarnation
        self._clock = clock
        self._timers = timers(self.on_timer)
        self._network = network
        self._trace = trace
        self._vitals = vitals
        self._on_unfit = on_unfit
        self.config = config
        self._peers: dict[HostId, _Peer] = {}
        self._number = 0
        self._looked_at = 0
        self._watching_since = 0
        self._is_watching_closely = False

    def start(self) -> None:
        self._looked_at = self._watching_since = self._clock.now()
        self._beat()

    def set_peers(self, peers: Mapping[HostId, Incarnation]) -> None:
        """Follow exactly these peers. A new incarnation is a new peer, from which nothing was heard yet."""
        now = self._clock.now()
        self._peers = {
            host: self._peers[host]
            if host in self._peers and self._peers[host].incarnation == incarnation
            else _Peer(incarnation, known_since=now)
            for host, incarnation in sorted(peers.items())
            if host != self._host
        }

    def on_message(self, peer: str, message: object) -> None:
        if not isinstance(message, Heartbeat):
            return
        known = self._peers.get(message.host)
        # A delayed heartbeat of an earlier process must not make its successor look alive.
        if known is None or message.incarnation != known.incarnation:
            return
        if known.last is not None and message.number <= known.last.number:
            return
        known.heard_at = self._clock.now()
        known.last = message

    def on_timer(self, tag: Hashable) -> None:
        if tag == _BEAT:
            self._beat()
        else:
            self._is_watching_closely = False
            self._look(self._clock.now(), self._vitals())

    def does_loop_turn(self) -> bool:
        """Whether the loop has turned within ``hang_limit_ns``; if not, no lease heartbeats are sent."""
        return self._vitals().loop_age_ns <= self.config.hang_limit_ns

    def peers(self) -> tuple[PeerState, ...]:
        """What is known of every peer now, ordered by host id."""
        now = self._clock.now()
        return tuple(self._state(host, peer, now) for host, peer in self._peers.items())

    def _beat(self) -> None:
        now = self._clock.now()
        vitals = self._vitals()
        self._look(now, vitals)
        self._number += 1
        for host, peer in self._peers.items():
            self._network.send(host, self._heartbeat(peer, now, vitals))
            self._note_silence(host, peer, now)
        self._timers.set(self.config.interval_ns, _BEAT)

    def _look(self, now: int, vitals: Vitals) -> None:
        """Check this host, and again soon if its loop must turn more often than heartbeats are sent."""
        self._end_if_unfit(now, vitals)
        if vitals.loop_limit_ns is not None and not self._is_watching_closely:
            self._is_watching_closely = True
            self._timers.set(min(vitals.loop_limit_ns // LOOKS, self.config.interval_ns), _LOOK)

    def _heartbeat(self, peer: _Peer, now: int, vitals: Vitals) -> Heartbeat:
        return Heartbeat(
            host=self._host,
            incarnation=self._incarnation,
            number=self._number,
            heard_number=peer.last.number if peer.last else 0,
            heard_age_ns=now - (peer.heard_at if peer.heard_at is not None else peer.known_since),
            loop_age_ns=vitals.loop_age_ns,
            sync_age_ns=vitals.sync_age_ns,
        )

    def _end_if_unfit(self, now: int, vitals: Vitals) -> None:
        config = self.config
        limit_ns = min(vitals.loop_limit_ns or config.hang_limit_ns, config.hang_limit_ns)
        # After a pause of the whole process every age includes the pause, and says nothing about the loop
        # or the disk. They are judged only by the time in which they could have made progress.
        if now - self._looked_at > min(config.silence_ns, limit_ns // 2):
            self._watching_since = now
        self._looked_at = now
        watched_ns = now - self._watching_since
        loop_age_ns = min(vitals.loop_age_ns, watched_ns)
        sync_age_ns = min(vitals.sync_age_ns, watched_ns)
        if loop_age_ns > limit_ns:
            self._on_unfit(f"the event loop has stood still for {loop_age_ns / SECOND:.1f} s", loop_age_ns)
        elif sync_age_ns > config.sync_limit_ns:
            self._on_unfit(f"a disk sync has run for {sync_age_ns / SECOND:.1f} s", 0)

    def _note_silence(self, host: HostId, peer: _Peer, now: int) -> None:
        is_silent = self._state(host, peer, now).is_silent
        if is_silent != peer.was_silent:
            peer.was_silent = is_silent
            self._trace.note(
                "peer_silent" if is_silent else "peer_heard", peer=host, incarnation=peer.incarnation
            )

    def _state(self, host: HostId, peer: _Peer, now: int) -> PeerState:
        age = None if peer.heard_at is None else now - peer.heard_at
        unheard_ns = now - peer.known_since if age is None else age
        return PeerState(
            host=host,
            incarnation=peer.incarnation,
            heard_age_ns=age,
            is_silent=unheard_ns > self.config.silence_ns,
            hears_us=peer.last is not None
            and peer.last.heard_number > 0
            and peer.last.heard_age_ns <= self.config.silence_ns,
        )
