r"""What the groups of a host may conclude from the leases between hosts (R1, R3).

A lease (:mod:`.lease_heartbeats`) alone does not let a primary answer reads: *the right to read is per
group*. Every answer of a backup carries its group's epoch and the number of the latest heartbeat that it had
from the primary's host. The answer confirms the lease in force only if that number is not older than the
lease's first heartbeat.
*Without the number:* an acknowledgement of epoch 1, written before the cut, arrives after the healing and
confirms the new lease, although its writer is in epoch 2 by then.

:class:`LeaseNote` keeps the longest lease that a host's processes may have granted and that may still be in
force (R5). A process that was started again does not know what its predecessor promised, so it waits before
it claims because of silence (V3). How long, its settings cannot say: they may have been changed while it was
down. So before a host grants a longer lease than ever, the length is written down where the next process
finds it. It is lowered only when every lease of the greater length must have ended.
*Without it:* B grants A\* a lease of 2 s and is killed. Its file now says 200 ms. Started again, B hears
nothing from A\*, which is cut off, waits for 252 ms, claims, and commits op1 with C; A\* answers a query
without op1, by B's lease.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import Final

from holdfast.model.ids import Epoch, GroupId, HostId, Incarnation
from holdfast.model.pauses import PauseDetector
from holdfast.model.ports import Clock, Network, Timers, Trace
from holdfast.model.proven_dead import ProvenDead
from holdfast.sequence.config import LEASE_NS_MAX, LeaseConfig
from holdfast.sequence.lease_heartbeats import NOBODY, LeaseHeartbeats, TimeThere
from holdfast.sequence.messages import Beat, BeatAnswer, Confirm, Confirmed
from holdfast.sequence.peer_clocks import PeerClocks

_LOOK: Final = "look"
_CONFIRM: Final = "confirm"
REFUTED_KEPT: Final = 64
"""For how many processes it is remembered that their false death was reported."""


class LeaseNote:
    """The note of one host, as one of its processes keeps it."""

    def __init__(self, noted_ns: int, keep: Callable[[int], None]) -> None:
        """*noted_ns*: what the note said at the start; 0 if the host never granted a lease.
        *keep*: writes a length down; it is durable when this returns."""
        self._noted_ns = min(noted_ns, LEASE_NS_MAX)
        self._keep = keep
        self._lower_at: int | None = None
        self.bound_until = 0
        """Until when, by this process's clock, leases of earlier processes may be in force."""

    def on_start(self, now: int, config: LeaseConfig) -> None:
        self.bound_until = now + config.grace_of(self._noted_ns) if self._noted_ns else 0
        self.on_granting(now, config)

    def on_granting(self, now: int, config: LeaseConfig) -> None:
        """Called before leases of this length are granted."""
        if config.lease_ns > self._noted_ns:
            self._keep(config.lease_ns)
            self._noted_ns, self._lower_at = config.lease_ns, None
        elif config.lease_ns < self._noted_ns:
            self._lower_at = now + config.grace_of(self._noted_ns)
        # Otherwise what is noted is granted again: it cannot be lowered.
        else:
            self._lower_at = None

    @property
    def longest_ns(self) -> int:
        """The longest lease of this host that may be in force."""
        return self._noted_ns

    def look(self, now: int, config: LeaseConfig) -> bool:
        """Lower the note when no longer lease can be in force any more; called again and again. Returns
        whether it was lowered."""
        if self._lower_at is None or now < self._lower_at:
            return False
        self._lower_at = None
        self._noted_ns = config.lease_ns
        self._keep(config.lease_ns)
        return True


