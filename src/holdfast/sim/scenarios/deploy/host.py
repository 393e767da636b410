"""Hosts whose application changes: deployed one by one or all at once, forward and back (E7)."""

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

import msgspec

from holdfast.authority.group_code import wish_upgrade
from holdfast.authority.groups import GroupRecord
from holdfast.execution.definition import Definition
from holdfast.execution.execution import Execution
from holdfast.execution.records import Upgraded, decode_record
from holdfast.execution.saved_state import head_of
from holdfast.groups.catalog import NO_GROUP
from holdfast.groups.hosted_group import HostedGroup
from holdfast.groups.ports import GroupsPorts, Written
from holdfast.model.code import UNKNOWN, Code
from holdfast.model.errors import DISK_ERRORS, DiskFailed, HoldfastError, InvalidRequest
from holdfast.model.ids import HostId, Nonce, Position
from holdfast.model.outcome import Raised, Returned
from holdfast.model.ports import Token, Trace
from holdfast.sequence.ports import Kept, chunks_of
from holdfast.sim.engine.node import NodePorts
from holdfast.sim.engine.options import MILLISECOND, SECOND, FaultEvent
from holdfast.sim.engine.world import World
from holdfast.sim.faults import FaultKind, Field, Parameters
from holdfast.sim.faults.kind import duration, later
from holdfast.sim.scenarios.deploy.versions import (
    CANNOT,
    CLASSES,
    LABELS,
    UNABLE,
    class_of,
    code_of,
    label_of,
)
from holdfast.sim.scenarios.groups.caller import HOPS_MAX, Caller, Work
from holdfast.sim.scenarios.groups.host import Host
from holdfast.sim.scenarios.groups.observer import Book, Replay
from holdfast.sim.scenarios.groups.placement_faults import records
from holdfast.sim.scenarios.groups.setup import Stage, annexes_of
from holdfast.sim.scenarios.sequence.startup import DIRECTORY
from holdfast.storage.checkpoint import Framing
from holdfast.storage.record import Record as Stored
from holdfast.styles.code_change import continued
from holdfast.styles.ports import NotCopied, Waits

TAKES_NS: Final = (1 * MILLISECOND, 80 * MILLISECOND)
KILLED: Final = 0.1
KILLED_WHY: Final = "its process was killed"
LOAD: Final = 0.25
STOP_NS: Final = 150 * MILLISECOND
"""The time allowed for an orderly stop."""


def definition_of(record: GroupRecord, label: str) -> Definition:
    """Return the group's class as defined in that version."""
    found = class_of(record.class_name, label)
    return Definition(
        group=record.name,
        cls=found,
        fresh=found,
        code=code_of(label),
        created_ns=record.created_ns,
        annexes=annexes_of(record),
    )


class CodedHost(Host):
    """A host that runs one version of the application for the life of its process."""

    def __init__(self, ports: NodePorts, book: Book, stage: Stage) -> None:
        self.label = book.deploys.label(HostId(ports.name))
        super().__init__(ports, book, stage)

    def _begin(self) -> None:
        self.book.deploys.ran(self._name, self.label)
        super()._begin()

    @property
    def trace(self) -> Trace:
        return self._ports.trace

    def _codes(self) -> dict[str, Code]:
        return dict.fromkeys(CLASSES, code_of(self.label))

    def _defined(self, record: GroupRecord) -> Definition:
        return definition_of(record, self.label)

    def _groups_ports(self) -> GroupsPorts:
        old_code = SimulatedOldCode(self._ports, self.book, self._opened.fail)
        return replace(super()._groups_ports(), old_code=old_code, trace=_Watched(self))

    def on_upgraded(self, name: str, from_code: str, to_code: str) -> None:
        """Require that no placed host known to have the old code is left behind.

        An upgrade that a person asked for is exempt.
        """
        assert self.groups is not None
        directory = self.groups.directory
        record = directory.records[directory.find(name) or NO_GROUP]
        requested = str(record.upgrade.code) if record.upgrade is not None else ""
        for host in record.placed_on:
            session = directory.sessions.get(host)
            code = session.codes.get(record.class_name, UNKNOWN) if session is not None else UNKNOWN
            if str(code) == from_code and requested != to_code and code != UNKNOWN:
                said = f"{name} goes on with {to_code} on {self._name}; {host} has {from_code}"
                self.book.world.violation("E7", said)

    def _is_meant(self, kind: str, what: str) -> bool:
        if kind == "other_code":
            self.book.world.sometimes("a member waits for other code")
            self._ports.trace.note("waits", what=what)
            return True
        is_unable = kind == "object_failed" and self.label == UNABLE
        return is_unable and (CANNOT in what or "the state has no needed" in what)


