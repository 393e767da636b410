"""The groups of one host: a member for each that is placed here, on the host's log, leases and links.

Built once the host has its session and its store. Each event runs to its end; what came in together is sent
and synced together (S5).
"""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

from holdfast.authority.groups import DISK, GroupRecord
from holdfast.authority.identity import Identity
from holdfast.authority.outcome import Seen
from holdfast.authority.recipe import Recipes
from holdfast.authority.sessions import Session
from holdfast.authority.upgrading import note_served, served, withdraw_upgrade
from holdfast.authority.views import ViewMember
from holdfast.housing.abroad import Abroad
from holdfast.housing.checkups import Checkups
from holdfast.housing.chronicle import Chronicle, Histories
from holdfast.housing.circling import Circling
from holdfast.housing.copying import GroupCopies
from holdfast.housing.directory import GroupDirectory
from holdfast.housing.freshness import Freshness
from holdfast.housing.ground import Ground
from holdfast.housing.grounds import Grounds
from holdfast.housing.guard import Guard
from holdfast.housing.housed import Housed
from holdfast.housing.keeping import Keeping
from holdfast.housing.lodging import Lodging
from holdfast.housing.nesting import Nesting
from holdfast.housing.notices import Notices
from holdfast.housing.old_code import GroupOldCode
from holdfast.housing.peers import Peers
from holdfast.housing.ports import HouseConfig, HousePorts, OpenStore
from holdfast.housing.restarting import Restarting
from holdfast.housing.serving import Answers, Serving
from holdfast.housing.stamps import Stamps
from holdfast.housing.suspects import Suspects
from holdfast.housing.timekeeping import Timekeeping
from holdfast.housing.turns import Turns
from holdfast.housing.upgrading import Wishes, may_replay, why_not_upgrade
from holdfast.housing.vacancy import has_vacancy, vacant
from holdfast.model.circles import GiveWay, Probe
from holdfast.model.errors import DISK_ERRORS, HoldfastError
from holdfast.model.ids import ClientId, Epoch, GroupId, HostId, Incarnation
from holdfast.model.units import MILLISECOND
from holdfast.sequence.claims import Claims
from holdfast.sequence.durability import Durability
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
from holdfast.sequence.ports import HostPorts, Kept
from holdfast.sequence.recovery import Recovery
from holdfast.sequence.turnstiles import Turnstiles
from holdfast.styles.definition import Definition
from holdfast.styles.effects import Outgoing
from holdfast.styles.lines import CallLines
from holdfast.styles.ports import StylePorts

WAKE_NS: Final = 1 * MILLISECOND
"""The moment after which a style that asks to be woken is."""


