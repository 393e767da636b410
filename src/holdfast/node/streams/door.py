"""The door for sources of streams: one UDP port and one TCP port of a host.

The host's session says where both are, and sources ask any host for that. What is received goes to the
members of groups on this host, by the records at the authority (:mod:`.bindings`). A host that has no such
member answers a source that still sends to it, so that the source looks again where the members are.
"""

import asyncio
from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec
import structlog

from holdfast.admin.snapshot import fault_location, location_of
from holdfast.admin.streams import TCP, UDP
from holdfast.authority.streams import StreamRecord
from holdfast.machine import MachineClock, MachineRandom
from holdfast.model.admin.streams import (
    StreamDecision,
    StreamFigures,
    StreamRule,
    StreamsInspected,
)
from holdfast.model.errors import InvalidRequest, Unavailable
from holdfast.model.ids import MILLISECOND, SECOND, ClientId, GroupId, HostId
from holdfast.model.outcome import Returned
from holdfast.net import (
    Address,
    Connection,
    ConnectionSettings,
    Kind,
    Limits,
    PeerIdentity,
    ProvenBy,
    Reason,
    Role,
    Server,
    Why,
    serve,
)
from holdfast.net.handshake import Admission
from holdfast.net.udp import Received, UdpSocket, join_multicast, open_udp
from holdfast.node.endpoints import host_endpoint
from holdfast.node.gateway import HostContext
from holdfast.node.layout import Description, Layout
from holdfast.node.links import listen, remember
from holdfast.node.streams.bindings import StreamBindings, binding_of
from holdfast.node.streams.config import StreamsConfig
from holdfast.node.streams.deciders import DeciderGroups
from holdfast.node.streams.intake import Intakes, MemberIntake
from holdfast.node.streams.loss_reports import LossReports
from holdfast.node.streams.message_log import HostMessageLog, opened_log
from holdfast.node.streams.outputs import OutputServer
from holdfast.streams.annex import Streams
from holdfast.streams.collecting import OutputAsk, decode_ask
from holdfast.streams.pacing import CreditConfig
from holdfast.streams.reception import ReceivedStream, Reception
from holdfast.streams.records import Decided, Lacked

ADDRESS: Final = "streams-address"
"""The file in the host's directory that says where its door was last."""
_PROGRAMS: Final = frozenset({Role.CLIENT, Role.ADMIN})
ADMITS: Final[Admission] = {Kind.STREAM: _PROGRAMS, Kind.OUTPUT_ASK: _PROGRAMS}
CONNECTIONS_MAX: Final = 256
HANDSHAKES_MAX: Final = 64
FILES_MAX: Final = CONNECTIONS_MAX + HANDSHAKES_MAX + 8
CREDIT_NS: Final = 5 * MILLISECOND
"""How often a host that receives looks whether credit is due."""
QUIET_NS: Final = SECOND
"""Nobody looks any more when nothing was received for so long."""

log: Final = structlog.get_logger("holdfast.streams")


