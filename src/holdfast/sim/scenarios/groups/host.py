"""A host's process: the production host of groups on the simulated machine.

It includes the heart that exchanges the heartbeats of the host's leases, as in production (R4).
"""

from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import msgspec

from holdfast.authority import keys
from holdfast.authority.contract import Compacted, Request, Result, WatchEvent
from holdfast.authority.groups import GroupRecord, create_group, create_unbegun_group
from holdfast.authority.recipe import Recipe, Recipes, Seen
from holdfast.authority.sessions import Session
from holdfast.authority.views import Lost
from holdfast.authority.wire import ClientMessage, ServerMessage
from holdfast.execution.definition import Definition
from holdfast.execution.effects import Outgoing
from holdfast.groups.host_groups import HostGroups
from holdfast.groups.hosted_group import HostedGroup
from holdfast.groups.informer import Informer
from holdfast.groups.outbound.groups import OutboundCalls
from holdfast.groups.ports import GroupsPorts
from holdfast.model.calls import ToClient, decode_to_host, encode_message
from holdfast.model.code import Code
from holdfast.model.errors import InvalidRequest
from holdfast.model.host_roles import DEFAULT_ROLES
from holdfast.model.ids import GroupId, HostId, Incarnation, Revision
from holdfast.sequence.config import LeaseConfig
from holdfast.sequence.lease_heartbeats import LeaseHeartbeats
from holdfast.sequence.messages import Beat, BeatAnswer, Died, SequenceMessage
from holdfast.sim.engine.connections import Acceptor, Packet, Stream
from holdfast.sim.engine.node import NodePorts
from holdfast.sim.engine.options import MILLISECOND
from holdfast.sim.scenarios.authority.server import authority_client
from holdfast.sim.scenarios.groups import space_faults
from holdfast.sim.scenarios.groups.checkpoint_watch import watch_checkpoints
from holdfast.sim.scenarios.groups.connections import Connections
from holdfast.sim.scenarios.groups.copies import KILLED_WHY, SimulatedCopies
from holdfast.sim.scenarios.groups.failing_objects import NotHere, Slot, is_broken
from holdfast.sim.scenarios.groups.objects import UNREADABLE
from holdfast.sim.scenarios.groups.observer import Book, may_be_wrong
from holdfast.sim.scenarios.groups.parcels import with_parcels
from holdfast.sim.scenarios.groups.setup import Stage, definition_of
from holdfast.sim.scenarios.groups.stored_files import Shipped, SimulatedFiles
from holdfast.sim.scenarios.groups.stored_replay import watch_received
from holdfast.sim.scenarios.groups.threads import SimulatedThreads
from holdfast.sim.scenarios.sequence.startup import HostProcess, Opened
from holdfast.styles.replica import Replica


class Heart:
    """The heart of one process: it stops with the whole process, and not with the event loop."""

    def __init__(self, ports: NodePorts, incarnation: Incarnation, config: LeaseConfig) -> None:
        self.beats = LeaseHeartbeats(
            incarnation=incarnation, clock=ports.clock, network=ports.network, config=config
        )
        self._ports = ports
        self._beat()

    def on_message(self, peer: str, message: object) -> bool:
        """Handle *message* if it is for the heart; return whether it was."""
        if not isinstance(message, Beat | BeatAnswer):
            return False
        self.beats.on_message(HostId(peer), message)
        return True

    def _beat(self) -> None:
        ports = self._ports
        if ports.life.over:
            return
        if not ports.node.paused:
            self.beats.beat()
        ports.node.world.after(self.beats.config.interval_ns, self._beat)


LOOK_NS: Final = 300 * MILLISECOND

Message = ClientMessage | ServerMessage | SequenceMessage | Packet | Shipped
_decoder: Final = msgspec.msgpack.Decoder(Message)


class Codec:
    """Encodes every message as production sends it over the network."""

    def encode(self, message: object) -> bytes:
        return msgspec.msgpack.encode(message)

    def decode(self, data: bytes) -> object:
        return _decoder.decode(data)


