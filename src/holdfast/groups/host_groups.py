"""All groups of one host: one member for each group placed here, on the host's log, leases and connections.

It is built once the host has its session and its store. Each event is processed to its end, and everything
that arrives together is sent and synced together (S5).
"""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

from holdfast.authority.group_code import note_served, served, withdraw_upgrade
from holdfast.authority.groups import GroupRecord
from holdfast.authority.identity import Identity
from holdfast.authority.recipe import Recipes, Seen
from holdfast.authority.sessions import Session
from holdfast.authority.views import ViewMember
from holdfast.execution.definition import Definition
from holdfast.execution.effects import Outgoing
from holdfast.groups.authority_events import AuthorityEvents
from holdfast.groups.backend import Backend, Backends
from holdfast.groups.call_router import Answers, CallRouter
from holdfast.groups.catalog import GroupCatalog
from holdfast.groups.checkpoint_jobs import CopyJobs, ReplayJobs
from holdfast.groups.checkpoint_keeper import CheckpointKeeper
from holdfast.groups.crash_suspects import CrashSuspects
from holdfast.groups.deadlock_probes import DeadlockProbes
from holdfast.groups.disk_space import DiskSpace
from holdfast.groups.group_history import Histories
from holdfast.groups.host_stop import HostStop
from holdfast.groups.hosted_group import HostedGroup, definition_without_class, is_useful_without_class
from holdfast.groups.lifecycle import MemberLifecycle, MemoryRestarts
from holdfast.groups.liveness_checks import LivenessChecks
from holdfast.groups.other_hosts import OtherHosts
from holdfast.groups.outbound.domains import OutboundDomains
from holdfast.groups.outbound.groups import OutboundCalls
from holdfast.groups.ports import FAILURES, DiskGuard, GroupsPorts, OpenStore
from holdfast.groups.scheduler import Scheduler
from holdfast.groups.settings import GroupsConfig
from holdfast.groups.stale_reads import StaleReads
from holdfast.groups.stamps import Stamps, TimeCheck
from holdfast.groups.stored_objects import StoredObjects
from holdfast.groups.tuning import Tuning
from holdfast.groups.upgrade_rules import Wishes, may_replay, why_not_upgrade
from holdfast.model.deadlock import GiveWay, Probe
from holdfast.model.errors import DISK_ERRORS, HoldfastError
from holdfast.model.ids import MILLISECOND, ClientId, Epoch, GroupId, HostId, Incarnation
from holdfast.sequence.catchup_limiter import CatchupLimiter
from holdfast.sequence.claim_batches import ClaimBatches
from holdfast.sequence.messages import (
    Accepted,
    Beat,
    BeatAnswer,
    Confirm,
    Confirmed,
    Died,
    GroupMessage,
    Held,
    HowFar,
    Inspect,
    SequenceMessage,
    Stopping,
    Submit,
    ThisFar,
    Yield,
)
from holdfast.sequence.peer_clocks import PeerClocks
from holdfast.sequence.ports import Durability, HostPorts, Kept
from holdfast.sequence.recovery import Recovery
from holdfast.styles.call_log import CallLog
from holdfast.styles.ports import StylePorts

WAKE_NS: Final = 1 * MILLISECOND
"""How long after a style's request to be woken its turn comes."""