class StreamDoor:
    """The door for sources: implements :class:`holdfast.node.gateway.Gateway`,
    :class:`holdfast.streams.reception.ReceptionPorts` and :class:`holdfast.admin.streams.LocalStreams`."""

    def __init__(self, layout: Layout, domain: str, host: HostId, description: Description) -> None:
        self._host = host
        self._directory = layout.host(host)
        self._description = description
        self._endpoint: ConnectionSettings = _bounded(host_endpoint(layout, description, host))
        self._at = Address(description.here.host, description.ports_of(host).streams)
        self._clock = MachineClock()
        self._udp: UdpSocket | None = None
        self._server: Server | None = None
        self._joined: dict[str, UdpSocket] = {}
        self._reception = Reception(self, CreditConfig(), MachineRandom().stream("streams"))
        self._intakes: Intakes | None = None
        self._log: HostMessageLog | None = None
        self._outputs: OutputServer | None = None
        self._deciders: DeciderGroups | None = None
        self._context: HostContext | None = None
        self._following: asyncio.Task[None] | None = None
        self._heard_ns = 0
        self._looking: asyncio.TimerHandle | None = None

    # --- its life

    async def open(self) -> Mapping[str, str]:
        try:
            self._server = await listen(self._at, self._directory, self._listen, ADDRESS)
        except Unavailable as error:
            log.error("this host takes no streams", why=str(error))
            return {f"{TCP}_problem": str(error)}
        assert self._udp is not None, "it is opened together with the server"
        reached = self._description.reached
        return {TCP: str(reached(self._server.address)), UDP: str(reached(self._udp.address))}

    async def _listen(self, at: Address) -> Server:
        """Listen by TCP and UDP at the same port, so that both pass one rule of a firewall."""
        server = await serve(at, lambda _: self, self._endpoint, admits=ADMITS, refusal=self._refusal)
        try:
            self._udp = open_udp(server.address, self._on_datagrams, self._on_received)
        except Unavailable:
            await server.close()
            raise
        return server

    def _refusal(self, peer: PeerIdentity, by: ProvenBy) -> Reason | None:
        return None if self._context is None else self._context.clients.refusal(peer, by)

    async def settle(self) -> None:
        if self._server is not None:
            await asyncio.to_thread(remember, self._server.address, self._directory, ADDRESS)

    def on_turn(self, late_ns: int) -> None:
        return None

    def on_serving(self, host_context: HostContext) -> None:
        self._context = host_context
        self._log = self._opened_log(host_context.config.streams)
        groups, session = host_context.groups, host_context.session
        me = ClientId(f"{session.host}:{session.incarnation}:losses")
        self._deciders = DeciderGroups(groups.catalog, groups.stamps.time_ns, host_context.endpoint, me)
        self._intakes = Intakes(groups, self._reception.request, self._log, self._deciders)
        self._outputs = OutputServer(host_context.groups, lambda: self._udp)
        host_context.admin_dispatch.streams.local = self
        self._reception.tune(host_context.config.streams)
        told = LossReports(
            host_context.reports,
            host_context.domain,
            fault_location(session.host, location_of(session)),
            self.now,
            self._led_class,
        )
        host_context.listeners.append(told.on_note)
        bindings = StreamBindings(host_context.authority, self._on_bindings)
        self._following = asyncio.get_running_loop().create_task(self._follow(bindings))

    def _opened_log(self, config: StreamsConfig) -> HostMessageLog | None:
        try:
            return opened_log(config, self._host)
        except InvalidRequest as error:
            log.error("this host records no messages", why=str(error))  # and serves without
            return None

    async def _follow(self, bindings: StreamBindings) -> None:
        try:
            await bindings.follow()
        except Exception:  # nobody else hears of it, and people must
            log.exception("this host no longer hears which streams there are")

    async def close(self) -> None:
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
        if self._looking is not None:
            self._looking.cancel()
        if self._outputs is not None:
            self._outputs.close()
        if self._deciders is not None:
            await self._deciders.close()
        if self._log is not None:
            await self._log.close()
        for wire in (self._udp, *self._joined.values()):
            if wire is not None:
                wire.close()
        if self._server is not None:
            await self._server.close()

    def _on_bindings(self, records: list[StreamRecord]) -> None:
        self._reception.bind(map(binding_of, records))
        wanted = dict.fromkeys(each.multicast for each in records if each.multicast)
        for gone in [each for each in self._joined if each not in wanted]:
            self._joined.pop(gone).close()
        for group in wanted:
            if group not in self._joined:
                try:
                    self._joined[group] = join_multicast(
                        Address.parse(group), self._at.host, self._on_datagrams, self._on_received
                    )
                except (Unavailable, InvalidRequest) as error:
                    log.error("a multicast group cannot be joined", group=group, why=str(error))

    # --- what comes in

    def _on_datagrams(self, received: Received) -> None:
        if self._intakes is not None:
            self._reception.on_datagrams(received)

    def _on_received(self) -> None:
        self._heard_ns = self._clock.now()
        if self._looking is None:
            self._look_later()

    def on_frame(self, connection: Connection, kind: Kind, payload: bytes) -> None:
        if self._context is None or self._outputs is None:
            connection.close(Reason(Why.DONE, "this host is still starting"))
        elif kind is Kind.STREAM:
            self._reception.on_datagram(connection, payload)
            self._on_received()
        else:
            self._serve_outputs(self._outputs, self._context, connection, decode_ask(payload))

    def _serve_outputs(
        self, outputs: OutputServer, context: HostContext, connection: Connection, ask: OutputAsk
    ) -> None:
        rights = context.clients.rights(connection.peer, connection.proven_by)
        if rights is not None and not rights.may_see(ask.group):
            connection.close(Reason(Why.REFUSED, f"client {rights.name} may not see {ask.group!r}"))
            return
        try:
            outputs.take(connection, ask)
        except InvalidRequest as error:
            connection.close(Reason(Why.REFUSED, str(error)))

    def on_closed(self, connection: Connection, reason: Reason) -> None:
        self._reception.on_path_gone(connection)
        if self._outputs is not None:
            self._outputs.on_closed(connection)

    def _look_later(self) -> None:
        self._looking = asyncio.get_running_loop().call_later(CREDIT_NS / SECOND, self._look)

    def _look(self) -> None:
        self._looking = None
        self._reception.give_credit()
        if self._clock.now() - self._heard_ns < QUIET_NS:
            self._look_later()

    # --- the reception's ports

    def now(self) -> int:
        return self._clock.now()

    def intake(self, group: GroupId) -> MemberIntake | None:
        return None if self._intakes is None else self._intakes.get(group)

    def answer(self, path: Hashable, data: bytes) -> None:
        if isinstance(path, Connection):
            path.send(Kind.STREAM, data)
        elif self._udp is not None:
            self._udp.send(path, data)  # type: ignore[arg-type]  # an address

    # --- orders

    def inspected(self, name: str, group: str, query: str = "") -> StreamsInspected:
        """What this host knows of a stream, or of those of a group, and what their objects answer."""
        found = [
            each
            for each in self._reception.streams
            if (not name or each.binding.stream == name) and (not group or self._name_of(each) == group)
        ]
        of_groups = {each.binding.group: self._streams_of(each) for each in found}
        members = [each for each in of_groups.values() if each is not None]
        names = {each.binding.stream for each in found}
        return StreamsInspected(
            host=self._host,
            is_leader=any(each.ports.leads() for each in members),
            is_active=any(each.ledger is not None for each in members),
            streams=tuple(_figures(each, of_groups[each.binding.group], self._log) for each in found),
            rules=tuple(
                StreamRule(number=rule.number, stream=rule.stream, text=str(rule))
                for each in members
                for rule in each.rules()
                if not name or not rule.stream or rule.stream == name
            ),
            decisions=tuple(
                each for member in members for each in decisions_of(member) if each.stream in names
            ),
            answer=_answers(members, query) if query else {},
            kernel_drops=sum(each.kernel_drops for each in (self._udp, *self._joined.values()) if each),
            refused=dict(self._reception.refused),
            decided_by=next((said for each in members if (said := each.handlers.settings.decided_by)), ""),
        )

    def end_rule(self, name: str, rule: int) -> int:
        stream = self._stream(name)
        streams = self._led(stream)
        return int(streams.end_rule(rule)) if rule else streams.sync(name)

    def lose(self, name: str, part: float) -> None:
        self._stream(name).loss = part

    def _stream(self, name: str) -> ReceivedStream:
        found = self._reception.stream(name)
        if found is None:
            raise InvalidRequest(f"{self._host} knows no stream {name!r}")
        return found

    def _led(self, stream: ReceivedStream) -> Streams:
        if self._intakes is None:
            raise Unavailable(f"{self._host} is still starting")
        return self._intakes.streams_led(stream.binding.group)

    def _led_class(self, name: str) -> tuple[GroupId, str] | None:
        """The group of a stream and its class, if its leader is here."""
        stream = self._reception.stream(name)
        streams = None if stream is None else self._streams_of(stream)
        if stream is None or streams is None or not streams.ports.leads() or self._context is None:
            return None
        record = self._context.groups.catalog.records.get(stream.binding.group)
        return None if record is None else (record.group, record.class_name)

    def _streams_of(self, stream: ReceivedStream) -> Streams | None:
        return None if self._intakes is None else self._intakes.streams_of(stream.binding.group)

    def _name_of(self, stream: ReceivedStream) -> str:
        records = {} if self._context is None else self._context.groups.catalog.records
        record = records.get(stream.binding.group)
        return "" if record is None else record.name


