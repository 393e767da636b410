"""Three hosts of a control plane and their authority in simulated time; a test says what happens when.

Production managers, recipes, archives and authority. Nothing happens at random: a test sees every message
before it leaves, and stops a process, cuts a link or loses a message at exactly that step. What the book of
the scenario `control` holds to be wrong, wherever it comes from, fails the test.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec

from holdfast.authority import keys
from holdfast.authority.contract import Put, Txn
from holdfast.authority.control_records import Member, Status, TermRecord, Transaction
from holdfast.authority.wire import Ask
from holdfast.control.coordination.config import ControlConfig
from holdfast.control.coordination.participant import Manager
from holdfast.control.coordination.ports import Accepted, Failed, Outcome, ParticipantRole
from holdfast.control.coordination.state_file import Context, StateFile
from holdfast.model.ids import HostId
from holdfast.sim.engine.disk import ProcessKilled
from holdfast.sim.engine.network import SimNetwork
from holdfast.sim.engine.node import Life, SimNode
from holdfast.sim.engine.options import MILLISECOND, SECOND, Options
from holdfast.sim.engine.world import World
from holdfast.sim.scenarios.authority.observer import LeaseBook, Truth
from holdfast.sim.scenarios.authority.server import AUTHORITY, AuthorityNode
from holdfast.sim.scenarios.control.host import CONFIG, DIRECTORY, Apply, Codec, Host, add_token
from holdfast.sim.scenarios.control.observer import Book, tokens_of

HOSTS = ("h1", "h2", "h3")
PATIENCE_NS = 30 * SECOND


@dataclass(frozen=True)
class Sent:
    """One message that was about to leave."""

    at_ns: int
    source: str
    target: str
    message: object

    @property
    def changes(self) -> list[str]:
        """The keys that it puts, if it asks the authority for a change."""
        match self.message:
            case Ask(request=Txn(changes=changes)):
                return [each.key for each in changes if isinstance(each, Put)]
        return []

    def posts(self) -> Transaction | None:
        """The record of a transaction that it asks the authority to keep."""
        match self.message:
            case Ask(request=Txn(changes=changes)):
                for each in changes:
                    if isinstance(each, Put) and each.key == keys.LAST_TRANSACTION:
                        return msgspec.json.decode(each.value, type=Transaction)
        return None


Watch = Callable[[Sent], bool]
"""Looks at a message before it leaves; False keeps it back for good."""


class WatchedNetwork(SimNetwork):
    """Shows every message before it leaves."""

    def __init__(self, world: World) -> None:
        super().__init__(world, world.rng("network"), world.options.network)
        self._stage_world = world
        self.sent: list[Sent] = []
        self.watch: Watch = lambda sent: True

    def send(self, source: str, target: str, message: object) -> None:
        sent = Sent(self._stage_world.now, source, target, message)
        if self.watch(sent):
            self.sent.append(sent)
            super().send(source, target, message)


class _Reached(Exception):
    pass


@dataclass
class Wished:
    """A change that was wished for, and every outcome that was told of it."""

    change: bytes
    outcomes: list[Outcome] = field(default_factory=list)

    @property
    def outcome(self) -> Outcome | None:
        """None while nobody was told."""
        assert len(self.outcomes) <= 1, f"{self.change!r} was answered more than once: {self.outcomes}"
        return self.outcomes[0] if self.outcomes else None


class Stage:
    def __init__(
        self, *, config: ControlConfig = CONFIG, apply: Apply = add_token, duplicate: float = 0.0
    ) -> None:
        options = Options(scenario="control", seed=1)
        network = msgspec.structs.replace(options.network, duplicate=duplicate)
        self.world = World(msgspec.structs.replace(options, network=network))
        self.network = self.world.network = WatchedNetwork(self.world)
        self.network.codec = Codec()
        self.truth = Truth(self.world)
        self.book = Book(self.world, self.truth, config.silence_ns)
        self.world.add_node(AUTHORITY, partial(AuthorityNode, truth=self.truth, leases=LeaseBook(self.world)))
        for name in HOSTS:
            self.world.add_node(name, partial(Host, book=self.book, config=config, apply=apply))

    @classmethod
    def settled(cls, *changes: str | bytes, **options: Any) -> "Stage":
        """A stage whose hosts have found their roles and made *changes*."""
        stage = cls(**options)
        stage.settle()
        for change in changes:
            stage.accepted(change)
        return stage

    # --- time

    def until(self, condition: Callable[[], bool], what: str = "what was waited for") -> None:
        """Go on, event by event, until *condition* holds."""

        def look() -> None:
            if condition():
                raise _Reached

        if condition():
            return
        self.world.each_step = look
        try:
            self.world.run_until(self.world.now + PATIENCE_NS)
        except _Reached:
            return
        finally:
            self.world.each_step = None
            self.check()
        raise AssertionError(f"it never came to {what}; {self.roles()}")

    def run(self, for_ns: int) -> None:
        self.world.run_until(self.world.now + for_ns)
        self.check()

    def check(self) -> None:
        assert self.world.violations == []

    def settle(self, *, without: str = "") -> None:
        """Until one host coordinates, the others follow it, and all hold the same; *without* stays away."""
        names = [name for name in HOSTS if name != without]
        self.until(lambda: self._are_settled(names), "one coordinator and its replicas")

    def _are_settled(self, names: list[str]) -> bool:
        if any(self.node(name).paused or self.role(name) is None for name in names):
            return False
        roles = sorted(self.manager(name).role.value for name in names)
        return (
            roles == ["coordinator", *["replica"] * (len(names) - 1)]
            and len({self.archive(name).context for name in names}) == 1
            and all(self.archive(name).log is None for name in names)
            and all(self.member(name) is not None for name in names)
            and all(self.manager(name).term == self.term().term for name in names)
        )

    # --- hosts

    def node(self, name: str) -> SimNode:
        return self.world.nodes[name]

    def host(self, name: str) -> Host:
        core = self.node(name).core
        assert isinstance(core, Host), f"{name} does not run"
        return core

    def manager(self, name: str) -> Manager:
        manager = self.host(name).manager
        assert manager is not None, f"{name} has no session yet"
        return manager

    def archive(self, name: str) -> StateFile:
        archive = self.host(name).archive
        assert archive is not None, f"{name} has no session yet"
        return archive

    def role(self, name: str) -> ParticipantRole | None:
        """None while its process is down, or has no session yet."""
        core = self.node(name).core
        return core.manager.role if isinstance(core, Host) and core.manager is not None else None

    def roles(self) -> dict[str, ParticipantRole | None]:
        return {name: self.role(name) for name in HOSTS}

    @property
    def coordinator(self) -> str:
        """The one that is at work: whoever stands still does not know better."""
        roles = self.roles().items()
        (name,) = [
            each for each, role in roles if role is ParticipantRole.COORDINATOR and not self.node(each).paused
        ]
        return name

    @property
    def replicas(self) -> list[str]:
        return [each for each, role in self.roles().items() if role is ParticipantRole.REPLICA]

    def tokens(self, name: str) -> list[str]:
        """What the host takes for committed."""
        return tokens_of(self.manager(name).context.body)

    def on_disk(self, name: str) -> tuple[Context, Context | None]:
        """The context and the log, as a process that starts now would read them."""
        archive = StateFile(self.node(name).disk.open(DIRECTORY, Life(), None), lambda error: None)
        assert archive.damaged == []
        return archive.context, archive.log

    # --- the authority

    def record(self, cas: int) -> Transaction | None:
        item = self.truth.items.get(keys.transaction(cas))
        return None if item is None else msgspec.json.decode(item.value, type=Transaction)

    def last(self) -> Transaction | None:
        item = self.truth.items.get(keys.LAST_TRANSACTION)
        return None if item is None else msgspec.json.decode(item.value, type=Transaction)

    def is_open(self) -> bool:
        last = self.last()
        return last is not None and last.status is Status.INITIAL

    def ended(self, cas: int, status: Status) -> bool:
        record = self.record(cas)
        return record is not None and record.status is status

    def term(self) -> TermRecord:
        return msgspec.json.decode(self.truth.items[keys.TERM].value, type=TermRecord)

    def member(self, name: str) -> Member | None:
        item = self.truth.items.get(keys.member(HostId(name)))
        return None if item is None else msgspec.json.decode(item.value, type=Member)

    # --- what a test does

    def wish(self, change: str | bytes) -> Wished:
        """Let the coordinator be wished for *change*."""
        wished = Wished(change.encode() if isinstance(change, str) else change)
        name = self.coordinator
        node = self.node(name)
        node.run(node.life, lambda: self.manager(name).update(wished.change, wished.outcomes.append))
        self.check()
        return wished

    def accepted(self, change: str | bytes) -> Accepted:
        """*change* is wished for, told to be accepted, and held by everybody."""
        wished = self.wish(change)
        self.until(lambda: wished.outcome is not None, f"an outcome of {change!r}")
        self.settle()
        assert isinstance(wished.outcome, Accepted), wished.outcome
        return wished.outcome

    def cut(self, one: str, *others: str) -> None:
        """Nothing passes between *one* and *others*."""
        self.network.cut([link for other in others for link in ((one, other), (other, one))])

    def mend(self, one: str, *others: str) -> None:
        self.network.mend([link for other in others for link in ((one, other), (other, one))])

    def restart(self, name: str, after_ns: int = 300 * MILLISECOND) -> None:
        """Kill its process; the agent starts another."""
        self.node(name).kill()
        self.node(name).restart(after_ns)

    def usurp(self, name: str) -> None:
        """Let that host begin a new term, whoever has the present one."""
        node = self.node(name)
        node.run(node.life, self.host(name).elect)

    def on_send(self, when: Callable[[Sent], bool], then: Callable[[Sent], bool | None]) -> None:
        """At the first message that *when* knows, just before it leaves: *then*, which may keep it back."""
        done = False

        def watch(sent: Sent) -> bool:
            nonlocal done
            if done or not when(sent):
                return True
            done = True
            return then(sent) is not False

        self.network.watch = watch

    def die(self, sent: Sent) -> bool:
        """Its sender ends before the message leaves, and is started again."""
        self.restart(sent.source)
        raise ProcessKilled(f"before it sent {sent.message}")


# --- stopped at every single step of an update


def steps_of(stage: Stage, change: str | bytes) -> list[Sent]:
    """Every message that the coordinator sends from the wish for *change* to its end."""
    before, coordinator = len(stage.network.sent), stage.coordinator
    stage.accepted(change)
    return [sent for sent in stage.network.sent[before:] if sent.source == coordinator]


@dataclass
class Stopped:
    """What became of an update whose coordinator was stopped."""

    stage: Stage
    wished: Wished
    cas: int
    was_posted: bool
    """Whether commit was posted when it was stopped."""

    @property
    def is_committed(self) -> bool:
        return self.stage.ended(self.cas, Status.COMMIT)


def stop_at(
    step: int, stage: Stage, change: str | bytes, stop: Callable[[Stage, Sent], bool | None]
) -> Stopped:
    """Let the coordinator be stopped just before its message *step*, and everybody settle again."""
    coordinator, left, last = stage.coordinator, step, stage.last()
    cas = 1 + (0 if last is None else last.cas)
    was_posted: list[bool] = []

    def is_due(sent: Sent) -> bool:
        nonlocal left
        left -= sent.source == coordinator
        return sent.source == coordinator and left < 0

    def then(sent: Sent) -> bool | None:
        was_posted.append(stage.ended(cas, Status.COMMIT))
        return stop(stage, sent)

    stage.on_send(is_due, then)
    wished = stage.wish(change)
    stage.until(lambda: bool(was_posted), f"step {step}")
    stage.run(3 * SECOND)
    stage.settle()
    found = Stopped(stage, wished, cas, was_posted[0])
    if isinstance(wished.outcome, Accepted):
        assert found.is_committed, "no false positive"
    if isinstance(wished.outcome, Failed):
        assert not found.is_committed, "no false negative"
    return found