class Leases:
    """The leases of one host with all its peers, in both directions, as its groups use them."""

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
        beats: LeaseHeartbeats | None = None,
        note: LeaseNote | None = None,
    ) -> None:
        """*on_lapsed*: called when a promise to that host has run out.
        *is_in*: whether the member of that group is a backup in that epoch; that host asks.
        *on_confirmed*: called when that host confirms that its member is.
        *clocks*: collects the peers' times; None if hosts send no timestamps.
        *beats*: the heartbeats, if another thread drives and receives them (R4).
        *note*: what earlier processes of this host may have granted (R5)."""
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
        self._note = note or LeaseNote(0, lambda lease_ns: None)
        self._note.on_start(clock.now(), config)
        self._is_driving = beats is None
        self._beats = beats or LeaseHeartbeats(
            incarnation=incarnation, clock=clock, network=network, config=config
        )
        self._to_confirm: dict[HostId, dict[GroupId, Epoch]] = {}
        self._reported: dict[HostId, tuple[Incarnation, ...]] = {}
        """For each host, the processes whose lapsed promise was already reported."""
        self.proven_dead = ProvenDead(clock, self.heard_at, config.lease_ns)
        """The processes that agents have proven dead; their silence is no cause for suspicion (K2, K7)."""
        self._distrusted_until = 0
        """Until then no lease counts, because this process was falsely reported dead (K7)."""
        self._refuted: dict[tuple[HostId, Incarnation], None] = {}
        self._times: dict[HostId, TimeThere] = {}
        self._pauses = PauseDetector(clock)

    def start(self, peers: Iterable[HostId]) -> None:
        self._beats.start(peers)
        self._look()

    def meet(self, hosts: Iterable[HostId]) -> None:
        """Also exchange leases with these hosts of the domain. A new host starts without promises either
        way."""
        self._beats.meet(hosts)

    def retune(self, config: LeaseConfig) -> None:
        """Go on with other settings. Leases and promises that were given before keep their length (R5)."""
        self._note.on_granting(self._clock.now(), config)
        self.config = self._beats.config = config
        self.proven_dead.tolerate(self._note.longest_ns)

    # --- as the holder of leases

    def lease(self, host: HostId) -> tuple[Incarnation, int] | None:
        """The lease that *host* has given us, as (its incarnation, first heartbeat); None when it has
        lapsed."""
        peer = self._beats.peers.get(host)
        if peer is None:
            return None
        lease = peer.lease
        is_held = self._distrusted_until <= self._clock.now() < lease.until
        return (lease.incarnation, lease.first) if is_held else None

    def confirm(self, host: HostId, group: GroupId, epoch: Epoch) -> None:
        """Ask *host* whether its member is still in *epoch*; all questions of one turn go in one message."""
        if host not in self._beats.peers:
            return
        if not self._to_confirm:
            self._timers.set(0, _CONFIRM)
        self._to_confirm.setdefault(host, {})[group] = epoch

    # --- as the giver of leases

    def promised_until(self, host: HostId, incarnation: Incarnation) -> int:
        """Until when, by our clock, we may claim no group of that process; 0 when nothing was promised."""
        peer = self._beats.peers.get(host)
        until = 0 if peer is None else peer.promised.until(incarnation)
        return max(until, self._beats.earliest_end) if until else 0

    @property
    def bound_until(self) -> int:
        """Until when this process may claim nothing because of silence alone: an earlier process of its host
        may have promised so much (V3, R5)."""
        return self._note.bound_until

    def latest_beat(self, host: HostId) -> tuple[Incarnation, int]:
        """The newest heartbeat of *host* that we have answered."""
        peer = self._beats.peers.get(host)
        if peer is None:
            return NOBODY, 0
        promised = peer.promised
        return promised.incarnation, promised.beat

    def hears(self, host: HostId) -> bool:
        """Whether that host was heard within the time of a lease."""
        peer = self._beats.peers.get(host)
        return peer is not None and self._clock.now() - peer.heard_at < self.config.lease_ns

    def silence_ns(self, host: HostId) -> int | None:
        """How long nothing has been heard from that host; None if the host is unknown."""
        peer = self._beats.peers.get(host)
        return self._clock.now() - peer.heard_at if peer is not None else None

    def on_death(self, host: HostId, incarnation: Incarnation, age_ns: int = 0) -> None:
        """Note the proof that this process died *age_ns* ago (K2)."""
        self.proven_dead.on_proof(host, incarnation, age_ns)
        silent_ns = self.silence_ns(host)
        if silent_ns is not None:
            self._trace.note("death_proven", host=host, incarnation=incarnation, silent_ns=silent_ns)

    def on_own_death(self) -> None:
        """Note that this very process was reported dead, falsely (K7). Others may believe it and claim before
        their promises have run out, so for a while no lease lets a read be answered; the authority confirms
        reads meanwhile (R2)."""
        self._trace.note("own_death_reported", incarnation=self._incarnation)
        # They believe it for as long as the leases that they grant, which may be longer than ours (R5).
        granted_ns = (peer.lease.granted_ns for peer in self._beats.peers.values())
        grace_ns = self.config.grace_of(max(self.config.lease_ns, *granted_ns))
        self._distrusted_until = self._clock.now() + 2 * grace_ns

    def heard_at(self, host: HostId, incarnation: Incarnation) -> int | None:
        """When a heartbeat of that process was last answered; None if none was lately."""
        peer = self._beats.peers.get(host)
        promise = None if peer is None else peer.promised.to.get(incarnation)
        return None if promise is None else promise.answered_at

    def heard(self) -> int:
        """How many hosts were heard within the time of a lease."""
        now = self._clock.now()
        return sum(now - peer.heard_at < self.config.lease_ns for peer in self._beats.peers.values())

    def awake_since(self) -> int:
        """Since when the host's loop has run without a pause; messages from before that may still be
        unread."""
        return self._pauses.since()

    @property
    def is_clock_off(self) -> bool:
        """Whether this host's time differs from that of most of its peers (X4)."""
        return self._clocks is not None and self._clocks.is_off

    # --- events

    def on_message(self, peer: HostId, message: object) -> None:
        if peer not in self._beats.peers:
            return
        match message:
            case Beat() | BeatAnswer() if self._is_driving:
                self._beats.on_message(peer, message)
                self._learn_time(peer)
            case Confirm():
                groups = tuple(pair for pair in message.groups if self._is_in(*pair, peer))
                if groups:
                    beat_of, beat = self.latest_beat(peer)
                    answer = Confirmed(self._incarnation, groups, beat, beat_of)
                    self._network.send(peer, answer)
            case Confirmed(beat_of=beat_of) if beat_of == self._incarnation:
                for group, epoch in message.groups:
                    self._on_confirmed(peer, message.incarnation, group, epoch, message.beat)

    def _on_timer(self, tag: Hashable) -> None:
        if tag == _LOOK:
            self._look()
        else:
            asked, self._to_confirm = self._to_confirm, {}
            for host, groups in asked.items():
                self._network.send(host, Confirm(tuple(groups.items())))

    def _look(self) -> None:
        """Send heartbeats, if this object drives them, and evaluate what has arrived; runs every interval."""
        self._pauses.look(self.config.interval_ns)
        if self._note.look(self._clock.now(), self.config):
            self.proven_dead.tolerate(self._note.longest_ns)
        if self._clocks is not None:
            self._beats.wall_ahead_ns = self._clocks.clock.wall() - self._clocks.clock.now()
        if self._is_driving:
            self._beats.beat()
        for host in self._beats.peers:
            self._learn_time(host)
            self._tell_of_lapse(host)
        self._timers.set(self._until_next_look(), _LOOK)

    def _until_next_look(self) -> int:
        """How long until the next look: one interval, or less if a promise runs out sooner, so that nobody
        waits longer than necessary."""
        now, interval_ns = self._clock.now(), self.config.interval_ns
        promises = [each for peer in self._beats.peers.values() for each in peer.promised.to.values()]
        return min([interval_ns, *(each.until - now for each in promises if each.until > now)])

    def _learn_time(self, host: HostId) -> None:
        time = self._beats.peers[host].time
        if self._clocks is not None and time is not None and time is not self._times.get(host):
            self._times[host] = time
            self._clocks.heard(host, time.wall_ns + self._clock.now() - time.heard_at)

    def _tell_of_lapse(self, host: HostId) -> None:
        now, promised = self._clock.now(), self._beats.peers[host].promised
        earliest = self._beats.earliest_end
        lapsed = tuple(each for each, promise in promised.to.items() if now >= max(promise.until, earliest))
        reported, self._reported[host] = self._reported.get(host, ()), lapsed
        newly_lapsed = [each for each in lapsed if each not in reported]
        if any(promised.until(each) > now for each in reported):
            self._trace.note("heard_again", host=host)  # it was suspected wrongly
        self._note_refuted(host, promised.incarnation)
        suspected = [each for each in newly_lapsed if not self.proven_dead.is_dead(host, each)]
        if suspected:
            silent_ns = self.silence_ns(host)
            self._trace.note("promise_lapsed", host=host, incarnations=suspected, silent_ns=silent_ns)
        if newly_lapsed:
            self._on_lapsed(host)

    def _note_refuted(self, host: HostId, incarnation: Incarnation) -> None:
        """Say once of a process that its death was reported although it lives (K7)."""
        process = (host, incarnation)
        if process not in self._refuted and self.proven_dead.is_refuted(host, incarnation):
            self._refuted[process] = None
            while len(self._refuted) > REFUTED_KEPT:
                del self._refuted[next(iter(self._refuted))]
            self._trace.note("death_refuted", host=host, incarnation=incarnation)