def decisions_of(streams: Streams) -> list[StreamDecision]:
    """The last decisions about losses, oldest first."""
    found = []
    for each in streams.audit():
        decided = each.decided
        if isinstance(decided, Decided | Lacked):
            said = ("lacked", "", "")
            if isinstance(decided, Decided):
                said = (decided.action, decided.by, decided.came_to)
            found.append(
                StreamDecision(
                    stream=decided.origin.stream,
                    incarnation=decided.origin.incarnation,
                    first=decided.first,
                    last=decided.last,
                    action=said[0],
                    by=said[1],
                    came_to=said[2],
                    at_ns=each.time_ns,
                )
            )
    return found


def _answers(members: list[Streams], query: str) -> dict[str, Any]:
    """What the first member that has an object answers to a query."""
    for each in members:
        outcome = each.ports.query(query, ())
        if isinstance(outcome, Returned):
            return {query: outcome.value}
    return {}


def _figures(
    stream: ReceivedStream, streams: Streams | None, message_log: HostMessageLog | None
) -> StreamFigures:
    counts = dict(stream.counts)
    if message_log is not None:
        counts["unrecorded"] = message_log.unrecorded(stream.binding.stream)
    mark = None if streams is None else streams.marks().get(stream.binding.stream)
    held = None if streams is None else streams.holding.newest(stream.binding.stream)
    if mark is not None:
        counts |= {"delivered": mark.delivered, "dropped": mark.dropped, "ignored": mark.ignored}
        counts |= {"losses": mark.losses, "failed": mark.failed}
    if held is not None:
        counts |= msgspec.to_builtins(
            {name: getattr(held.figures, name) for name in ("repeated", "late", "recovered", "asked")}
        )
        counts["no_room"] = held.figures.refused
    origin = stream.origin if mark is None else mark.origin
    return StreamFigures(
        name=stream.binding.stream,
        incarnation=0 if origin is None else origin.incarnation,
        source="" if origin is None else origin.source,
        delivered=0 if mark is None else mark.mark,
        highest=max(stream.highest, 0 if held is None else held.highest),
        held=0 if held is None else held.count,
        credit=0 if stream.giver is None else stream.giver.limit,
        loss=stream.loss,
        counts=counts,
    )


def _bounded(endpoint: ConnectionSettings) -> ConnectionSettings:
    limits: Limits = msgspec.structs.replace(
        endpoint.limits, connections_max=CONNECTIONS_MAX, members_max=1, handshakes_max=HANDSHAKES_MAX
    )
    return replace(endpoint, limits=limits)
