"""A host's process: one member of every group, on the production parts, over the simulated machine."""

from collections.abc import Callable, Hashable
from contextlib import suppress
from functools import partial
from typing import Final

from holdfast.authority.contract import Result
from holdfast.authority.groups import GroupRecord, Placement, create_group, read_group
from holdfast.authority.recipe import Listing, NoAnswer, Recipe, Recipes, Seen
from holdfast.authority.views import Lost, NoGroup, View, ViewMember, list_views
from holdfast.model.errors import Corruption, InvalidRequest
from holdfast.model.ids import Epoch, GroupId, HostId, Incarnation, Nonce, Position, StoreId
from holdfast.sequence import view_state
from holdfast.sequence.catchup_limiter import CatchupLimiter
from holdfast.sequence.claim_batches import ClaimBatches
from holdfast.sequence.config import SequenceConfig
from holdfast.sequence.leases import Leases
from holdfast.sequence.member import Member
from holdfast.sequence.memory_log import MemoryLog
from holdfast.sequence.messages import Beat, BeatAnswer, Confirm, Confirmed, Died, Held, Inspect, Stopping
from holdfast.sequence.ports import Durability, GroupLog, HostPorts
from holdfast.sequence.recovery import Recovery
from holdfast.sequence.role import Role
from holdfast.sequence.store import GroupStore
from holdfast.sim.engine.node import NodePorts
from holdfast.sim.engine.options import MICROSECOND, MILLISECOND
from holdfast.sim.faults import DAMAGE_KINDS
from holdfast.sim.scenarios.authority.server import authority_client
from holdfast.sim.scenarios.sequence.application import Ask, TokenList
from holdfast.sim.scenarios.sequence.heart import Heart
from holdfast.sim.scenarios.sequence.lease_settings import LeaseSettings
from holdfast.sim.scenarios.sequence.observer import Book
from holdfast.sim.scenarios.sequence.peer_talk import PeerTalk
from holdfast.sim.scenarios.sequence.startup import HostProcess, InMemory, OnDisk, Opened

TURN_NS: Final = 300 * MICROSECOND
POLL_NS: Final = 400 * MILLISECOND
HAND_OVERS: Final = 0.05
CHANGES_PER_TRANSACTION: Final = 2
TRANSACTIONS: Final = 1
"""Concurrent transactions of claims: so few that three groups reach the bound (K4)."""
ASKING_MAX: Final = 1
"""Members that may ask to catch up at a time: so few that members wait for each other."""
CONFIG: Final = SequenceConfig(
    min_in_sync=2,
    silence_ns=400 * MILLISECOND,
    return_ns=300 * MILLISECOND,
    lag_limit=60,
    uncommitted_max=200,
    window=40,
    batch_records_max=5,
    resend_ns=80 * MILLISECOND,
    ask_ns=20 * MILLISECOND,
    compare_ns=40 * MILLISECOND,
    turn_ns=50 * MILLISECOND,
    clock_wait_ns=600 * MILLISECOND,
    notify_ns=15 * MILLISECOND,
    hold_ns=1200 * MILLISECOND,
    hold_bytes=64 << 10,
)


HARM: Final = (*DAMAGE_KINDS, "last_batch_rots")
"""Faults after which a store may lack what it had."""


