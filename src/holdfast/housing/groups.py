"""The groups of one host: a member for each that is placed here, on the host's log, leases and links.

Built once the host has its session and its store. Each event runs to its end; what came in together is sent
and synced together (S5).
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

import msgspec

from holdfast.authority.contract import WatchEvent
from holdfast.authority.groups import DISK, RESTART, GroupRecord, store_in_stay
from holdfast.authority.identity import Identity
from holdfast.authority.outcome import Seen
from holdfast.authority.recipe import Recipes
from holdfast.authority.sessions import Session
from holdfast.authority.views import View, ViewMember
from holdfast.housing.chronicle import Chronicle, Histories
from holdfast.housing.copying import GroupCopies
from holdfast.housing.directory import GroupDirectory
from holdfast.housing.freshness import Freshness
from holdfast.housing.ground import Ground
from holdfast.housing.housed import Housed
from holdfast.housing.keeping import Keeping
from holdfast.housing.leaving import Leaving
from holdfast.housing.memory import memory_ground, with_checkpoints
from holdfast.housing.nesting import Nesting
from holdfast.housing.ports import EndingTimers, HouseConfig, HousePorts, OpenStore
from holdfast.housing.restarting import Restarting
from holdfast.housing.serving import Answers, Serving
from holdfast.housing.stamps import Stamps
from holdfast.housing.suspects import Suspects
from holdfast.housing.timekeeping import Timekeeping
from holdfast.housing.turns import Turns
from holdfast.model.errors import DISK_ERRORS, HoldfastError
from holdfast.model.ids import ClientId, Epoch, GroupId, HostId, Incarnation, Revision
from holdfast.model.units import MILLISECOND
from holdfast.sequence.claims import Claims
from holdfast.sequence.durability import Durability
from holdfast.sequence.leases import Leases
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
from holdfast.sequence.role import Role
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
        self.housed: dict[GroupId, Housed] = {}
        self.stamps = stamps
        self._store = store
        self._house = ports
        self._config = config
        self._deaths: dict[HostId, Incarnation] = {}
        self._gone: dict[GroupId, None] = {}
        """Groups that were removed, and whose members have not ended yet."""
        self._ended: dict[GroupId, None] = {}
        """Groups of which a member has ended here, in this process, that still exist."""
        self.suspects = Suspects(ports.slot, ports.clock)
        self.recipes = Recipes(ports.authority)
        ports.authority.on_authority = self.guarded(self.recipes.on_authority)
        durability = Durability(lambda: store.log.durable)
        store.on_durable = self.guarded(durability.on_durable)
        self._keeping = Keeping(store.checkpoints, store.log, durability, ports.journal)
        self._histories = Histories(self.recipes, ports.clock, self._timers, ports.nonce)
        self._leaving = Leaving(host, self.recipes, self._timers, ports.nonce, self.guarded(self._forget))
        self.directory = GroupDirectory(
            self._watch,
            self.recipes,
            self._timers,
            on_record=self._on_record,
            on_gone=self._on_gone,
            on_view=self._on_view,
        )
        self.answers = Answers(stamps)
        self.nesting = Nesting(
            ClientId(f"{host}:{incarnation}"),
            self.directory,
            stamps,
            self.recipes,
            ports,
            self._timers,
            config.calling,
        )
        freshness = Freshness(self.housed, ports.clock, self._timers, ports.network)
        self._turns = Turns(
            self.housed,
            ports.clock,
            self._timers,
            ports.soon,
            self.guarded,
            flush=self._flush,
            after=freshness.on_turn,
        )
        self.serving = Serving(
            self.housed, self.directory, self.answers, stamps, self.recipes, freshness, ports.clock
        )
        clocks = PeerClocks(stamps.clock)
        self._timekeeping = Timekeeping(clocks, self.housed, self._timers, ports.journal)
        self._leases = Leases(
            incarnation=incarnation,
            clock=ports.clock,
            timers=self._timers,
            network=ports.network,
            trace=ports.trace,
            config=config.leases,
            on_lapsed=self._on_lapsed,
            is_in=self._is_in,
            on_confirmed=self._on_confirmed,
            clocks=clocks,
        )
        on_disk = HostPorts(
            clock=ports.clock,
            timers=self._timers,
            network=ports.network,
            random=ports.random,
            trace=ports.trace,
            recipes=self.recipes,
            claims=Claims(self.recipes, self._timers, lambda: identity, ports.trace),
            leases=self._leases,
            log=store.log,
            durability=durability,
            checkpoints=self._keeping,
            flush=self._turns.ask_flush,
            identity=lambda: identity,
            nonce=ports.nonce,
            on_doubt_settled=self._on_doubt_settled,
            on_superseded=self._on_superseded,
            on_lost=lambda group: self._restarting.on_lost(group),
            on_halted=self._on_halted,
        )
        self._disk = Ground(self.me, on_disk, self._keeping, lambda: store.log.is_doubtful)
        self._memory, self._memory_log = memory_ground(self._disk, self._soon)
        self._kept_memory = with_checkpoints(self._memory, self._memory_log, store.checkpoints, ports.journal)
        # Made once: these run at every message and every turn.
        self._on_group_message = self.guarded(self._pass_on)
        self._on_host_message = self.guarded(self._leases.on_message)
        self._on_fresh_message = self.guarded(freshness.on_message)
        self.recovery = Recovery(
            host,
            clock=ports.clock,
            timers=self._timers,
            network=ports.network,
            recipes=self.recipes,
            identity=lambda: identity,
            nonce=ports.nonce,
            own=self._held,
        )
        self._restarting = Restarting(
            self.recovery, self._timers, self.directory.seen_records, self._is_lost, ports.on_fault
        )
        self._leases.start(each for each in hosts if each != host)

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

    def kept(self, record: GroupRecord) -> Kept | None:
        """The newest checkpoint of a group that is kept here. Raises ``Corruption``."""
        return self._ground(record).keeping.newest(record.group)

    def ask_hand_over(self, group: GroupId, to: HostId) -> None:
        """Ask whoever is primary, as far as is known here, to let *to* take over; once, and nothing may come
        of it."""
        seen = self.directory.views.get(group)
        if seen is not None:
            wanted = Yield(group, seen.value.epoch, to)
            if seen.value.primary == self.me.host:
                self._on_group_message(self.me.host, wanted)
            else:
                self._house.network.send(seen.value.primary, wanted)

    # --- events from outside

    def on_hosts(self, sessions: Mapping[HostId, Session]) -> None:
        """These hosts of the domain are in session now."""
        self.directory.sessions = sessions
        self.serving.on_hosts(sessions.values())
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

    def _is_lost(self, group: GroupId) -> bool:
        housed = self.housed.get(group)
        return housed is not None and housed.member.is_lost

    def on_death(self, host: HostId, incarnation: Incarnation) -> None:
        """An agent has proof that exactly this process is gone (K2). What it was executing was told to
        ``suspects`` before: who takes over must know what not to run (E4)."""
        self._deaths[host] = max(incarnation, self._deaths.get(host, incarnation))
        for housed in self.housed.values():
            housed.chronicle.on_ground(housed.view, host)
            self.guarded(housed.member.on_death)(host, incarnation)

    def _on_record(self, seen: Seen[GroupRecord]) -> None:
        record = seen.value
        self._leaving.on_record(record)
        housed = self.housed.get(record.group)
        if housed is not None:
            self.guarded(housed.member.on_record)(seen)
        elif record.placement(self.me.host) is not None and not self._leaving.is_forgetting(record.group):
            self.guarded(self._take_in)(seen)

    def _on_gone(self, group: GroupId, is_removed: bool) -> None:
        """Its state here goes only on the authority's word: one that was put back to an older state does not
        know the youngest groups, and what they hold must outlive that (A5)."""
        self.nesting.on_gone(group)
        self._leaving.on_gone(group)
        housed = self.housed.get(group)
        if housed is None:
            return
        self._house.journal.info("a group is gone", group=group, is_removed=is_removed)
        if is_removed:
            self._gone[group] = None
        if housed.member.role is Role.HALTED:
            self._soon(partial(self._give_up, group))
        else:
            housed.member.start()  # it finds that there is no such group any more, and halts

    def _on_view(self, seen: Seen[View]) -> None:
        reference = self.directory.reference(seen.value.group)
        if reference is not None:
            self.nesting.on_reference(reference)
        self._leaving.on_view(seen.value.group)
        housed = self.housed.get(seen.value.group)
        if housed is None:
            return
        housed.chronicle.on_view(seen.value)
        if housed.member.role is Role.WAITING:
            self.guarded(self._start)(housed)
        else:
            self.guarded(housed.member.on_view)(seen)
        if housed.is_ready:
            self.serving.on_served(housed.group)

    def _on_lapsed(self, host: HostId) -> None:
        for housed in list(self.housed.values()):
            housed.chronicle.on_ground(housed.view, host)
            housed.member.on_silence(host)

    def _is_in(self, group: GroupId, epoch: Epoch, asked_by: HostId) -> bool:
        housed = self.housed.get(group)
        return housed is not None and housed.member.is_backup_in(epoch, asked_by)

    def _on_confirmed(
        self, host: HostId, incarnation: Incarnation, group: GroupId, epoch: Epoch, beat: int
    ) -> None:
        housed = self.housed.get(group)
        if housed is not None:
            housed.member.on_confirmed(host, incarnation, epoch, beat)
            housed.ask_turn()

    def _on_doubt_settled(self) -> None:
        if not any(housed.member.is_doubtful for housed in self.housed.values()):
            self._store.log.clear_doubt()

    def _on_halted(self, group: GroupId, why: str) -> None:
        if group in self._gone:
            # Not within the member's own event: what it holds of the log must be there until its end.
            self._soon(partial(self._give_up, group))
        else:
            self._house.on_halted(group, why)

    def _on_superseded(self, group: GroupId) -> None:
        """Its state here is of a history that was given up: another member takes its place, with nothing."""
        self._house.journal.error("a member begins anew after a forced recovery", group=group)
        self._soon(partial(self._begin_anew, group))

    # --- housing

    def member_of(self, record: GroupRecord) -> ViewMember:
        """Who this process is, or would be, in that group."""
        me, entry = self._ground(record).me, record.placement(self.me.host)
        number = entry.number if entry is not None else 0
        return msgspec.structs.replace(me, store=store_in_stay(me.store, number)) if number else me

    def _ground(self, record: GroupRecord) -> Ground:
        if record.durability == DISK:
            return self._disk
        return self._kept_memory if record.on_total_loss == RESTART else self._memory

    def _take_in(self, seen: Seen[GroupRecord]) -> None:
        record = seen.value
        ground = replace(self._ground(record), me=self.member_of(record))
        try:
            housed = Housed(
                record,
                self._house.define(record),
                ground,
                self._config,
                style_ports=self._style_ports,
                timers=self._timers,
                chronicle=self._chronicle(record.group),
                copies=self._copies(record.group) if record.durability == DISK else None,
                later=self._turns.later,
                on_ready=self.serving.on_served,
                is_read=self.serving.freshness.is_awaited,
            )
        except DISK_ERRORS:
            raise
        except HoldfastError as error:
            self._house.journal.error(
                "a group cannot be housed", group=record.group, name=record.name, why=str(error)
            )
            return
        self.housed[record.group] = housed
        for host, incarnation in self._deaths.items():
            housed.member.on_death(host, incarnation)
        housed.member.on_record(seen)
        self._start(housed)
        self._house.journal.info(
            "a group is housed", group=record.group, name=record.name, style=record.style
        )

    def _start(self, housed: Housed) -> None:
        """Let it begin from the view that was listed or watched, as soon as there is one: it comes with the
        record. One that takes another's place asks: what is known here may be older than what ended that."""
        seen = self.directory.views.get(housed.group)
        if housed.group in self._ended:
            housed.member.start()
        elif seen is not None:
            housed.member.start(seen)

    def _chronicle(self, group: GroupId) -> Chronicle:
        ports = self._house
        chronicle = Chronicle(ports.trace, ports.clock, lambda: self._histories.tell(group, chronicle))
        seen = self.directory.views.get(group)
        if seen is not None:
            chronicle.on_view(seen.value)
        return chronicle

    def _give_up(self, group: GroupId) -> None:
        housed = self.housed.pop(group, None)
        if housed is None:
            return
        housed.close()
        self.serving.freshness.forget(group)
        self._turns.forget(housed)
        self._ended[group] = None
        if group in self._gone:
            del self._gone[group], self._ended[group]
            self.suspects.forget(group)
            housed.ground.keeping.forget(group)

    def _copies(self, group: GroupId) -> GroupCopies | None:
        if self._house.copies is None:
            return None
        store = self._store
        return GroupCopies(group, self._house.copies, store.checkpoints, store.log, self._keeping)

    def _begin_anew(self, group: GroupId) -> None:
        if group in self._gone:
            return  # it was removed altogether meanwhile
        housed = self.housed.get(group)
        self._give_up(group)
        if housed is not None:
            housed.ground.keeping.begin_anew(group, partial(self._take_in_again, group))

    def _take_in_again(self, group: GroupId) -> None:
        seen = self.directory.seen_records.get(group)
        if seen is not None:
            self._on_record(seen)

    def _forget(self, record: GroupRecord, then: Callable[[], None]) -> None:
        """The group leaves this host: its member ends, and what it held is forgotten (M6)."""
        self._house.journal.info("a group leaves", group=record.group, name=record.name)
        housed = self.housed.get(record.group)
        if housed is not None:
            housed.member.leave()
        self._give_up(record.group)
        self.suspects.forget(record.group)
        self._ground(record).keeping.begin_anew(record.group, then)

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
            call_out=lambda outgoing: self._soon(partial(self.nesting.call, housed, outgoing)),
            checkpoint=lambda: housed.ground.keeping.newest(housed.group),
            save_checkpoint=lambda captured: housed.ground.keeping.keep(housed.group, captured),
            pass_on=housed.pass_on,
            fault=partial(ports.on_fault, housed.group),
            copies=housed.copies,
            attempts=self.suspects.of(housed.group),
        )

    # --- the host

    def _flush(self) -> None:
        self._store.log.flush()
        self._memory_log.flush()

    def _watch(self, prefix: str, revision: Revision, then: Callable[[WatchEvent], None]) -> None:
        self._house.authority.watch(prefix, revision, self.guarded(then))

    def _timers(self, on_timer: Callable[[Hashable], None]) -> EndingTimers:
        return self._house.timers(self.guarded(on_timer))

    def _soon(self, work: Callable[[], None]) -> None:
        self._house.soon(self.guarded(work))

    def guarded(self, work: Callable[..., None]) -> Callable[..., None]:
        """*work*, of which a failing disk ends the host (D1)."""

        def guarded(*arguments: object) -> None:
            try:
                work(*arguments)
            except DISK_ERRORS as error:
                self._store.fail(error)

        return guarded