class Host(HostProcess):
    """One process of one host, from its start to its end."""

    def __init__(self, ports: NodePorts, book: Book, stage: Stage) -> None:
        self.groups: HostGroups | None = None
        self._files: SimulatedFiles | None = None
        self._ports, self.book, self._stage = ports, book, stage
        self._name = HostId(ports.name)
        self._heart: Heart | None = None
        self._sessions: dict[HostId, Session] = {}
        self._timers = ports.timers(lambda tag: self._look())
        self._acceptor = Acceptor(ports, self._on_body)
        self._callees = Connections(
            ports,
            stage.config.calling,
            (),
            on_up=lambda host: self._nesting.on_up(host),
            on_down=lambda host: self._nesting.on_down(host),
            on_message=lambda host, message: self._nesting.on_message(host, message),
        )
        self._authority = SimAuthority(ports)
        self._recipes = Recipes(self._authority)
        self._authority.on_authority = self._recipes.on_authority
        roles, codes = stage.roles.get(self._name, DEFAULT_ROLES), self._codes()
        self._opened = Opened(ports, self._recipes, self._begin, has_clock=True, codes=codes, roles=roles)
        self._opened.on_failed = partial(space_faults.check_ended, ports.node)
        self._copies = SimulatedCopies(ports, self._opened.fail)

    @property
    def incarnation(self) -> Incarnation | None:
        return self._opened.incarnation if self.groups is not None else None

    def on_heart_message(self, peer: str, message: object) -> bool:
        return self._heart is not None and self._heart.on_message(peer, message)

    def on_message(self, peer: str, message: object) -> None:
        if self.on_heart_message(peer, message):
            return  # the whole process was paused when the message came
        match message:
            case Packet(is_answer=True):
                self._callees.on_packet(peer, message)
            case Shipped() if self._files is not None:
                self._files.on_message(peer, message)
            case Packet():
                self._acceptor.on_packet(peer, message)
            case Died(host=host, incarnation=incarnation):
                if self.groups is not None:
                    self._learn_of_death(self.groups, HostId(host), incarnation)
            case _ if isinstance(message, ServerMessage):
                self._authority.on_message(peer, message)
            case _:
                if self.groups is not None:
                    self.groups.on_sequence(HostId(peer), message)  # type: ignore[arg-type]  # the codec has no other types left

    def _learn_of_death(self, groups: HostGroups, host: HostId, incarnation: Incarnation) -> None:
        """Learn of a death, and first of what the dead process was executing.

        The host that takes over must know what not to run (E4).
        """
        during = self.book.deaths.attempts.get((host, incarnation))
        if during is not None:
            groups.suspects.on_death(host, incarnation, during)
        groups.on_death(host, incarnation)

    @property
    def _nesting(self) -> OutboundCalls:
        assert self.groups is not None
        return self.groups.outbound_calls

    # --- starting

    def _begin(self) -> None:
        opened, stage = self._opened, self._stage
        self.book.began_ns[self._name] = self.book.world.now
        if stage.has_hearts:
            self._heart = Heart(self._ports, opened.incarnation, stage.config.leases)
        self.groups = groups = HostGroups(
            self._name,
            opened.incarnation,
            opened,
            opened.stamps,
            opened.identity,
            stage.hosts,
            self._groups_ports(),
            stage.config,
        )
        self._watch_nested_calls(groups.outbound_calls)
        self._watch_serving(groups)
        watch_received(groups, self.book.world, self._ports.node)
        long_log_bytes = stage.config.style.long_log_bytes
        watch_checkpoints(self._name, groups, self._copies, self.book, long_log_bytes)
        self._watch_losses(groups)
        for (host, incarnation), during in self.book.deaths.attempts.items():
            groups.suspects.on_death(host, incarnation, during)
        Informer(
            self._authority.watch,
            groups.recipes,
            self._ports.timers,
            keys.SESSIONS,
            Session,
            self._on_session,
            self._on_session_gone,
        ).start()
        groups.start()
        for record in stage.groups:
            if stage.creator(record) == self._name:
                groups.recipes.start(self._create(record), lambda _: None)
        self._timers.set(LOOK_NS, "look")

    def _watch_nested_calls(self, outbound_calls: OutboundCalls) -> None:
        """Require that no nested call leaves before the request that makes it is final (E3)."""
        call = outbound_calls.call

        def watched(hosted: HostedGroup, outgoing: Outgoing) -> None:
            if outgoing.position > hosted.member.committed:
                said = f"{self._name}: {outgoing.caller} at {outgoing.position} calls out, not committed"
                self.book.world.violation("E3", said)
            call(hosted, outgoing)

        outbound_calls.call = watched  # type: ignore[method-assign]  # observes only

    def _watch_serving(self, groups: HostGroups) -> None:
        """Note the state of an object that starts serving: it counts as right, whatever it is (E8)."""
        on_served = groups.serving.on_served

        def watched(group: GroupId) -> None:
            hosted = groups.hosted.get(group)
            execution = hosted.style.execution if hosted and isinstance(hosted.style, Replica) else None
            if execution is not None:
                self.book.health.divergences.started_serving(group, execution.line.instance)
            on_served(group)

        groups.serving.on_served = watched  # type: ignore[method-assign]  # observes only

    def _watch_losses(self, groups: HostGroups) -> None:
        """Require that nobody believes a state lost that a living process holds (V4)."""
        on_lost = groups.restarts.on_lost

        def watched(group: GroupId) -> None:
            self.book.losses.check_believed(groups.hosted[group].member.standing.view)
            on_lost(group)

        groups.restarts.on_lost = watched  # type: ignore[method-assign]  # observes only

    def _groups_ports(self) -> GroupsPorts:
        ports = self._ports
        node, life = ports.node, ports.life
        if any(each.class_name == "filed" for each in self._stage.groups):
            self._files = SimulatedFiles(ports, self._opened.fail)

        def soon(work: Callable[[], None]) -> None:
            node.world.after(self._stage.turn_ns, node.run, life, work)

        return GroupsPorts(
            clock=ports.clock,
            timers=ports.timers,
            network=ports.network,
            callees=self._callees,
            random=ports.random,
            trace=ports.trace,
            journal=_Journal(ports, self.book),
            authority=self._authority,
            soon=soon,
            define=self._define,
            nonce=self._opened.nonce,
            on_fault=self._on_fault,
            slot=Slot(self.book.deaths, ports, self._opened.incarnation),
            on_halted=self._on_halted,
            copies=self._copies,
            files=self._files,
            slow=SimulatedThreads(ports).of,
            beats=self._heart.beats if self._heart is not None else None,
        )

    def _codes(self) -> dict[str, Code]:
        """Return the code of its classes, which its session announces (E7)."""
        return {}

    def _defined(self, record: GroupRecord) -> Definition:
        return definition_of(record)

    def _define(self, record: GroupRecord) -> Definition:
        definition, world = self._defined(record), self.book.world

        def fresh() -> object:
            if is_broken(world, record, self._name):
                world.sometimes("an object could not be made")
                raise NotHere("a library is missing")
            made = definition.fresh()
            self.book.health.made(made, self._name, record.style)
            return made

        base = with_parcels(definition, record, self._ports, self.book.parcels, lambda: self.book.is_ending)
        return replace(base, fresh=fresh)

    def _create(self, record: GroupRecord) -> Recipe[None]:
        assert self.groups is not None
        me = self.groups.member_of(record)
        while True:
            # If this host is not placed, any placed host may do it; if several try, one wins.
            made = yield from (
                create_group(record, self._name, (me,)) if record.is_begun else create_unbegun_group(record)
            )
            if isinstance(made, Seen | Lost):
                return

    def _on_session(self, key: str, seen: Seen[Session]) -> None:
        self._sessions[seen.value.host] = seen.value
        self._tell_hosts()

    def _on_session_gone(self, key: str, is_removed: bool) -> None:
        self._sessions.pop(HostId(key.removeprefix(keys.SESSIONS)), None)
        self._tell_hosts()

    def _tell_hosts(self) -> None:
        assert self.groups is not None
        self.groups.on_hosts(dict(self._sessions))

    # --- clients

    def _on_body(self, stream: Stream, body: bytes) -> None:
        if self.groups is not None:
            on_call = self.groups.guarded(self.groups.serving.on_call)
            on_call(_Client(self._acceptor, stream), decode_to_host(body))

    # --- reports, and events caused by the scenario

    def _is_meant(self, kind: str, what: str) -> bool:
        """Whether this run causes such a report on purpose."""
        return False

    def _on_fault(self, group: GroupId, kind: str, what: str) -> None:
        is_meant = (
            kind == "poisoned"
            or self._is_meant(kind, what)
            or (kind == "state_lost" and group in self.book.losses.groups)
            or (kind == "checkpoint_failed" and (KILLED_WHY in what or UNREADABLE in what))
            or (kind in ("object_failed", "checkpoint_failed") and NotHere.__name__ in what)
            or (kind == "divergence" and self.book.health.divergences.hosts)
            or (kind == "send_failed" and "expired" in what and may_be_wrong(self.book))
            # It went back to a checkpoint (V4), and sends again what its receivers have had, and later ones.
            or (kind == "send_failed" and "abandoned" in what and group in self.book.losses.groups)
        )
        if not is_meant:
            self.book.world.violation(kind, f"{self._name}: group {group}: {what}")

    def _on_halted(self, group: GroupId, why: str) -> None:
        self.book.world.violation("halted", f"{self._name}: group {group}: {why}")

    def _look(self) -> None:
        """Occasionally let a primary hand over for no reason (K5)."""
        rng = self._ports.random.stream("hand-over")
        assert self.groups is not None
        for hosted in self.groups.hosted.values():
            member = hosted.member
            backups = [each.host for each in member.standing.listed if each.host != self._name]
            is_due = rng.random() < self._stage.hand_overs and not self.book.is_ending
            if member.is_serving and backups and is_due:
                self.book.world.sometimes("a hand-over was asked for")
                to = rng.choice(backups)
                with suppress(InvalidRequest):  # not to a host without its object (E8), or that never leads
                    member.hand_over(to)
                    if not hosted.record.may_lead(to):
                        said = f"{hosted.record.name}: {self._name} hands over to {to}, which never leads"
                        self.book.world.violation("W3", said)
        self._copies.check_scratch()
        self._timers.set(LOOK_NS, "look")