class Host(HostProcess):
    """The process of one host, from its start to its end."""

    def __init__(
        self,
        ports: NodePorts,
        book: Book,
        hosts: tuple[str, ...],
        disk: list[GroupId],
        memory: list[GroupId],
        settings: LeaseSettings,
        hand_overs: float = HAND_OVERS,
    ) -> None:
        """*settings*: the leases that this host's file asks for, and what it noted of them.
        *hand_overs*: the probability that a primary hands over, at each poll."""
        self.settings = settings
        self.members: dict[GroupId, Member] = {}
        self.applications: dict[GroupId, TokenList] = {}
        self._ports = ports
        self._book = book
        self._hosts = [HostId(each) for each in hosts]
        self._disk_groups, self._memory_groups = disk, memory
        self._hand_overs = hand_overs
        self._name = HostId(ports.name)
        self._may_be_harmed = any(
            event.target == ports.name and event.kind in HARM for event in book.world.options.faults
        )
        self._timers = ports.timers(self._on_timer)
        self._turns: dict[GroupId, None] = {}
        self._members_ports: dict[GroupId, HostPorts] = {}
        self._client = authority_client(
            ports, lambda token, result: self._on_authority(token, result), lambda token, event: None
        )
        self._recipes = Recipes(self._client)
        self._client.start()
        self._claims = ClaimBatches(
            self._recipes,
            ports.timers,
            lambda: self._opened.identity,
            ports.trace,
            per_transaction=CHANGES_PER_TRANSACTION,
            under_way=TRANSACTIONS,
        )
        self._catchup_limiter = CatchupLimiter(ports.clock, ports.timers, asking_max=ASKING_MAX)
        self.recovery: Recovery | None = None
        self._leases: Leases | None = None
        self._opened = Opened(ports, self._recipes, self._begin)
        self._heart = Heart(ports)

    @property
    def incarnation(self) -> Incarnation | None:
        """The incarnation that the authority issued; None before."""
        return self._opened.incarnation if self._leases is not None else None

    # --- starting

    def _begin(self) -> None:
        opened, ports = self._opened, self._ports
        self._leases = leases = Leases(
            incarnation=opened.incarnation,
            clock=ports.clock,
            timers=ports.timers,
            network=ports.network,
            trace=ports.trace,
            config=self.settings.of(self._name),
            on_lapsed=self._on_lapsed,
            is_in=self._is_in,
            on_confirmed=self._on_confirmed,
            note=self.settings.note(self._name),
        )
        durability = Durability()
        opened.on_durable = durability.on_durable
        memory_durability = Durability()
        memory = MemoryLog(memory_durability.on_durable)
        self._checkpoints = OnDisk(opened.log, opened.checkpoints)
        disk_ports = self._host_ports(leases, opened.log, durability, opened.log.flush, self._checkpoints)
        self._memory_checkpoints = in_memory = InMemory(memory)
        memory_ports = self._host_ports(leases, memory, memory_durability, memory.flush, in_memory)
        for group in self._disk_groups:
            if not self._add_disk_member(group, disk_ports):
                opened.give_up()
                return
        for group in self._memory_groups:
            store = view_state.memory_store(self._name, opened.incarnation)
            self._add_member(group, store, memory_ports, Position(0), is_doubtful=False)
        self._memory = memory
        self.recovery = Recovery(
            self._name,
            clock=ports.clock,
            timers=ports.timers,
            network=ports.network,
            recipes=self._recipes,
            identity=lambda: opened.identity,
            nonce=opened.nonce,
            own=self._held,
        )
        leases.start([host for host in self._hosts if host != self._name])
        if self._name == self._hosts[0]:
            self._recipes.start(self._create_groups(), lambda _: self._poll())
        else:
            self._poll()

    def _host_ports(
        self,
        leases: Leases,
        log: GroupLog,
        durability: Durability,
        flush: Callable[[], None],
        checkpoints: OnDisk | InMemory,
    ) -> HostPorts:
        ports = self._ports
        return HostPorts(
            clock=ports.clock,
            timers=ports.timers,
            network=ports.network,
            random=ports.random,
            trace=ports.trace,
            recipes=self._recipes,
            claims=self._claims,
            leases=leases,
            catchup_limiter=self._catchup_limiter,
            log=log,
            durability=durability,
            checkpoints=checkpoints,
            flush=flush,
            identity=lambda: self._opened.identity,
            nonce=self._opened.nonce,
            on_doubt_settled=self._on_doubt_settled,
            on_superseded=self._on_superseded,
            on_lost=lambda group: None,  # these groups wait for a person
            on_halted=lambda group, why: self._on_halted(group, why),
        )

    def _add_disk_member(self, group: GroupId, ports: HostPorts) -> bool:
        """Add a member on disk; returns False when this store cannot provide the group's state."""
        opened = self._opened
        chosen = opened.checkpoints.choose(group)
        floor, checkpoint = opened.log.floor(group).position, chosen.checkpoint
        position = checkpoint.point.position if checkpoint is not None else Position(0)
        if position < floor:
            if not self._may_be_harmed:
                said = f"{self._name}: group {group} begins at {floor}, and there is no state for that"
                self._book.world.violation("D3", said)
            return False
        if checkpoint is not None:
            # A learner may have ended after it kept the state it was given and before it installed it.
            store = GroupStore(group, opened.log, ports.durability)
            if store.point_at(position) != checkpoint.point:
                store.install(checkpoint.point)
        self._add_member(group, opened.store, ports, position, is_doubtful=opened.log.is_doubtful)
        if checkpoint is not None:
            try:
                self.applications[group].install(opened.checkpoints.stored(checkpoint))
            except Corruption:
                return False
        return True

    def _add_member(
        self, group: GroupId, store: StoreId, ports: HostPorts, position: Position, *, is_doubtful: bool
    ) -> None:
        opened = self._opened
        self._members_ports[group] = ports
        me = ViewMember(host=self._name, store=store, incarnation=opened.incarnation, opening=opened.opening)
        process, stream = f"{self._name}#{opened.incarnation}", self._ports.random.stream
        application = TokenList(
            group,
            process,
            self._book,
            send=self._ports.network.send,
            later=lambda: self._later(group),
            rng=stream(f"bursts/{group}"),
            talk=PeerTalk(group, process, self._name, self._book, stream(f"talk/{group}")),
        )
        application.member = self.members[group] = Member(
            group,
            me,
            ports=ports,
            config=CONFIG,
            application=application,
            committed=position,
            is_doubtful=is_doubtful,
        )
        self.applications[group] = application

    def _create_groups(self) -> Recipe[None]:
        for group in (*self._disk_groups, *self._memory_groups):
            me = self.members[group].standing.me
            record = GroupRecord(
                group=group,
                class_name="TokenList",
                style="active",
                members=tuple(
                    Placement(host=host, store=StoreId(""), never_leads=host == self._book.barred.get(group))
                    for host in self._hosts
                ),
                nonce=Nonce(f"create/{group}"),
            )
            while not isinstance((yield from create_group(record, self._name, (me,))), Seen | Lost):
                pass

    def _poll(self) -> None:
        self._recipes.start(list_views(), self._on_views)

    # --- events

    def retune(self) -> None:
        """Take what the host's file asks for now."""
        if self._leases is not None:
            self._leases.retune(self.settings.of(self._name))

    def pour(self, records: int) -> None:
        """Give every group that is served here that many records to order."""
        for application in self.applications.values():
            application.pour(records)

    def on_message(self, peer: str, message: object) -> None:
        match message:
            case Ask(group=group):
                if self._leases is not None and group in self.applications:
                    self.applications[group].on_ask(peer, message)
            case Beat() | BeatAnswer() | Confirm() | Confirmed():
                if self._leases is not None:
                    self._leases.on_message(HostId(peer), message)
            case Held():
                if self.recovery is not None:
                    self.recovery.on_held(HostId(peer), message)
            case Died(host=host, incarnation=incarnation):
                if self._leases is not None:
                    self._leases.on_death(HostId(host), incarnation)
                for member in self.members.values():
                    member.on_death()
            case Stopping(incarnation=incarnation, is_leaving=is_leaving):
                for member in self.members.values():
                    member.on_stopping(HostId(peer), incarnation, is_leaving=is_leaving)
            case _ if hasattr(message, "group"):
                found = self.members.get(message.group)
                if found is not None and self._leases is not None:
                    found.on_message(HostId(peer), message)  # type: ignore[arg-type]  # the codec has no other types left
            case _:
                self._client.on_message(peer, message)

    def _on_authority(self, token: Hashable, result: Result) -> None:
        self._recipes.on_authority(token, result)

    def _on_timer(self, tag: Hashable) -> None:
        if tag == "poll":
            self._poll()
        elif isinstance(tag, int):
            self._begin_anew(GroupId(tag))
        elif tag == "turn":
            turns, self._turns = self._turns, {}
            for group in turns:
                if group in self.applications:
                    self.applications[group].turn()
            self._keep_checkpoints()

    def _keep_checkpoints(self) -> None:
        for group, application in self.applications.items():
            captured = application.due_checkpoint()
            if captured is None:
                continue
            is_in_memory = group in self._memory_groups
            (self._memory_checkpoints if is_in_memory else self._checkpoints).keep(group, captured)

    def _later(self, group: GroupId) -> None:
        if not self._turns:
            self._timers.set(TURN_NS, "turn")
        self._turns[group] = None

    def _on_views(self, found: Listing[View] | NoAnswer) -> None:
        if isinstance(found, Listing):
            for seen in found.items:
                self._book.saw_view(seen.value)
                member = self.members.get(seen.value.group)
                if member is not None and member.role is Role.WAITING:
                    self._start(member, seen.value.group)
                elif member is not None:
                    member.on_view(seen)
        self._keep_checkpoints()
        self._maybe_hand_over()
        self._timers.set(POLL_NS, "poll")

    def _start(self, member: Member, group: GroupId) -> None:
        """Start a member. Where one never leads, each learns the record first, as in production (W3)."""
        if group in self._book.barred and member.standing.record is None:
            self._recipes.start(read_group(group), partial(self._on_record, group))
        else:
            member.start()

    def _on_record(self, group: GroupId, found: Seen[GroupRecord] | NoGroup | NoAnswer) -> None:
        member = self.members.get(group)
        if member is not None and isinstance(found, Seen):
            member.on_record(found)
            if member.role is Role.WAITING:
                member.start()

    def tell_stopping(self, *, is_leaving: bool) -> None:
        """Tell all hosts, this one included, that this process is about to end (K5)."""
        told = Stopping(self._opened.incarnation, is_leaving)
        for host in self._hosts:
            if host != self._name:
                self._ports.network.send(host, told)
        for member in self.members.values():
            member.on_stopping(self._name, told.incarnation, is_leaving=False)

    def _maybe_hand_over(self) -> None:
        rng = self._ports.random.stream("hand-over")
        for group, member in self.members.items():
            backups = [each.host for each in member.standing.listed if each.host != self._name]
            if member.is_serving and backups and rng.random() < self._hand_overs:
                self._book.world.sometimes("a hand-over was asked for")
                self._hand_over(group, member, rng.choice(backups))

    def _hand_over(self, group: GroupId, member: Member, to: HostId) -> None:
        """Hand the group over, which is refused where *to* never leads (W3)."""
        if self._book.barred.get(group) != to:
            member.hand_over(to)
            return
        with suppress(InvalidRequest):
            member.hand_over(to)
            said = f"group {group}: {self._name} hands over to {to}, which never leads"
            self._book.world.violation("W3", said)

    def _held(self, asked: Inspect) -> Held | None:
        return self.members[asked.group].held(asked.number) if asked.group in self.members else None

    def _on_lapsed(self, host: HostId) -> None:
        for member in self.members.values():
            member.on_silence(host)

    def _is_in(self, group: GroupId, epoch: Epoch, asked_by: HostId) -> bool:
        return group in self.members and self.members[group].is_backup_in(epoch, asked_by)

    def _on_confirmed(
        self, host: HostId, incarnation: Incarnation, group: GroupId, epoch: Epoch, beat: int
    ) -> None:
        if group in self.members:
            self.members[group].on_confirmed(host, incarnation, epoch, beat)

    def _on_doubt_settled(self) -> None:
        if not any(member.is_doubtful for member in self.members.values()):
            self._opened.log.clear_doubt()

    def _on_halted(self, group: GroupId, why: str) -> None:
        if not self._book.may_halt:
            self._book.world.violation("halted", f"{self._name}: group {group}: {why}")

    def _on_superseded(self, group: GroupId) -> None:
        self._timers.set(0, group)  # not within the member's own event

    def _begin_anew(self, group: GroupId) -> None:
        """Forget the state that a forced recovery discarded, and join with nothing (V4)."""
        self.members.pop(group, None)
        self.applications.pop(group, None)
        if self._checkpoints.is_under_way(group):
            self._timers.set(POLL_NS, group)
        elif group in self._memory_groups:
            self._memory.forget(group)
            self._memory.flush()
            self._join_anew(group)
        else:
            log, durability = self._opened.log, self._members_ports[group].durability
            durability.after(
                log.forget(group),
                lambda: self._opened.checkpoints.forget(group, lambda: self._join_anew(group)),
            )
            log.flush()

    def _join_anew(self, group: GroupId) -> None:
        in_memory = view_state.memory_store(self._name, self._opened.incarnation)
        store = in_memory if group in self._memory_groups else self._opened.store
        self._add_member(group, store, self._members_ports[group], Position(0), is_doubtful=False)
        self._start(self.members[group], group)