class _Watched:
    """Writes a host's trace notes, and reports upgrades among them to the checks."""

    def __init__(self, host: CodedHost) -> None:
        self._host = host
        self._trace = host.trace

    def note(self, kind: str, **fields: object) -> None:
        self._trace.note(kind, **fields)
        match kind, fields:
            case "upgraded", {"group": str(name), "from_code": str(from_code), "to_code": str(to_code)}:
                self._host.on_upgraded(name, from_code, to_code)


class SimulatedOldCode:
    """The OldCode port of one simulated process (:class:`holdfast.groups.ports.OldCodePort`)."""

    def __init__(self, ports: NodePorts, book: Book, fail: Callable[[HoldfastError], None]) -> None:
        self._ports = ports
        self._deploys = book.deploys
        self._fail = fail
        self._disk = ports.disk(DIRECTORY, self._on_synced)
        self._random = ports.random.stream("old-code")
        self._number = 0
        self._running: tuple[str, Written | None, Callable[[Written | NotCopied | Waits], None]] | None = None

    def is_kept(self, code: Code) -> bool:
        return self._deploys.is_kept(HostId(self._ports.name), label_of(code))

    def begin(
        self,
        record: GroupRecord,
        code: Code,
        kept: Kept | None,
        records: Iterator[Stored],
        name: str,
        framing: Framing,
        then: Callable[[Written | NotCopied | Waits], None],
        by: Code | None = None,
    ) -> bool:
        if self._running is not None:
            return False
        node, life = self._ports.node, self._ports.life
        self._number += 1
        number = self._number
        found: Execution | NotCopied | Waits
        try:
            found = continued(definition_of(record, label_of(code)), kept, records)
        except Exception as error:
            found = NotCopied(f"{type(error).__name__}: {error}")
        if self._random.random() < KILLED:
            node.world.sometimes("old code was killed")
            found = NotCopied(KILLED_WHY)
        takes_ns = self._random.randint(*TAKES_NS)
        node.world.sometimes("old code was at work")
        if isinstance(found, Execution):
            pieces = [framing.header]
            for piece in found.pieces():
                pieces.extend(framing.framed(piece))
            pieces.append(framing.end())
            self._running = (name, Written(framing.described, b""), then)
            node.world.after(takes_ns, node.run, life, lambda: self._write(number, pieces))
        else:
            if isinstance(found, Waits):
                node.world.sometimes("a method of old code waited")
            self._running = (name, None, then)
            ended = found
            node.world.after(takes_ns, node.run, life, lambda: self._end(number, ended))
        return True

    def cancel(self) -> None:
        if self._running is not None:
            self._remove(self._running[0])
            self._running = None

    def _write(self, number: int, pieces: list[bytes]) -> None:
        if self._running is None or number != self._number:
            return
        name = self._running[0]
        try:
            self._remove(name)
            for piece in pieces:
                self._disk.append(name, piece)
            self._disk.sync(name, number)
        except DISK_ERRORS as error:
            self._fail(error)

    def _on_synced(self, token: Token, ok: bool) -> None:
        if self._running is None or token != self._number:
            return
        name, written, _ = self._running
        if ok and written is not None:
            self._end(self._number, written)
        else:
            self._fail(DiskFailed(f"{name}: the sync of what old code wrote failed"))

    def _end(self, number: int, result: Written | NotCopied | Waits) -> None:
        if self._running is None or number != self._number:
            return
        (_, _, then), self._running = self._running, None
        then(result)

    def _remove(self, name: str) -> None:
        if name in self._disk.list():
            self._disk.remove(name)


class CodedCaller(Caller):
    """A client that remembers which version answered each call."""

    def _work(self) -> None:
        """Limit the load so that each group has as much to do as in a domain with more groups.

        Where checkpoints take long, load alone would fill the logs.
        """
        if self._rng.random() < len(self._stage.groups) * LOAD:
            super()._work()

    def _kind(self) -> str:
        """Avoid calls sent without waiting for an answer: the scenario ``groups`` covers those."""
        while (kind := super()._kind()) == "post":
            pass
        return kind

    def _hops(self, record: GroupRecord) -> tuple[list[str], float | None, str]:
        """Draw a chain of calls in which no group calls back its callers.

        Two groups whose old code waits for each other are served only once those calls have expired.
        """
        others = [each.name for each in self._stage.groups if each.group > record.group] or [record.name]
        return [self._rng.choice(others) for _ in range(self._rng.randint(1, HOPS_MAX))], None, ""

    def _on_outcome(self, work: Work, subject: Work, outcome: Any) -> None:
        match outcome:
            case Returned(value=[str(token), int(place), str(label)]):
                self._book.deploys.acknowledged(work.record.name, token, label)
                outcome = Returned([token, place])
            case Raised(text=text) if text.count("@") == 2:
                failed, _, label = text.rpartition("@")
                self._book.deploys.acknowledged(work.record.name, failed.partition("@")[0], label)
                outcome = msgspec.structs.replace(outcome, text=failed)
        super()._on_outcome(work, subject, outcome)