class SimAuthority:
    """The authority as one host's process uses and watches it (:class:`holdfast.groups.ports.WatchPort`)."""

    def __init__(self, ports: NodePorts) -> None:
        self.on_authority: Callable[[Hashable, Result], None] = lambda token, result: None
        self._watchers: dict[Hashable, Callable[[WatchEvent], None]] = {}
        self._watches = 0
        self._client = authority_client(
            ports, lambda token, result: self.on_authority(token, result), self._on_watch
        )
        self._client.start()

    def on_message(self, peer: str, message: object) -> None:
        self._client.on_message(peer, message)

    def request(self, request: Request, token: Hashable) -> None:
        self._client.request(request, token)

    def watch(self, prefix: str, revision: Revision, then: Callable[[WatchEvent], None]) -> None:
        self._watches += 1
        self._watchers[self._watches] = then
        self._client.watch(prefix, revision, self._watches)

    def _on_watch(self, token: Hashable, event: WatchEvent) -> None:
        then = self._watchers[token]
        if isinstance(event, Compacted):
            del self._watchers[token]
        then(event)


@dataclass(frozen=True, slots=True)
class _Client:
    """One client's connection (:class:`holdfast.groups.ports.ClientPort`)."""

    acceptor: Acceptor
    stream: Stream

    def send(self, message: ToClient) -> None:
        self.acceptor.send(self.stream, encode_message(message))

    def hang_up(self, why: str) -> None:
        self.acceptor.end(self.stream)


@dataclass(frozen=True, slots=True)
class _Journal:
    """The log of a host. A group that it cannot host is a violation, since every class is there."""

    ports: NodePorts
    book: Book

    def info(self, event: str, **fields: object) -> None:
        self.ports.trace.note(event, **fields)
        if event == "a group leaves":
            self.book.world.sometimes(event)

    def warning(self, event: str, **fields: object) -> None:
        self.ports.trace.note(event, **fields)

    def error(self, event: str, **fields: object) -> None:
        self.ports.trace.note(event, **fields)
        if event == "a group cannot be hosted":
            self.book.world.violation("hosted", f"{self.ports.name}: {fields}")