class Groups:
    """The groups of one process of one host. *hosts* are those of the domain."""

    def __init__(
        self,
        host: HostId,
        incarnation: Incarnation,
        store: OpenStore,
        stamps: Stamps,
        identity: Seen[Identity],
        hosts: Iterable[HostId],
        ports: HousePorts,
        config: HouseConfig,
    ) -> None:
        self.me = ViewMember(host=host, store=store.id, incarnation=incarnation, opening=store.opening)
        """Who this process is in groups on disk; see :meth:`member_of`."""
        self.domain = ports.domain
        self.housed: dict[GroupId, Housed] = {}
        self._wishes = Wishes()
        self.stamps = stamps
        self._store = store
        self._house = ports
        self._config = config
        self._guard = guard = Guard(store, ports)
        self.guarded = guard.guarded
        """Around what comes from outside: a failing disk ends the host (D1)."""
        self.suspects = Suspects(ports.slot, ports.clock)
        self.recipes = Recipes(ports.authority)
        ports.authority.on_authority = self.guarded(self.recipes.on_authority)
        durability = Durability(lambda: store.log.durable)
        store.on_durable = self.guarded(durability.on_durable)
        self._keeping = Keeping(store.checkpoints, store.log, durability, ports.journal)
        self._histories = Histories(self.recipes, ports.clock, guard.timers, ports.nonce)
        self.directory = GroupDirectory(
            guard.watch,
            self.recipes,
            guard.timers,
            on_record=self._on_record,
            on_gone=lambda group, is_removed: self._notices.on_gone(group, is_removed),
            on_view=lambda seen: self._notices.on_view(seen),
            on_listed=lambda: self._notices.on_listed(),
        )
        self.answers = Answers(stamps)
        self._lines = CallLines(ports.journal.info, ports.clock)
        self.nesting = Nesting(
            ClientId(f"{host}:{incarnation}"),
            self.directory,
            stamps,
            self.recipes,
            ports,
            guard.timers,
            config.calling,
            self._lines,
        )
        self._abroad = Abroad(
            ClientId(f"{host}:{incarnation}@{ports.domain}"),
            stamps,
            ports,
            guard.timers,
            config.calling,
            self._lines,
        )
        self._circling = Circling(host, self.housed, self.directory, ports, guard)
        freshness = Freshness(self.housed, ports.clock, guard.timers, ports.network)
        self._turns = Turns(
            self.housed,
            ports.clock,
            guard.timers,
            ports.soon,
            self.guarded,
            flush=lambda: self._grounds.flush(),
            after=freshness.on_turn,
        )
        self.serving = Serving(
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
        self.checkups = Checkups(
            self.housed, ports.clock, guard.timers, ports.trace, ports.journal, ports.on_finding
        )
        self._timekeeping = Timekeeping(clocks, self.housed, guard.timers, ports.journal, ports.on_skew)
        self._peers = Peers(incarnation, self.housed, clocks, ports, config.leases, guard)
        on_disk = HostPorts(
            clock=ports.clock,
            timers=guard.timers,
            network=ports.network,
            random=ports.random,
            trace=ports.trace,
            recipes=self.recipes,
            claims=Claims(self.recipes, guard.timers, lambda: identity, ports.trace),
            leases=self._peers.leases,
            turnstiles=Turnstiles(ports.clock, guard.timers, asking_max=config.asking_max),
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
        disk = Ground(self.me, on_disk, self._keeping, lambda: store.log.is_doubtful)
        self._grounds = Grounds(disk, store, ports.journal, guard.soon)
        self._lodging = Lodging(
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
        self._notices = Notices(
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
        self._restarting = Restarting(
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

    def _furnish(self, record: GroupRecord) -> Housed:
        """A member of that group with all it needs; without its object, where there is no class to make it of
        (O3). Raises what the disk gives cause for, and of a stateless group what the class does."""
        definition, vacant_for = self._defined(record)
        housed = Housed(
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

    def _look_at_wish(self, housed: Housed) -> None:
        """Nobody wishes other code any more that was there and is not (E7)."""
        wish = housed.record.upgrade
        if wish is None or not housed.is_ready:
            return
        if self._wishes.is_over(housed.record, housed.code, self.directory.sessions):
            recipe = withdraw_upgrade(housed.group, nonce=self._house.nonce(), only=wish)
            self.recipes.start(recipe, lambda _: None)

    def _on_given_up(self, housed: Housed) -> None:
        self._wishes.forget(housed.group)
        self.checkups.forget(housed.group)
        self.serving.freshness.forget(housed.group)
        self._turns.forget(housed)

    def _chronicle(self, group: GroupId) -> Chronicle:
        ports = self._house
        chronicle = Chronicle(
            ports.trace, ports.clock, lambda: self._histories.tell(group, chronicle), self.me
        )
        seen = self.directory.views.get(group)
        if seen is not None:
            chronicle.on_view(seen.value)
        return chronicle

    def _copies(self, group: GroupId) -> GroupCopies | None:
        if self._house.copies is None:
            return None
        store = self._store
        return GroupCopies(group, self._house.copies, store.checkpoints, store.log, self._keeping)

    def _old_code(self, record: GroupRecord) -> GroupOldCode | None:
        if self._house.old_code is None:
            return None
        ground = self._grounds.of(record)
        return GroupOldCode(
            record, self._house.old_code, self._store.checkpoints, ground.ports.log, ground.keeping
        )

    def _style_ports(self, housed: Housed) -> StylePorts:
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

    def _call_out(self, housed: Housed, outgoing: Outgoing) -> None:
        """A method calls another group, of this domain or another."""
        if not self._abroad.call(housed, outgoing):
            if not outgoing.send:  # nobody waits for those
                self._circling.watch(housed, outgoing)
            self.nesting.call(housed, outgoing)
