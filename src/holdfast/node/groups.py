"""The groups of one host: a member for each that is placed here, on the host's log, leases and links.

Built once the host has its session and its store. Everything happens in the loop's thread, each event to its
end; what came in together is sent and synced together (S5).
"""

import asyncio
import secrets
from collections.abc import Callable, Coroutine, Hashable, Iterable
from typing import Final

import structlog

from holdfast.authority.groups import GroupRecord
from holdfast.authority.identity import Identity, ensure_identity
from holdfast.authority.outcome import Seen
from holdfast.authority.recipe import Authority, Recipes, perform
from holdfast.authority.replicas import ReplicaRecord, ensure_replica
from holdfast.authority.sessions import Session
from holdfast.authority.views import View, ViewMember
from holdfast.machine import LogTrace, LoopTimers, MachineClock, MachineRandom
from holdfast.model.errors import Corruption, DiskFailed, HoldfastError, NoSpace
from holdfast.model.ids import Epoch, GroupId, HostId, Incarnation, Nonce
from holdfast.model.units import MILLISECOND, SECOND
from holdfast.node.classes import definition_of
from holdfast.node.directory import GroupDirectory
from holdfast.node.housed import Housed
from holdfast.node.insisting import insist
from holdfast.node.keeping import Keeping
from holdfast.node.links import HostLinks, decode_sequence
from holdfast.node.questions import Questions
from holdfast.node.serving import Answers
from holdfast.node.stamps import Stamps
from holdfast.node.store import HostStore
from holdfast.sequence.config import LeaseConfig
from holdfast.sequence.durability import Durability
from holdfast.sequence.leases import Leases
from holdfast.sequence.messages import Beat, BeatAnswer, Confirm, Confirmed, Died
from holdfast.sequence.ports import HostPorts
from holdfast.sequence.role import Role
from holdfast.styles.ports import StylePorts

WAKE_NS: Final = 1 * MILLISECOND
"""The moment after which a style that asks to be woken is."""

log = structlog.get_logger("holdfast.groups")


def fresh_nonce() -> Nonce:
    return Nonce(secrets.token_hex(16))


