"""Hosts for tests of the client: real sockets, a real table of requests, one plain object behind them.

What is kept of a group is shared by its hosts, as the sequence would; each host judges by its own view of
who is primary. Tests reach in to move the primary, hold replies back, and break connections.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
from net_world import SECRET

from holdfast.execution.interface import BadCall, Interface
from holdfast.execution.records import Call, Sent, decode_calls
from holdfast.model.calls import (
    Calls,
    Follow,
    FollowHosts,
    HostAt,
    Locate,
    Located,
    Nested,
    Ping,
    Pong,
    Reads,
    Redirected,
    RefusalCode,
    Replies,
    Seen,
    Settle,
    ToClient,
    Turned,
    Whereabouts,
    decode_to_host,
    encode_message,
)
from holdfast.model.ids import SECOND, ClientId, Epoch, GroupId, HostId, Position
from holdfast.model.outcome import Refused, encode_outcome, encode_raised, encode_returned
from holdfast.model.reference import MemberAddress, Reference, Routing, route
from holdfast.net import (
    Address,
    Connection,
    ConnectionSettings,
    Kind,
    Limits,
    PeerIdentity,
    Reason,
    Role,
    Server,
    serve,
)
from holdfast.net.handshake import HOST_ADMITS
from holdfast.sequence.retention import ABANDONED, EXPIRED, NEVER, Fresh, Repeated, Retention

GROUP = GroupId(7)
BEGAN_S = 2_000_000_000
"""The group's time has nothing to do with this machine's."""
REFUSALS = {
    EXPIRED: encode_outcome(Refused("expired", EXPIRED.why)),
    ABANDONED: encode_outcome(Refused("abandoned", ABANDONED.why)),
    NEVER: encode_outcome(Refused("never_runs", NEVER.why)),
}
_sent = msgspec.msgpack.Decoder(Sent)


class State:
    """What the members of one group agree on."""

    def __init__(self, instance: object, name: str = "ledger") -> None:
        self.name = name
        self.interface = Interface(type(instance))
        self.instance = instance
        self.table = Retention()
        self.position = Position(0)
        self.time_ns = BEGAN_S * SECOND
        self.executed: list[tuple[ClientId, int]] = []
        self.spoilt: set[str] = set()
        """Methods whose replies nobody can read."""

    def run(self, client: ClientId, floor: int, horizon_s: int, calls: list[Call]) -> list[bytes]:
        self.table.advance(self.time_ns // SECOND)
        self.table.raise_floor(client, floor, horizon_s)
        return [self._run_one(client, call) for call in calls]

    def settle(self, asked: Settle) -> bytes:
        self.table.advance(self.time_ns // SECOND)
        verdict = self.table.settle(asked.asked_client, asked.asked_number, asked.asked_expiration_s)
        return verdict.reply if isinstance(verdict, Repeated) else REFUSALS[verdict]  # type: ignore[index]

    def read(self, call: Call) -> bytes:
        return self._invoke(call)

    def _run_one(self, client: ClientId, call: Call) -> bytes:
        verdict = self.table.judge(client, call.number, call.expiration_s)
        if isinstance(verdict, Repeated):
            return verdict.reply
        if not isinstance(verdict, Fresh):
            return REFUSALS[verdict]  # type: ignore[index]  # nothing is ever in progress here
        self.position = Position(self.position + 1)
        self.table.begin(client, call.number, self.position, call.expiration_s)
        self.executed.append((client, call.number))
        outcome = self._invoke(call)
        self.table.finish(client, call.number, outcome)
        return outcome

    def _invoke(self, call: Call) -> bytes:
        if call.method in self.spoilt:
            return b"\xc1"
        try:
            args, kwargs = self.interface.operation(call.method).decoded(call.arguments)
        except BadCall as error:
            return encode_outcome(Refused(error.code, str(error)))
        try:
            return encode_returned(getattr(self.instance, call.method)(*args, **kwargs))
        except Exception as error:
            return encode_raised(error)


@dataclass
class Host:
    """One host; ``view`` is what it believes."""

    name: HostId
    state: State
    limits: Limits
    view: Reference | None = None
    server: Server | None = None
    answers_pings: bool = True
    holds_replies: bool = False
    """Execute, and answer nothing until ``release``."""
    drops_frames: bool = False
    """Take frames and do nothing with them."""
    turns_away: RefusalCode | None = None
    frames: list[Any] = field(default_factory=list)
    held: list[Callable[[], None]] = field(default_factory=list)

    async def start(self, *, incarnation: int = 1, address: Address | None = None) -> None:
        identity = PeerIdentity("test", Role.HOST, self.name, incarnation)
        self.server = await serve(
            address or Address("127.0.0.1", 0),
            lambda _: self,
            ConnectionSettings(identity, self.limits, credentials=SECRET),
            admits=HOST_ADMITS,
        )

    @property
    def address(self) -> Address:
        assert self.server is not None
        return self.server.address

    async def stop(self) -> None:
        if self.server is not None:
            server, self.server = self.server, None
            await server.close()

    def break_connections(self) -> None:
        assert self.server is not None
        for connection in self.server.connections:
            connection.close()

    def release(self) -> None:
        self.holds_replies = False
        held, self.held = self.held, []
        for send in held:
            send()

    def push(self, reference: Reference) -> None:
        """Tell every client of a newer reference, unasked."""
        assert self.server is not None
        for connection in self.server.connections:
            self._send(connection, Redirected(0, reference))

    def tell_where(self, hosts: tuple[HostAt, ...]) -> None:
        """Tell every client where the hosts are now."""
        assert self.server is not None
        for connection in self.server.connections:
            self._send(connection, Whereabouts(hosts))

    # --- the connections

    def on_closed(self, connection: Connection, reason: Reason) -> None:
        return None

    def on_frame(self, connection: Connection, kind: Kind, payload: bytes) -> None:
        assert kind is Kind.CALL
        message = decode_to_host(payload)
        if isinstance(message, Ping):
            if self.answers_pings:
                self._send(connection, Pong(message.number))
            return
        if isinstance(message, Follow | FollowHosts):
            return
        self.frames.append(message)
        if self.drops_frames:
            return
        if isinstance(message, Locate):
            self._locate(connection, message)
        elif self.turns_away is not None:
            self._send(connection, Turned(message.frame, GROUP, self.turns_away, "as told"))
        else:
            self._judge(connection, message)

    def _locate(self, connection: Connection, asked: Locate) -> None:
        view = self.view
        if view is not None and (asked.name == view.name or asked.group == view.group):
            self._send(connection, Located(asked.frame, view, self.state.time_ns))
        else:
            self._send(connection, Turned(asked.frame, GroupId(0), RefusalCode.NO_SUCH_GROUP))

    def _judge(self, connection: Connection, message: Calls | Reads | Settle | Nested) -> None:
        assert self.view is not None
        verdict = route(message.version, self.view.version, is_primary=self.view.primary == self.name)
        if isinstance(message, Reads):
            calls = decode_calls(message.calls)
            self._reply(
                connection, [call.number for call in calls], [self.state.read(call) for call in calls]
            )
        elif verdict is Routing.FORWARD:
            self._send(connection, Redirected(message.frame, self.view))
        elif verdict is Routing.NOT_PRIMARY:
            self._send(connection, Turned(message.frame, GROUP, RefusalCode.NOT_PRIMARY))
        elif isinstance(message, Settle):
            self._reply(connection, [message.number], [self.state.settle(message)])
        else:
            sent = _sent.decode(message.sent)
            calls = decode_calls(sent.calls)
            outcomes = self.state.run(sent.client, sent.floor, sent.horizon_s, calls)
            numbers = [message.number] if isinstance(message, Nested) else [call.number for call in calls]
            self._reply(connection, numbers, outcomes)

    def _reply(self, connection: Connection, numbers: list[int], outcomes: list[bytes]) -> None:
        assert self.view is not None
        seen = Seen(self.view.version, self.state.position)
        replies = Replies(GROUP, numbers, outcomes, seen, self.state.time_ns)
        if self.holds_replies:
            self.held.append(lambda: self._send(connection, replies))
        else:
            self._send(connection, replies)

    def _send(self, connection: Connection, message: ToClient) -> None:
        connection.send(Kind.CALL_ANSWER, encode_message(message))


def calls_to(host: Host) -> list[tuple[Sent, Call]]:
    """Every copy of a call that has reached it, with the frame it came in."""
    sents = [_sent.decode(each.sent) for each in host.frames if type(each) is Calls]
    return [(sent, call) for sent in sents for call in decode_calls(sent.calls)]


class Cluster:
    """Three hosts of one group."""

    def __init__(self, instance: object, limits: Limits | None = None) -> None:
        self.state = State(instance)
        self.hosts = {name: Host(HostId(name), self.state, limits or Limits()) for name in ("a", "b", "c")}
        self.version = 0
        self._addresses: dict[str, Address] = {}

    async def __aenter__(self) -> "Cluster":
        for name, host in self.hosts.items():
            await host.start()
            self._addresses[name] = host.address
        self.move_to(next(iter(self.hosts)))
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*(host.stop() for host in self.hosts.values()))

    @property
    def url(self) -> str:
        addresses = ",".join(map(str, self._addresses.values()))
        return f"holdfast://{SECRET.client_key('tester').text}@{addresses}/test"

    def move_to(self, primary: str, *, told: tuple[str, ...] | None = None) -> Reference:
        """Make *primary* primary, in a new view that only those *told* know of."""
        self.version += 1
        members = tuple(MemberAddress(HostId(each), str(at)) for each, at in self._addresses.items())
        view = Reference(GROUP, self.state.name, Epoch(self.version), HostId(primary), members)
        for name in told or tuple(self.hosts):
            self.hosts[name].view = view
        return view