class CodedReplay(Replay):
    """Replays what a member has with the code of each position.

    Of production it uses only the execution machine.
    """

    def __init__(self, record: GroupRecord, kept: Kept | None, hosted: HostedGroup) -> None:
        self._record = record
        self._state = b"".join(chunks_of(kept)) if kept is not None else b""
        super().__init__(self._first(kept, hosted), kept, hosted)

    def _first(self, kept: Kept | None, hosted: HostedGroup) -> Definition:
        code = _code_in(self._state) if kept is not None else UNKNOWN
        if code == UNKNOWN:
            stored = hosted.member.read(Position(1), Position(1))
            first = decode_record(stored[0].body) if stored else None
            code = first.to_code if isinstance(first, Upgraded) else hosted.code
        return definition_of(self._record, label_of(code))

    def apply(self, first: Position, record: Any) -> Any:
        execution = self.execution
        if isinstance(record, Upgraded) and first > 1:
            saved, waits = execution.save(), execution.line.poisoned
            self.execution = Execution.load(definition_of(self._record, label_of(record.to_code)), saved)
            self.execution.line.poisoned = waits
        return self.execution.apply(first, record)


def _code_in(state: bytes) -> Code:
    return head_of(iter([state])).code


# --- deploying


def _draw(rng: random.Random, _: Field) -> Parameters:
    return {
        "label": rng.choice(LABELS),
        "is_orderly": rng.random() < 0.5,
        "restart_ns": duration(rng, MILLISECOND, SECOND),
    }


def _deploy(world: World, event: FaultEvent) -> bool:
    host = world.nodes[event.target].core
    if not isinstance(host, CodedHost):
        return False
    _restart_with(world, event.target, event.parameters, host.book)
    return True


def _restart_with(world: World, name: str, parameters: Parameters, book: Book) -> None:
    book.deploys.deploy(HostId(name), parameters["label"])
    node = world.nodes[name]
    stop_ns = 0
    if parameters["is_orderly"] and isinstance(node.core, Host) and node.core.groups is not None:
        stop_ns = STOP_NS
        for hosted in node.core.groups.hosted.values():
            others = [each.host for each in hosted.member.standing.listed if each.host != name]
            if hosted.member.is_serving and others:
                with suppress(InvalidRequest):
                    hosted.member.hand_over(others[0], "an orderly stop")

    def stop() -> None:
        node.kill()
        node.restart(parameters["restart_ns"])

    later(world, stop_ns, stop)


def _draw_roll(rng: random.Random, field: Field) -> Parameters:
    return {"gap_ns": duration(rng, MILLISECOND, SECOND), **_draw(rng, field)}


def _roll(world: World, event: FaultEvent) -> bool:
    """Deploy to all hosts, one after the other or at once."""
    hosts = [(name, node.core) for name, node in world.nodes.items() if name.startswith("h")]
    books = [core.book for _, core in hosts if isinstance(core, CodedHost)]
    for number, (name, _) in enumerate(hosts):
        if books:
            later(
                world,
                number * event.parameters["gap_ns"],
                _restart_with,
                world,
                name,
                event.parameters,
                books[0],
            )
    return bool(books)


def _draw_request(rng: random.Random, _: Field) -> Parameters:
    return {"label": rng.choice(LABELS), "group": rng.randrange(100), "host": rng.randrange(100)}


def _request_upgrade(world: World, event: FaultEvent) -> bool:
    """Request a version for a group, as a person would, through some running host."""
    living = [node.core for node in world.nodes.values() if isinstance(node.core, Host) and node.core.groups]
    known = records(world)
    if not living or not known:
        return False
    record = known[event.parameters["group"] % len(known)]
    through: Host = living[event.parameters["host"] % len(living)]
    assert through.groups is not None
    nonce = Nonce(f"wish/{event.at_ns}")
    recipe = wish_upgrade(record.group, code_of(event.parameters["label"]), nonce=nonce)
    through.groups.recipes.start(recipe, lambda _: None)
    return True


FAULTS: Final = (
    FaultKind("deploy", _draw, _deploy),
    FaultKind("deploy_all", _draw_roll, _roll, needs_target=False),
    FaultKind("upgrade_wished", _draw_request, _request_upgrade, needs_target=False),
)