class Groups:
    """Made by :meth:`open`; *hosts* are the others of the domain."""

    def __init__(
        self,
        session: Session,
        store: HostStore,
        authority: Authority,
        links: HostLinks,
        stamps: Stamps,
        identity: Seen[Identity],
        hosts: Iterable[HostId],
    ) -> None:
        self.me = ViewMember(
            host=session.host, store=store.id, incarnation=session.incarnation, opening=store.opening
        )
        self.housed: dict[GroupId, Housed] = {}
        self.stamps = stamps
        self.answers = Answers(self)
        self._store = store
        self._loop = asyncio.get_running_loop()
        self._clock = MachineClock()
        self._deaths: dict[HostId, Incarnation] = {}
        self._gone: dict[GroupId, None] = {}
        """Groups that were removed, and whose members have not ended yet."""
        self._turns: dict[Housed, None] = {}
        self._wakes: dict[GroupId, asyncio.TimerHandle] = {}
        self._is_flush_asked = False
        self._questions = Questions(authority)
        recipes = Recipes(self._questions)
        self._questions.on_authority = self.guarded(recipes.on_authority)
        durability = Durability(lambda: store.log.durable)
        store.on_durable = self.guarded(durability.on_durable)
        self._keeping = Keeping(store.checkpoints, store.log, durability)
        self.directory = GroupDirectory(
            authority, on_record=self._on_record, on_gone=self._on_gone, on_view=self._on_view
        )
        self._leases = Leases(
            incarnation=session.incarnation,
            clock=self._clock,
            timers=self._timers,
            network=links,
            trace=LogTrace(),
            config=LeaseConfig(),
            on_lapsed=self._on_lapsed,
            is_in=self._is_in,
            on_confirmed=self._on_confirmed,
        )
        self._ports = HostPorts(
            clock=self._clock,
            timers=self._timers,
            network=links,
            random=MachineRandom(),
            trace=LogTrace(),
            recipes=recipes,
            leases=self._leases,
            log=store.log,
            durability=durability,
            checkpoints=self._keeping,
            flush=self._ask_flush,
            identity=lambda: identity,
            nonce=fresh_nonce,
            on_doubt_settled=self._on_doubt_settled,
            on_halted=self._on_halted,
        )
        self._leases.start(host for host in hosts if host != session.host)

    @classmethod
    async def open(
        cls,
        session: Session,
        store: HostStore,
        authority: Authority,
        links: HostLinks,
        hosts: Iterable[HostId],
        domain: str,
    ) -> "Groups":
        """Learn from the authority what a host of groups must know, and open the host's clock."""
        nonce = fresh_nonce()
        identity: Seen[Identity] = await insist(
            lambda: perform(authority, ensure_identity(domain, nonce=nonce)), Seen
        )
        replica: Seen[ReplicaRecord] = await insist(
            lambda: perform(authority, ensure_replica(session.host, nonce=nonce)), Seen
        )
        stamps = await store.open_stamps(replica.value.replica)
        return cls(session, store, authority, links, stamps, identity, hosts)

    def following(self) -> list[Coroutine[object, object, None]]:
        """What must run as long as the host does."""
        return [each.follow() for each in self.directory.followers]

    async def close(self) -> None:
        for housed in self.housed.values():
            housed.close()
        for wake in self._wakes.values():
            wake.cancel()
        await self._questions.close()

    # --- events from outside

    def on_sequence(self, peer: HostId, payload: bytes) -> None:
        """A frame from another host. Raises ``msgspec.DecodeError``."""
        message = decode_sequence(payload)
        match message:
            case Beat() | BeatAnswer() | Confirm() | Confirmed():
                self.guarded(self._leases.on_message)(peer, message)
            case Died():
                return  # deaths are told by agents, which have proof of them (K2)
            case _:
                housed = self.housed.get(message.group)
                if housed is not None:
                    self.guarded(housed.member.on_message)(peer, message)

    def on_death(self, host: HostId, incarnation: Incarnation) -> None:
        """An agent has proof that exactly this process is gone (K2)."""
        self._deaths[host] = max(incarnation, self._deaths.get(host, incarnation))
        for housed in self.housed.values():
            self.guarded(housed.member.on_death)(host, incarnation)

    def _on_record(self, record: GroupRecord) -> None:
        if record.group not in self.housed and self._is_placed_here(record):
            self.guarded(self._house)(record)

    def _on_gone(self, group: GroupId, is_removed: bool) -> None:
        """Its state here goes only on the authority's word: one that was put back to an older state does not
        know the youngest groups, and what they hold must outlive that (A5)."""
        housed = self.housed.get(group)
        if housed is None:
            return
        log.info("a group is gone", group=group, is_removed=is_removed)
        if is_removed:
            self._gone[group] = None
        if housed.member.role is Role.HALTED:
            self._soon(self._give_up, group)
        else:
            housed.member.start()  # it finds that there is no such group any more, and halts

    def _on_view(self, seen: Seen[View]) -> None:
        housed = self.housed.get(seen.value.group)
        if housed is None:
            return
        if housed.member.role is Role.WAITING:
            housed.member.start()
        else:
            self.guarded(housed.member.on_view)(seen)

    def _on_lapsed(self, host: HostId) -> None:
        for housed in list(self.housed.values()):
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
            self._soon(self._give_up, group)
        else:
            log.error("a member has stopped", group=group, why=why)

    # --- housing

    def _is_placed_here(self, record: GroupRecord) -> bool:
        return any(member.host == self.me.host for member in record.members)

    def _house(self, record: GroupRecord) -> None:
        try:
            definition = definition_of(record)
            housed = Housed(
                record,
                definition,
                self.me,
                ports=self._ports,
                style_ports=self._style_ports,
                timers=self._timers,
                kept=self._keeping.opened(record.group),
                is_doubtful=self._store.log.is_doubtful,
                later=self._later,
            )
        except (Corruption, DiskFailed, NoSpace):
            raise
        except HoldfastError as error:
            log.error("a group cannot be housed", group=record.group, name=record.name, why=str(error))
            return
        self.housed[record.group] = housed
        for host, incarnation in self._deaths.items():
            housed.member.on_death(host, incarnation)
        housed.member.start()
        log.info("a group is housed", group=record.group, name=record.name, style=record.style)

    def _give_up(self, group: GroupId) -> None:
        housed = self.housed.pop(group, None)
        if housed is None:
            return
        housed.close()
        self._turns.pop(housed, None)
        self._wake_at(housed, None)
        if group in self._gone:
            del self._gone[group]
            self._keeping.forget(group)

    def _style_ports(self, housed: Housed) -> StylePorts:
        def report(kind: str, what: str) -> None:
            log.error("a fault of an object", group=housed.group, kind=kind, what=what)

        return StylePorts(
            clock=self._clock,
            trace=LogTrace(),
            stamp=self.stamps.after,
            answer=self.answers.answer,
            forsake=self.answers.forsake,
            wake=lambda: self._wake_at(housed, self._clock.wall() + WAKE_NS),
            call_out=lambda outgoing: self._soon(housed.on_called_out, outgoing),
            checkpoint=lambda: self._keeping.newest(housed.group),
            save_checkpoint=lambda captured: self._keeping.keep(housed.group, captured),
            fault=report,
        )

    # --- turns

    def _later(self, housed: Housed) -> None:
        if not self._turns:
            self._soon(self._take_turns)
        self._turns[housed] = None

    def _take_turns(self) -> None:
        turns, self._turns = self._turns, {}
        for housed in turns:
            self._wake_at(housed, housed.turn())

    def _wake_at(self, housed: Housed, due_ns: int | None) -> None:
        wake = self._wakes.pop(housed.group, None)
        if wake is not None:
            wake.cancel()
        if due_ns is not None:
            delay_s = max(due_ns - self._clock.wall(), 0) / SECOND
            self._wakes[housed.group] = self._loop.call_later(delay_s, housed.ask_turn)

    def _ask_flush(self) -> None:
        if not self._is_flush_asked:
            self._is_flush_asked = True
            self._soon(self._flush)

    def _flush(self) -> None:
        self._is_flush_asked = False
        self._store.log.flush()

    # --- the machine

    def _timers(self, on_timer: Callable[[Hashable], None]) -> LoopTimers:
        return LoopTimers(self._loop, self.guarded(on_timer))

    def _soon(self, work: Callable[..., None], *arguments: object) -> None:
        self._loop.call_soon(self.guarded(work), *arguments)

    def guarded(self, work: Callable[..., None]) -> Callable[..., None]:
        """*work*, of which a failing disk ends the host (D1)."""

        def guarded(*arguments: object) -> None:
            try:
                work(*arguments)
            except (Corruption, DiskFailed, NoSpace) as error:
                self._store.fail(error)

        return guarded
