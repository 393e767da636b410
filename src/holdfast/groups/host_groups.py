"""The groups of one host: a member for each that is placed here, on the host's log, leases and links.

Built once the host has its session and its store. Each event runs to its end; what came in together is sent
and synced together (S5).
"""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

from holdfast.authority.group_code import note_served, served, withdraw_upgrade
from holdfast.authority.groups import DISK, GroupRecord
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
from holdfast.groups.group_history import GroupHistory, Histories
from holdfast.groups.hosted_group import HostedGroup, has_vacancy, vacant
from holdfast.groups.lifecycle import MemberLifecycle, MemoryRestarts
from holdfast.groups.liveness_checks import LivenessChecks
from holdfast.groups.other_hosts import OtherHosts
from holdfast.groups.outbound_domains import OutboundDomains
from holdfast.groups.outbound_groups import OutboundCalls
from holdfast.groups.ports import DiskGuard, GroupsConfig, GroupsPorts, OpenStore
from holdfast.groups.scheduler import Scheduler
from holdfast.groups.stale_reads import StaleReads
from holdfast.groups.stamps import Stamps, TimeCheck
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
    HostMessage,
    HowFar,
    Inspect,
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
"""The moment after which a style that asks to be woken is."""


class HostGroups:
    """The groups of one process of one host. *hosts* are those of the domain."""

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
        """Who this process is in groups on disk; see :meth:`member_of`."""
        self.domain = ports.domain
        self.housed: dict[GroupId, HostedGroup] = {}
        self._wishes = Wishes()
        self.stamps = stamps
        self._store = store
        self._house = ports
        self._config = config
        self._guard = guard = DiskGuard(store, ports)
        self.guarded = guard.guarded
        """Around what comes from outside: a failing disk ends the host (D1)."""
        self.suspects = CrashSuspects(ports.slot, ports.clock)
        self.recipes = Recipes(ports.authority)
        ports.authority.on_authority = self.guarded(self.recipes.on_authority)
        durability = Durability(lambda: store.log.durable)
        store.on_durable = self.guarded(durability.on_durable)
        self._keeping = CheckpointKeeper(store.checkpoints, store.log, durability, ports.journal)
        self._histories = Histories(self.recipes, ports.clock, guard.timers, ports.nonce)
        self.directory = GroupCatalog(
            guard.watch,
            self.recipes,
            guard.timers,
            on_record=self._on_record,
            on_gone=lambda group, is_removed: self._notices.on_gone(group, is_removed),
            on_view=lambda seen: self._notices.on_view(seen),
            on_listed=lambda: self._notices.on_listed(),
        )
        self.answers = Answers(stamps)
        self._lines = CallLog(ports.journal.info, ports.clock)
        self.nesting = OutboundCalls(
            ClientId(f"{host}:{incarnation}"),
            self.directory,
            stamps,
            self.recipes,
            ports,
            guard.timers,
            config.calling,
            self._lines,
        )
        self._abroad = OutboundDomains(
            ClientId(f"{host}:{incarnation}@{ports.domain}"),
            stamps,
            ports,
            guard.timers,
            config.calling,
            self._lines,
        )
        self._circling = DeadlockProbes(host, self.housed, self.directory, ports, guard)
        freshness = StaleReads(self.housed, ports.clock, guard.timers, ports.network)
        self._turns = Scheduler(
            self.housed,
            ports.clock,
            guard.timers,
            ports.soon,
            self.guarded,
            flush=lambda: self._grounds.flush(),
            after=freshness.on_turn,
        )
        self.serving = CallRouter(
            self.housed,
            self.directory,
            self.answers,
            stamps,
            self.recipes,
            freshness,
            ports.clock,
            self._lines,
        )
        clocks = PeerClocks(stamps.clock)
        self.checkups = LivenessChecks(
            self.housed, ports.clock, guard.timers, ports.trace, ports.journal, ports.on_finding
        )
        self._timekeeping = TimeCheck(clocks, self.housed, guard.timers, ports.journal, ports.on_skew)
        self._peers = OtherHosts(incarnation, self.housed, clocks, ports, config.leases, guard)
        on_disk = HostPorts(
            clock=ports.clock,
            timers=guard.timers,
            network=ports.network,
            random=ports.random,
            trace=ports.trace,
            recipes=self.recipes,
            claims=ClaimBatches(self.recipes, guard.timers, lambda: identity, ports.trace),
            leases=self._peers.leases,
            turnstiles=CatchupLimiter(ports.clock, guard.timers, asking_max=config.asking_max),
            log=store.log,
            durability=durability,
            checkpoints=self._keeping,
            flush=self._turns.ask_flush,
            identity=lambda: identity,
            nonce=ports.nonce,
            on_doubt_settled=self._on_doubt_settled,
            on_superseded=lambda group: self._lodging.on_superseded(group),
            on_lost=lambda group: self._restarting.on_lost(group),
            on_halted=lambda group, why: self._lodging.on_halted(group, why),
        )
        disk = Backend(self.me, on_disk, self._keeping, lambda: store.log.is_doubtful)
        self._grounds = Backends(disk, store, ports.journal, guard.soon)
        self._lodging = MemberLifecycle(
            self.housed,
            self.directory,
            self._grounds,
            self.suspects,
            ports.journal,
            guard.soon,
            furnish=self._furnish,
            on_given_up=self._on_given_up,
            on_halted=ports.on_halted,
            on_record=self._on_record,
        )
        self._notices = AuthorityEvents(
            host,
            self.housed,
            self.directory,
            self._lodging,
            self.checkups,
            self.serving,
            self.nesting,
            self.recipes,
            ports,
            guard,
        )
        # Made once: these run at every message and every turn.
        self._on_group_message = self.guarded(self._pass_on)
        self._on_host_message = self.guarded(self._peers.leases.on_message)
        self._on_fresh_message = self.guarded(freshness.on_message)
        self._on_circle_message = self.guarded(self._circling.on_message)
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
        self._restarting = MemoryRestarts(
            self.recovery, guard.timers, self.directory.seen_records, self._lost_in, ports.on_fault
        )
        self._peers.leases.start(each for each in hosts if each != host)

    def start(self) -> None:
        """Follow the authority, and house what is placed here, as long as the process lives."""
        self.directory.start()

    def close(self) -> None:
        """Nothing happens here any more."""
        for housed in self.housed.values():
            housed.close()
        self._histories.close()
        self._timekeeping.close()
        self._turns.close()
        self.nesting.close()
        self._abroad.close()
        self._circling.close()

    def kept(self, record: GroupRecord) -> Kept | None:
        """The newest checkpoint of a group that is kept here. Raises ``Corruption``."""
        return self._grounds.of(record).keeping.newest(record.group)

    def ask_hand_over(self, group: GroupId, to: HostId, *, as_of: Epoch | None = None) -> None:
        """Ask whoever is primary, as far as is known here, to let *to* take over; once, and nothing may come
        of it. *as_of*: only the primary of that epoch."""
        seen = self.directory.views.get(group)
        if seen is not None and as_of in (None, seen.value.epoch):
            wanted = Yield(group, seen.value.epoch, to)
            if seen.value.primary == self.me.host:
                self._on_group_message(self.me.host, wanted)
            else:
                self._house.network.send(seen.value.primary, wanted)

    # --- events from outside

    def on_hosts(self, sessions: Mapping[HostId, Session]) -> None:
        """These hosts of the domain are in session now."""
        self.directory.sessions = sessions
        self._peers.leases.meet(host for host in sessions if host != self.me.host)
        self.serving.on_hosts(sessions.values())
        for housed in self.housed.values():
            housed.reconsider()
            self._look_at_wish(housed)
        self.nesting.on_hosts()

    def on_sequence(self, peer: HostId, message: GroupMessage | HostMessage) -> None:
        """A message from another host."""
        match message:
            case Accepted() | Submit():  # nearly all
                self._on_group_message(peer, message)
            case Beat() | BeatAnswer() | Confirm() | Confirmed():
                self._on_host_message(peer, message)
            case HowFar() | ThisFar():
                self._on_fresh_message(peer, message)
            case Probe() | GiveWay():
                self._on_circle_message(peer, message)
            case Held():
                self.recovery.on_held(peer, message)
            case Died():
                return  # deaths are told by agents, which have proof of them (K2)
            case _:
                self._on_group_message(peer, message)

    def _pass_on(self, peer: HostId, message: GroupMessage) -> None:
        housed = self.housed.get(message.group)
        if housed is not None:
            housed.member.on_message(peer, message)

    def _held(self, asked: Inspect) -> Held | None:
        housed = self.housed.get(asked.group)
        return housed.member.held(asked.number) if housed is not None else None

    def _lost_in(self, group: GroupId) -> Epoch | None:
        housed = self.housed.get(group)
        return housed.member.standing.epoch if housed is not None and housed.member.is_lost else None

    def on_death(self, host: HostId, incarnation: Incarnation) -> None:
        """An agent has proof that exactly this process is gone (K2). What it was executing was told to
        ``suspects`` before: who takes over must know what not to run (E4)."""
        self._lodging.on_death(host, incarnation)
        self._peers.on_death(host, incarnation)

    def _on_doubt_settled(self) -> None:
        if not any(housed.member.is_doubtful for housed in self.housed.values()):
            self._store.log.clear_doubt()

    # --- housing

    def member_of(self, record: GroupRecord) -> ViewMember:
        """Who this process is, or would be, in that group."""
        return self._grounds.of(record).me

    def _furnish(self, record: GroupRecord) -> HostedGroup:
        """A member of that group with all it needs; without its object, where there is no class to make it of
        (O3). Raises what the disk gives cause for, and of a stateless group what the class does."""
        definition, vacant_for = self._defined(record)
        housed = HostedGroup(
            record,
            definition,
            self._grounds.of(record),
            self._config,
            style_ports=self._style_ports,
            timers=self._guard.timers,
            chronicle=self._chronicle(record.group),
            copies=self._copies(record.group) if record.durability == DISK else None,
            old_code=self._old_code(record),
            later=self._turns.later,
            on_ready=self._on_served,
            is_read=self.serving.freshness.is_awaited,
            vacant_for=vacant_for,
        )
        self.checkups.on_record(record)
        return housed

    def _defined(self, record: GroupRecord) -> tuple[Definition, str]:
        """The class of that group, or why there is none here."""
        try:
            return self._house.define(record), ""
        except DISK_ERRORS:
            raise
        except HoldfastError as error:
            if not has_vacancy(record):
                raise
            why = f"its class cannot be loaded: {error}"
            self._house.journal.error("a group has no class here", group=record.group, why=why)
            self._house.on_fault(record.group, "object_failed", why)
            return vacant(record, error), why

    def _on_served(self, group: GroupId) -> None:
        """Calls are taken here: clients may come, and whoever wished for this code has it."""
        self.serving.on_served(group)
        housed = self.housed.get(group)
        if housed is not None and served(housed.record, housed.code) is not housed.record:
            nonce = self._house.nonce()
            self.recipes.start(note_served(group, housed.code, nonce=nonce), lambda _: None)
        if housed is not None and housed.record.upgrade is not None:
            self._wishes.on_served(housed.record)
            self._look_at_wish(housed)

    def _on_record(self, seen: Seen[GroupRecord]) -> None:
        self._notices.on_record(seen)
        housed = self.housed.get(seen.value.group)
        if housed is not None:
            self._look_at_wish(housed)

    def _look_at_wish(self, housed: HostedGroup) -> None:
        """Nobody wishes other code any more that was there and is not (E7)."""
        wish = housed.record.upgrade
        if wish is None or not housed.is_ready:
            return
        if self._wishes.is_over(housed.record, housed.code, self.directory.sessions):
            recipe = withdraw_upgrade(housed.group, nonce=self._house.nonce(), only=wish)
            self.recipes.start(recipe, lambda _: None)

    def _on_given_up(self, housed: HostedGroup) -> None:
        self._wishes.forget(housed.group)
        self.checkups.forget(housed.group)
        self.serving.freshness.forget(housed.group)
        self._turns.forget(housed)

    def _chronicle(self, group: GroupId) -> GroupHistory:
        ports = self._house
        chronicle = GroupHistory(
            ports.trace, ports.clock, lambda: self._histories.tell(group, chronicle), self.me
        )
        seen = self.directory.views.get(group)
        if seen is not None:
            chronicle.on_view(seen.value)
        return chronicle

    def _copies(self, group: GroupId) -> CopyJobs | None:
        if self._house.copies is None:
            return None
        store = self._store
        return CopyJobs(group, self._house.copies, store.checkpoints, store.log, self._keeping)

    def _old_code(self, record: GroupRecord) -> ReplayJobs | None:
        if self._house.old_code is None:
            return None
        ground = self._grounds.of(record)
        return ReplayJobs(
            record, self._house.old_code, self._store.checkpoints, ground.ports.log, ground.keeping
        )

    def _style_ports(self, housed: HostedGroup) -> StylePorts:
        ports = self._house
        return StylePorts(
            clock=ports.clock,
            trace=housed.chronicle,
            stamp=self.stamps.after,
            time=self.stamps.time_ns,
            answer=self.answers.answer,
            forsake=self.answers.forsake,
            wake=lambda: self._turns.by(housed.group, ports.clock.wall() + WAKE_NS),
            again=housed.ask_turn,
            call_out=lambda outgoing: self._guard.soon(partial(self._call_out, housed, outgoing)),
            checkpoint=lambda: housed.ground.keeping.newest(housed.group),
            save_checkpoint=lambda captured: housed.ground.keeping.keep(housed.group, captured),
            pass_on=housed.pass_on,
            void_checkpoints=partial(housed.ground.keeping.void, housed.group),
            fault=partial(ports.on_fault, housed.group),
            copies=housed.copies,
            attempts=self.suspects.of(housed.group),
            lines=self._lines,
            onlooker=ports.onlooker(housed.record.name),
            old_code=housed.old_code,
            why_not_upgrade=lambda made_by: why_not_upgrade(
                housed.record, made_by, housed.code, self.directory.sessions
            ),
            may_replay=lambda made_by: may_replay(housed.record, housed.code),
        )

    def _call_out(self, housed: HostedGroup, outgoing: Outgoing) -> None:
        """A method calls another group, of this domain or another."""
        if not self._abroad.call(housed, outgoing):
            if not outgoing.send:  # nobody waits for those
                self._circling.watch(housed, outgoing)
            self.nesting.call(housed, outgoing)