class HostGroups:
    """The groups of one process of one host. *hosts* are the hosts of the domain."""

    def __init__(
        self,
        host: HostId,
        incarnation: Incarnation,
        store: OpenStore,
        stamps: Stamps,
        identity: Seen[Identity],
        hosts: Iterable[HostId],
        ports: GroupsPorts,
        config: GroupsConfig,
    ) -> None:
        self.me = ViewMember(host=host, store=store.id, incarnation=incarnation, opening=store.opening)
        """The identity of this process in groups on disk; see :meth:`member_of`."""
        self.domain = ports.domain
        self.hosted: dict[GroupId, HostedGroup] = {}
        self._wishes = Wishes()
        self.stamps = stamps
        self._store = store
        self._ports = ports
        self._guard = guard = DiskGuard(store, ports)
        self.guarded = guard.guarded
        """Wraps handlers of outside events, so that a failing disk ends the host (D1)."""
        self.suspects = CrashSuspects(ports.slot, ports.clock)
        self.recipes = Recipes(ports.authority)
        ports.authority.on_authority = self.guarded(self.recipes.on_authority)
        durability = Durability()
        store.on_durable = self.guarded(durability.on_durable)
        self.checkpoints = CheckpointKeeper(store.checkpoints, store.log, durability, ports.journal)
        self._histories = Histories(self.recipes, ports.clock, guard.timers, ports.nonce)
        self.catalog = GroupCatalog(
            guard.watch,
            self.recipes,
            guard.timers,
            on_record=self._on_record,
            on_gone=lambda group, is_removed: self._events.on_gone(group, is_removed),
            on_view=lambda seen: self._events.on_view(seen),
            on_listed=lambda: self._events.on_listed(),
        )
        others, on_damage = partial(self.catalog.others, host), self._on_damage
        self.stored = StoredObjects(ports.files, ports.clock, ports.journal, guard.soon, others, on_damage)
        self.checkpoints.files = self.stored
        self.answers = Answers(stamps)
        self._lines = CallLog(ports.journal.info, ports.clock)
        self.outbound_calls = OutboundCalls(
            ClientId(f"{host}:{incarnation}"),
            self.catalog,
            stamps,
            self.recipes,
            ports,
            guard.timers,
            config.calling,
            self._lines,
        )
        abroad = ClientId(f"{host}:{incarnation}@{ports.domain}")
        self._other_domains = OutboundDomains(
            abroad, stamps, ports, guard.timers, config.calling, self._lines
        )
        self._deadlocks = DeadlockProbes(host, self.hosted, self.catalog, ports, guard)
        stale_reads = StaleReads(self.hosted, ports.clock, guard.timers, ports.network)
        self._scheduler = Scheduler(
            self.hosted,
            ports.clock,
            guard.timers,
            ports.soon,
            self.guarded,
            after=stale_reads.on_turn,
        )
        self.serving = CallRouter(
            self.hosted,
            self.catalog,
            self.answers,
            stamps,
            self.recipes,
            stale_reads,
            ports.clock,
            guard.timers,
            self._lines,
        )
        clocks = PeerClocks(stamps.clock)
        self.liveness_checks = LivenessChecks(
            self.hosted, ports.clock, guard.timers, ports.trace, ports.journal, ports.on_finding
        )
        self._time_check = TimeCheck(clocks, self.hosted, guard.timers, ports.journal, ports.on_skew)
        self._space = DiskSpace(store.space, self.hosted, guard.timers, ports.journal, config.space)
        self._peers = OtherHosts(incarnation, self.hosted, clocks, ports, config.leases, guard)
        self.tuning = Tuning(config, self.hosted, self._peers, self._space, guard)
        self.heard_at = self._peers.leases.heard_at
        on_disk = HostPorts(
            clock=ports.clock,
            timers=guard.timers,
            network=ports.network,
            random=ports.random,
            trace=ports.trace,
            recipes=self.recipes,
            claims=ClaimBatches(self.recipes, guard.timers, lambda: identity, ports.trace),
            leases=self._peers.leases,
            catchup_limiter=CatchupLimiter(ports.clock, guard.timers, asking_max=config.asking_max),
            log=store.log,
            durability=durability,
            checkpoints=self.checkpoints,
            flush=self._scheduler.ask_flush,
            identity=lambda: identity,
            nonce=ports.nonce,
            on_doubt_settled=self._on_doubt_settled,
            on_superseded=lambda group: self._lifecycle.on_superseded(group),
            on_lost=lambda group: self.restarts.on_lost(group),
            on_halted=lambda group, why: self._lifecycle.on_halted(group, why),
            on_won=self.serving.on_won,
            lacks_space=partial(getattr, self._space, "is_short"),  # many calls ask, and C code answers
        )
        disk = Backend(self.me, on_disk, self.checkpoints, lambda: store.log.is_doubtful)
        large_bytes = config.style.inline_state_bytes_max
        self._backends = Backends(disk, store, ports.journal, guard.soon, large_bytes)
        self._scheduler.flush_logs = self._backends.flush
        self._lifecycle = MemberLifecycle(
            self.hosted,
            self.catalog,
            self._backends,
            self.suspects,
            ports.journal,
            guard.soon,
            furnish=self._furnish,
            on_member_ended=self._on_member_ended,
            on_halted=ports.on_halted,
            on_record=self._on_record,
        )
        self._events = AuthorityEvents(
            host,
            self.hosted,
            self.catalog,
            self._lifecycle,
            self.liveness_checks,
            self.serving,
            self.outbound_calls,
            self.recipes,
            ports,
            guard,
        )
        self._on_group_message = self.guarded(self._pass_on)
        self.stopping = HostStop(host, incarnation, self.hosted, self.catalog, ports.network, guard)
        self.recovery = Recovery(
            host,
            clock=ports.clock,
            timers=guard.timers,
            network=ports.network,
            recipes=self.recipes,
            identity=lambda: identity,
            nonce=ports.nonce,
            own=self._held,
        )
        self.restarts = MemoryRestarts(
            self.recovery, guard.timers, self.catalog.seen_records, self._lost_in, ports.on_fault
        )
        self._peers.leases.start(each for each in hosts if each != host)

    def start(self) -> None:
        """Follow the authority for as long as the process lives, and host the groups that are placed here."""
        self.catalog.start()

    def close(self) -> None:
        """Stop all groups and everything that serves them."""
        for hosted in self.hosted.values():
            hosted.close()
        self._histories.close()
        self._time_check.close()
        self._space.close()
        self._scheduler.close()
        self.outbound_calls.close()
        self._other_domains.close()
        self._deadlocks.close()

    def kept(self, record: GroupRecord) -> Kept | None:
        """Return the newest checkpoint of the group that is kept here. Raises ``Corruption``."""
        return self._backends.of(record).keeping.newest(record.group)

    def ask_hand_over(self, group: GroupId, to: HostId, *, as_of: Epoch | None = None) -> None:
        """Ask the primary known here, once, to hand the group over to *to*; the request may have no effect.
        With *as_of*, ask only the primary of that epoch."""
        seen = self.catalog.views.get(group)
        if seen is not None and as_of in (None, seen.value.epoch):
            wanted = Yield(group, seen.value.epoch, to)
            if seen.value.primary == self.me.host:
                self._on_group_message(self.me.host, wanted)
            else:
                self._ports.network.send(seen.value.primary, wanted)

    # --- events from outside

    def on_hosts(self, sessions: Mapping[HostId, Session]) -> None:
        """Take note of the hosts of the domain that are in session now."""
        self.catalog.sessions = sessions
        self._peers.on_sessions({host: each for host, each in sessions.items() if host != self.me.host})
        self.serving.on_hosts(sessions.values())
        for hosted in self.hosted.values():
            hosted.reconsider()
            self._check_upgrade(hosted)
        self.outbound_calls.on_hosts()

    def on_sequence(self, peer: HostId, message: SequenceMessage) -> None:
        """Dispatch a message from another host."""
        try:
            match message:
                case Accepted() | Submit():  # nearly all messages
                    hosted = self.hosted.get(message.group)
                    if hosted is not None:
                        hosted.member.on_message(peer, message)
                case Beat() | BeatAnswer() | Confirm() | Confirmed():
                    self._peers.leases.on_message(peer, message)
                case HowFar() | ThisFar():
                    self.serving.stale_reads.on_message(peer, message)
                case Probe() | GiveWay():
                    self._deadlocks.on_message(peer, message)
                case Held():
                    self.recovery.on_held(peer, message)
                case Stopping():
                    self.stopping.on_stopping(peer, message)
                case Died():
                    return  # only agents report deaths, because they have proof (K2)
                case _:
                    self._pass_on(peer, message)
        except FAILURES as failure:
            self._guard.end_host(failure)

    def _pass_on(self, peer: HostId, message: GroupMessage) -> None:
        hosted = self.hosted.get(message.group)
        if hosted is not None:
            hosted.member.on_message(peer, message)

    def _held(self, asked: Inspect) -> Held | None:
        hosted = self.hosted.get(asked.group)
        return hosted.member.held(asked.number) if hosted is not None else None

    def _lost_in(self, group: GroupId) -> Epoch | None:
        hosted = self.hosted.get(group)
        return hosted.member.standing.epoch if hosted is not None and hosted.member.is_lost else None

    def on_death(self, host: HostId, incarnation: Incarnation, age_ns: int = 0) -> None:
        """Handle an agent's proof that exactly this process is gone (K2). The call that it was executing has
        been reported to ``suspects`` already: whoever takes over must know what not to run (E4)."""
        if (host, incarnation) == (self.me.host, self.me.incarnation):
            self._peers.leases.on_own_death()
            return
        self._peers.on_death(host, incarnation, age_ns)

    def _on_doubt_settled(self) -> None:
        if not any(hosted.member.is_doubtful for hosted in self.hosted.values()):
            self._store.log.clear_doubt()

    # --- hosted groups

    def member_of(self, record: GroupRecord) -> ViewMember:
        """Return the identity that this process has, or would have, in the group."""
        return self._backends.of(record).me

    def _furnish(self, record: GroupRecord) -> HostedGroup:
        """Make a member of the group with all its parts. If the class cannot be loaded, the member has no
        object (O3). Raises disk errors and, for a stateless group, errors of the class."""
        ports, (definition, why_no_class) = self._ports, self._defined(record)
        hosted = HostedGroup(
            record,
            definition,
            self._backends.of(record),
            self.tuning.config,
            style_ports=self._style_ports,
            timers=self._guard.timers,
            history=self._histories.begin(record.group, ports.trace, self.me, self.catalog.views),
            copies=self._copies(record),
            old_code=self._old_code(record) if not definition.is_stored else None,
            later=self._scheduler.later,
            on_ready=self._on_served,
            is_read=self.serving.stale_reads.is_awaited,
            for_others=partial(self.stored.for_others, record.group),
            why_no_class=why_no_class,
        )
        self.liveness_checks.on_record(record)
        return hosted

    def _defined(self, record: GroupRecord) -> tuple[Definition, str]:
        """Load the group's class. Returns its definition and "", or a placeholder and why there is none."""
        try:
            return self.stored.furnish(record, self._ports.define(record)), ""
        except DISK_ERRORS:
            raise
        except HoldfastError as error:
            if not is_useful_without_class(record):
                raise
            why = f"its class cannot be loaded: {error}"
            self._ports.journal.error("a group has no class here", group=record.group, why=why)
            self._ports.on_fault(record.group, "object_failed", why)
            return definition_without_class(record, error), why

    def _on_served(self, group: GroupId) -> None:
        """Handle that calls are taken here: tell clients, and record which code serves the group."""
        self.serving.on_served(group)
        hosted = self.hosted.get(group)
        if hosted is not None and served(hosted.record, hosted.code) is not hosted.record:
            nonce = self._ports.nonce()
            self.recipes.start(note_served(group, hosted.code, nonce=nonce), lambda _: None)
        if hosted is not None and hosted.record.upgrade is not None:
            self._wishes.on_served(hosted.record)
            self._check_upgrade(hosted)

    def _on_record(self, seen: Seen[GroupRecord]) -> None:
        self._events.on_record(seen)
        hosted = self.hosted.get(seen.value.group)
        if hosted is not None:
            self._check_upgrade(hosted)

    def _check_upgrade(self, hosted: HostedGroup) -> None:
        """Withdraw a requested upgrade whose code was on some host and is on none any more (E7)."""
        wish = hosted.record.upgrade
        if hosted.is_ready and self._wishes.is_over(hosted.record, hosted.code, self.catalog.sessions):
            recipe = withdraw_upgrade(hosted.group, nonce=self._ports.nonce(), only=wish)
            self.recipes.start(recipe, lambda _: None)

    def _on_member_ended(self, hosted: HostedGroup) -> None:
        self._wishes.forget(hosted.group)
        self.stored.close(hosted.group)
        self.liveness_checks.forget(hosted.group)
        self.serving.stale_reads.forget(hosted.group)
        self._scheduler.forget(hosted)

    def _on_damage(self, group: GroupId, why: str) -> None:
        hosted = self.hosted.get(group)
        if hosted is not None:
            hosted.lose_files(why)

    def _copies(self, record: GroupRecord) -> CopyJobs | None:
        port, kept = self.stored.of(record.group) or self._ports.copies, self._backends.of(record)
        return CopyJobs(record.group, port, kept.ports.log, kept.keeping) if port is not None else None

    def _old_code(self, record: GroupRecord) -> ReplayJobs | None:
        if self._ports.old_code is None:
            return None
        kept = self._backends.of(record)
        return ReplayJobs(record, self._ports.old_code, kept.ports.log, kept.keeping)

    def _style_ports(self, hosted: HostedGroup) -> StylePorts:
        ports, catalog = self._ports, self.catalog
        return StylePorts(
            clock=ports.clock,
            trace=hosted.history,
            stamp=self.stamps.after,
            time=self.stamps.time_ns,
            answer=self.answers.answer,
            forsake=self.answers.forsake,
            wake=lambda: self._scheduler.by(hosted.group, ports.clock.wall() + WAKE_NS),
            again=hosted.ask_turn,
            call_out=lambda outgoing: self._guard.soon(partial(self._call_out, hosted, outgoing)),
            checkpoint=lambda: hosted.backend.keeping.newest(hosted.group),
            save_checkpoint=lambda captured: hosted.backend.keeping.keep(hosted.group, captured),
            pass_on=hosted.pass_on,
            lacks_space=hosted.backend.ports.lacks_space,
            has_files=partial(self.stored.offers, hosted.group),
            void_checkpoints=partial(hosted.backend.keeping.void, hosted.group),
            fault=partial(ports.on_fault, hosted.group),
            copies=hosted.copies,
            attempts=self.suspects.of(hosted.group),
            lines=self._lines,
            onlooker=ports.onlooker(hosted.record.name),
            old_code=hosted.old_code,
            slow=ports.slow and ports.slow(hosted.record.name),
            why_not_upgrade=lambda by: why_not_upgrade(hosted.record, by, hosted.code, catalog.sessions),
            may_replay=lambda made_by: may_replay(hosted.record, hosted.code),
        )

    def _call_out(self, hosted: HostedGroup, outgoing: Outgoing) -> None:
        """Send a call that a method makes to another group, in this domain or in another."""
        if not self._other_domains.call(hosted, outgoing):
            if not outgoing.send:  # nobody waits for sent calls
                self._deadlocks.watch(hosted, outgoing)
            self.outbound_calls.call(hosted, outgoing)
