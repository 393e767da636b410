"""A client with a workload on the production core; it checks that every call ends as it must."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from holdfast.calling.client_heartbeats import ClientHeartbeats
from holdfast.calling.config import CallPolicy, ClientConfig
from holdfast.calling.ordered_lane import OrderedLane
from holdfast.calling.ports import Ended, RequestPorts
from holdfast.calling.requests import Requests
from holdfast.execution.records import Sent
from holdfast.model.calls import (
    CallOutcomeUnknown,
    Calls,
    Locate,
    Located,
    Pong,
    RequestId,
    ToHost,
    Whereabouts,
    decode_to_client,
    encode_message,
)
from holdfast.model.errors import Overloaded, Rejected
from holdfast.model.ids import ClientId, HostId
from holdfast.model.outcome import Raised, Refused, Returned, decode_outcome
from holdfast.model.reference import Reference
from holdfast.sim.checkers import Append, Handle, History, Read
from holdfast.sim.engine.connections import Connector, Packet
from holdfast.sim.engine.node import NodePorts
from holdfast.sim.engine.options import MILLISECOND, SECOND
from holdfast.sim.scenarios.calls.group import APPEND, FAIL, NAME, READ, Group, arguments_of

CONFIG: Final = ClientConfig(
    window_calls=24,
    patience_ns=300 * MILLISECOND,
    patience_most_ns=2 * SECOND,
    rest_ns=5 * MILLISECOND,
    rest_most_ns=100 * MILLISECOND,
    heartbeat_interval_ns=60 * MILLISECOND,
    heartbeat_timeout_ns=250 * MILLISECOND,
)
DURATIONS_NS: Final = (300 * MILLISECOND, 1 * SECOND, 4 * SECOND)
OUTCOME_NS: Final = 3 * SECOND
THINK_NS: Final = 8 * MILLISECOND
STALE_MS: Final = 200
SLACK_NS: Final = 20 * MILLISECOND
"""How much longer than its duration a call may take, because clocks differ in rate."""
WORK: Final = ("append", "append", "append", "fail", "read", "stale", "lane", "once")

_sent: Final = msgspec.msgpack.Decoder(Sent)


@dataclass(slots=True, eq=False)
class Work:
    """One request of the workload."""

    kind: str
    token: str
    began_ns: int
    duration_ns: int
    handle: Handle | None = None
    number: int = 0
    about: "Work | None" = None
    """For a question about an outcome: the work that it asks about."""
    own: int = 0
    """For a stale read: how many tokens of this client had been acknowledged when the read began."""
    is_over: bool = False


class Caller:
    """One client process."""

    def __init__(self, ports: NodePorts, group: Group, history: History) -> None:
        self.answered = 0
        self.started = 0
        self.invocations: Requests | None = None
        self.working: dict[Work, None] = {}
        """The work that has not ended."""
        self._ports = ports
        self._group = group
        self._world = ports.node.world
        self._history = history
        self._rng = ports.random.stream("caller")
        self._timers = ports.timers(self._on_timer)
        self._lane = OrderedLane()
        self._own: list[str] = []
        self._version = 0
        self._is_flush_asked = False
        self._connected: dict[HostId, None] = {}
        self._connector: Connector | None = None
        self._heartbeats = ClientHeartbeats(
            clock=ports.clock,
            timers=ports.timers,
            network=self,
            give_up=lambda host: self._connector.end(host) if self._connector is not None else None,
            interval_ns=CONFIG.heartbeat_interval_ns,
            timeout_ns=CONFIG.heartbeat_timeout_ns,
        )
        self._connector = Connector(
            ports, group.hosts, on_up=self._on_up, on_down=self._on_down, on_body=self._on_body
        )
        self._timers.set(THINK_NS, "think")

    # --- the connections

    def on_message(self, peer: str, packet: Packet) -> None:
        if self._connector is not None:
            self._connector.on_packet(peer, packet)

    def send(self, host: str, message: object) -> None:
        """Send a message: this is the Network port of the client's parts."""
        if isinstance(message, Calls):
            self._check_frame(message)
        if self._connector is not None:
            self._connector.send(host, encode_message(message))  # type: ignore[arg-type]  # the core sends only these

    def _on_up(self, name: str) -> None:
        host = HostId(name)
        self._connected[host] = None
        self._heartbeats.on_connected(host)
        if self.invocations is None:
            locate: ToHost = Locate(0, NAME)
            self.send(host, locate)
        else:
            self.invocations.on_connected(host)

    def _on_down(self, name: str) -> None:
        host = HostId(name)
        self._connected.pop(host, None)
        self._heartbeats.on_disconnected(host)
        if self.invocations is not None:
            self._world.sometimes("a connection ended")
            self.invocations.on_disconnected(host)

    def _on_body(self, name: str, body: bytes) -> None:
        host, message = HostId(name), decode_to_client(body)
        self._heartbeats.on_heard(host)
        if isinstance(message, Located):
            self._begin(message)
        elif not isinstance(message, Pong | Whereabouts) and self.invocations is not None:
            self.invocations.on_message(host, message)

    def _begin(self, located: Located) -> None:
        if self.invocations is not None:
            return
        ports = self._ports
        self.invocations = Requests(
            located.reference,
            ClientId(f"{ports.name}#{ports.incarnation}"),
            located.time_ns,
            ports=RequestPorts(
                clock=ports.clock,
                timers=ports.timers,
                network=self,
                random=ports.random,
                trace=ports.trace,
                on_ended=lambda work, how, _: self._on_ended(work, how),
                later=self._ask_flush,
                on_reference=self._check_reference,
            ),
            config=CONFIG,
        )
        for host in self._connected:
            self.invocations.on_connected(host)

    # --- the work

    def _on_timer(self, tag: Hashable) -> None:
        if tag == "flush":
            self._is_flush_asked = False
            if self.invocations is not None:
                self.invocations.flush()
        elif isinstance(tag, tuple):
            self._ask_outcome(*tag)
        else:
            self._work()
            self._timers.set(int(self._rng.expovariate(1.0) * THINK_NS) + 1, "think")

    def _ask_flush(self) -> None:
        if not self._is_flush_asked:
            self._is_flush_asked = True
            self._timers.set(0, "flush")

    def _work(self) -> None:
        invocations = self.invocations
        if invocations is None:
            return
        self.started += 1
        kind = self._rng.choice(WORK)
        token = f"{self._ports.name}/{kind}/{self.started}"
        work = Work(kind, token, self._ports.clock.now(), self._rng.choice(DURATIONS_NS), own=len(self._own))
        policy = CallPolicy(duration_ns=work.duration_ns, outcome_ns=OUTCOME_NS, is_reinvoked=kind != "once")
        is_read = kind in ("read", "stale")
        method = READ if is_read else FAIL if kind == "fail" else APPEND
        try:
            work.number = invocations.call(
                work,
                method,
                arguments_of(token),
                policy,
                is_query=is_read,
                stale_ms=STALE_MS if kind == "stale" else None,
                lane=self._lane if kind == "lane" else None,
            )
        except (Overloaded, Rejected) as error:
            self._world.sometimes(f"a call could not begin: {error.code}")
            return
        if kind != "stale":
            # A stale read is not part of a linearizable history; it is checked separately.
            request = Read() if is_read else Append(token)
            work.handle = self._history.begin(invocations.client, NAME, request)
        self.working[work] = None

    def _ask_outcome(self, about: Work, request: RequestId) -> None:
        if self.invocations is None:
            return
        work = Work("outcome", about.token, self._ports.clock.now(), DURATIONS_NS[-1], about=about)
        policy = CallPolicy(duration_ns=work.duration_ns, outcome_ns=OUTCOME_NS)
        try:
            work.number = self.invocations.ask_outcome(work, request, policy)
        except Overloaded:
            return
        self.working[work] = None

    # --- how it ends

    def _on_ended(self, work: Work, how: Ended) -> None:
        if work.is_over:
            self._world.violation("once", f"{work.token} ended twice")
        work.is_over = True
        self.working.pop(work, None)
        took_ns = self._ports.clock.now() - work.began_ns
        if took_ns > work.duration_ns + SLACK_NS:
            self._world.violation("ends", f"{work.token} took {took_ns} of {work.duration_ns} ns")
        subject = work.about or work
        if isinstance(how, bytes):
            self._world.operation()
            self.answered += 1
            self._on_outcome(work, subject, decode_outcome(how))
        elif isinstance(how, CallOutcomeUnknown):
            self._world.sometimes(f"outcome unknown: {work.kind}")
            if work.about is None and (work.kind == "lane" or self._rng.random() < 0.5):
                self._timers.set(self._rng.randrange(OUTCOME_NS), (work, how.request_id))
        else:
            self._world.sometimes(f"not executed: {how.code}")
            if work.about is None:
                self._fail(subject)

    def _on_outcome(self, work: Work, subject: Work, outcome: Any) -> None:
        match outcome:
            case Returned(value=[str(token), int(place)]) if work.kind not in ("read", "stale"):
                self._acknowledge(subject, token, place)
            case Raised(text=text):
                raised, _, at = text.partition("@")
                self._acknowledge(subject, raised, int(at))
            case Returned(value=tokens) if work.kind == "read" and work.handle is not None:
                self._history.ok(work.handle, tuple(tokens))
            case Returned(value=tokens) if work.kind == "stale":
                self._check_stale(work, tokens)
            case Refused(code="never_runs") if work.about is not None:
                self._world.sometimes("settled: it never runs")
                self._fail(subject)
            case _:
                self._world.violation("X4", f"{work.token} ended with {outcome}")

    def _acknowledge(self, work: Work, token: str, place: int) -> None:
        if token != work.token:
            self._world.violation("reply", f"{work.token} got the reply to {token}")
        if work.handle is not None:
            self._history.ok(work.handle, place)
            self._own.append(token)

    def _fail(self, work: Work) -> None:
        if work.handle is not None and work.kind != "read":
            self._history.failed(work.handle)

    # --- the rules

    def _check_stale(self, work: Work, tokens: list[str]) -> None:
        self._world.sometimes("a stale read was answered")
        if tokens != self._group.tokens[: len(tokens)]:
            self._world.violation("S7", "a stale read saw what never was")
        known = dict.fromkeys(tokens)
        missing = [token for token in self._own[: work.own] if token not in known]
        if missing:
            self._world.violation("S7", f"a read did not see its own client's {missing[0]}")

    def _check_reference(self, reference: Reference) -> None:
        self._world.sometimes("a newer reference was adopted")
        if reference.version <= self._version:
            self._world.violation("FTC-78", f"version {reference.version} adopted after {self._version}")
        self._version = reference.version

    def _check_frame(self, message: Calls) -> None:
        sent = _sent.decode(message.sent)
        kept_s = sent.horizon_s - self._group.time_ns() // SECOND
        if kept_s > (DURATIONS_NS[-1] + OUTCOME_NS) // SECOND + 2:
            self._world.violation("X4", f"a reply must be kept for {kept_s} s of the group's time")
        awaited = [work.number for work in self.working]
        if awaited and sent.floor > min(awaited):
            self._world.violation("X2", f"floor {sent.floor}, but {min(awaited)} is awaited")
