"""A client with a workload on the production core: it calls every group in every possible way."""

from collections.abc import Hashable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from holdfast.authority.groups import DISK, GroupRecord
from holdfast.calling.config import CallPolicy
from holdfast.calling.ordered_lane import OrderedLane
from holdfast.calling.ports import Ended, RequestPorts
from holdfast.calling.requests import Requests
from holdfast.execution.records import encode_arguments
from holdfast.model.calls import (
    CallOutcomeUnknown,
    Locate,
    Located,
    RequestId,
    ToClient,
)
from holdfast.model.errors import Overloaded, Rejected
from holdfast.model.ids import ClientId, GroupId, HostId
from holdfast.model.outcome import Poisoned, Raised, Refused, Returned, decode_outcome
from holdfast.sequence.retention import FRESH
from holdfast.sim.checkers import Append, Handle, Read
from holdfast.sim.engine.connections import Packet
from holdfast.sim.engine.node import NodePorts
from holdfast.sim.engine.options import MILLISECOND, SECOND
from holdfast.sim.scenarios.groups import observer
from holdfast.sim.scenarios.groups.connections import Connections
from holdfast.sim.scenarios.groups.observer import Book
from holdfast.sim.scenarios.groups.setup import CALLING, CLIENTS, Stage
from holdfast.sim.scenarios.sequence.disk_damage import views

DURATIONS_NS: Final = (300 * MILLISECOND, 1 * SECOND, 2 * SECOND)
OUTCOMES_NS: Final = (2 * SECOND, 300 * SECOND)
"""How long outcomes may be asked for. A group's time steps forward by seconds when a host dies (CSN-21), so
the first may expire by that, the second only by a clock that jumped (X4)."""
THINK_NS: Final = 40 * MILLISECOND
SLACK_NS: Final = 20 * MILLISECOND
"""How much longer than its duration a call may take, because clocks differ in rate."""
STALE_MS: Final = 300
DELAYS_S: Final = (0.0, 0.05, 0.5, 1.5)
WORK: Final = ("append", "append", "fail", "read", "read", "stale", "lane", "once", "later", "relay", "post")
SLOW: Final = 0.1
"""How often what appends computes for long (E15)."""
DEADLY: Final = 0.05
HOPS_MAX: Final = 3
CIRCLE: Final = 0.1
"""How often a group is made to call itself, which is forbidden (E3)."""
THROUGH: Final = 0.3
"""How often the last group that a call calls must call another group for it."""
TIMEOUTS_S: Final = (None, None, None, 0.2, 1.0)
LOCATE_NS: Final = 100 * MILLISECOND


@dataclass(slots=True, eq=False)
class Work:
    """One request of the workload."""

    kind: str
    record: GroupRecord
    token: str
    began_ns: int
    duration_ns: int
    handle: Handle | None = None
    about: "Work | None" = None
    """For a question about an outcome: the work that it asks about."""
    request: RequestId | None = None
    """For a question about an outcome: the request that it asks about."""
    own: int = 0
    """For a stale read: how many of this client's tokens the group had acknowledged when the read began."""
    outcome_ns: int = OUTCOMES_NS[-1]
    is_over: bool = False


class Caller:
    """One process of one client."""

    def __init__(self, ports: NodePorts, book: Book, stage: Stage) -> None:
        self._ports = ports
        self._book = book
        self._stage = stage
        self._world = ports.node.world
        self._client = ClientId(f"{ports.name}#{ports.incarnation}")
        self._rng = ports.random.stream("caller")
        self._slow_rng = ports.random.stream("slow calls")
        self._timers = ports.timers(self._on_timer)
        self._started = 0
        self._invocations: dict[GroupId, Requests] = {}
        self._lanes = {record.group: OrderedLane() for record in stage.groups}
        self._own: dict[GroupId, list[str]] = {record.group: [] for record in stage.groups}
        self._flushes: dict[GroupId, None] = {}
        self._hosts = Connections(
            ports,
            CALLING,
            tuple(stage.hosts),
            on_up=self._on_up,
            on_down=self._on_down,
            on_message=self._on_answer,
        )
        book.callers[ports.name] = self
        self._timers.set(THINK_NS, "think")
        self._timers.set(LOCATE_NS, "locate")

    # --- the connections

    def on_message(self, peer: str, packet: object) -> None:
        if isinstance(packet, Packet):
            self._hosts.on_packet(peer, packet)

    def _on_up(self, host: HostId) -> None:
        for invocations in self._invocations.values():
            invocations.on_connected(host)

    def _on_down(self, host: HostId) -> None:
        for invocations in self._invocations.values():
            invocations.on_disconnected(host)

    def _on_answer(self, host: HostId, message: ToClient) -> None:
        if isinstance(message, Located):
            self._begin(message)
        else:
            self._deliver(host, message)

    def _deliver(self, host: HostId, message: Any) -> None:
        reference = getattr(message, "reference", None)
        group = reference.group if reference is not None else message.group
        invocations = self._invocations.get(group)
        if invocations is not None:
            invocations.on_message(host, message)

    def _locate(self) -> None:
        """Ask any host for the groups that were not found yet."""
        hosts = self._hosts.connected
        for record in self._stage.groups:
            if record.group not in self._invocations and hosts:
                self._hosts.send(self._rng.choice(hosts), Locate(0, record.name))
        if len(self._invocations) < len(self._stage.groups):
            self._timers.set(LOCATE_NS, "locate")

    def _begin(self, located: Located) -> None:
        group = located.reference.group
        if group in self._invocations:
            return
        ports = self._ports
        self._invocations[group] = invocations = Requests(
            located.reference,
            self._client,
            located.time_ns,
            ports=RequestPorts(
                clock=ports.clock,
                timers=ports.timers,
                network=self._hosts,
                random=ports.random,
                trace=ports.trace,
                on_ended=lambda work, how, _: self._on_ended(work, how),
                later=partial(self._ask_flush, group),
                on_reference=lambda reference: None,
            ),
            config=CALLING,
        )
        for host in self._hosts.connected:
            invocations.on_connected(host)

    # --- the work

    def _on_timer(self, tag: Hashable) -> None:
        match tag:
            case "flush":
                flushes, self._flushes = self._flushes, {}
                for group in flushes:
                    self._invocations[group].flush()
            case "locate":
                self._locate()
            case (Work() as work, RequestId() as request):
                self.ask_outcome(work, request)
            case _:
                if not self._book.is_ending:
                    self._work()
                self._timers.set(int(self._rng.expovariate(1.0) * THINK_NS) + 1, "think")

    def _ask_flush(self, group: GroupId) -> None:
        if not self._flushes:
            self._timers.set(0, "flush")
        self._flushes[group] = None

    def call_all(self) -> None:
        """Call each group once, in the simplest way, and wait for a long time."""
        for record in self._stage.groups:
            self._begin_work(record, _plainest(record), DURATIONS_NS[-1])

    def _work(self) -> None:
        record = self._rng.choice(self._stage.groups)
        kind = self._kind() if record.style != "stateless" else _plainest(record)
        self._begin_work(record, kind, self._rng.choice(DURATIONS_NS))

    def _begin_work(self, record: GroupRecord, kind: str, duration_ns: int) -> None:
        invocations = self._invocations.get(record.group)
        if invocations is None:
            return
        self._started += 1
        token = f"{self._client}/{kind}/{self._started}"
        own = len(self._own[record.group])
        work = Work(kind, record, token, self._ports.clock.now(), duration_ns, own=own)
        work.outcome_ns = self._rng.choice(OUTCOMES_NS)
        policy = CallPolicy(duration_ns=duration_ns, outcome_ns=work.outcome_ns, is_reinvoked=kind != "once")
        try:
            invocations.call(
                work,
                *self._call_of(kind, token, record),
                policy,
                is_query=kind in ("read", "stale"),
                stale_ms=STALE_MS if kind == "stale" else None,
                lane=self._lanes[record.group] if kind == "lane" else None,
            )
        except (Overloaded, Rejected) as error:
            self._world.sometimes(f"a call could not begin: {error.code}")
            return
        if kind not in ("stale", "echo"):
            # A stale read is not part of a linearizable history; it is checked separately.
            request = Read() if kind == "read" else Append(token)
            work.handle = self._book.history.begin(self._client, record.name, request)

    def _kind(self) -> str:
        """Draw the kind of a call to a group with state.

        A deadly call comes early enough for the damage to be repaired by the end.
        """
        deaths = self._book.deaths
        if deaths.tokens_left and not self._world.is_healed and self._rng.random() < DEADLY:
            deaths.tokens_left -= 1
            return "die"
        kind = self._rng.choice(WORK)
        return "grind" if kind == "append" and self._slow_rng.random() < SLOW else kind

    def _call_of(self, kind: str, token: str, record: GroupRecord) -> tuple[str, bytes]:
        """Return the method and its arguments."""
        match kind:
            case "read" | "stale":
                return "read", bytes(encode_arguments((), {}))
            case "later":
                return "later", bytes(encode_arguments((token, self._rng.choice(DELAYS_S)), {}))
            case "relay":
                return "relay", bytes(encode_arguments((token, *self._hops(record)), {}))
            case "post":
                return "post", bytes(encode_arguments((token, self._receivers()), {}))
            case "echo" | "fail" | "die" | "grind":
                return kind, bytes(encode_arguments((token,), {}))
            case _:
                return "append", bytes(encode_arguments((token,), {}))

    def _hops(self, record: GroupRecord) -> tuple[list[str], float | None, str]:
        """Draw a chain of calls for a call of *record*.

        It consists of the groups to call, in order, how long to wait for each, and which group the last of
        them calls in turn. Any group may call any other, so that some wait for each other (E10); groups whose
        state may be lost for good are left out, because their callers would wait for them.
        """
        groups = [each.name for each in self._stage.groups if each.durability == DISK]
        others = [name for name in groups if name != record.name]
        if not others:
            return [record.name], None, ""
        if self._rng.random() < CIRCLE:
            others.append(record.name)
        hops = [self._rng.choice(others) for _ in range(self._rng.randint(1, HOPS_MAX))]
        through = self._rng.choice(groups) if self._rng.random() < THROUGH else ""
        return hops, self._rng.choice(TIMEOUTS_S), through

    def _receivers(self) -> list[str]:
        """Return the groups that a call may be sent to, possibly including the sender.

        A group whose state may be lost for good would never receive it.
        """
        groups = [
            each.name
            for each in self._stage.groups
            if each.durability == DISK and each.is_begun and each.style != "stateless"
        ]
        return [self._rng.choice(groups) for _ in range(self._rng.randint(1, HOPS_MAX))] if groups else []

    def _have_asked(self, work: Work, request: RequestId) -> None:
        """Let a client ask for the outcome of a request.

        It is this client later, or another at once, which a copy still in transit may overtake (X3). A lane
        continues only after its own client's question.
        """
        if work.kind == "lane" or self._rng.random() < 0.3:
            self._timers.set(self._rng.randrange(OUTCOMES_NS[0]), (work, request))
        elif self._rng.random() < 0.6:
            self._book.callers[self._rng.choice(CLIENTS)].ask_outcome(work, request)

    def ask_outcome(self, about: Work, request: RequestId) -> None:
        """Ask for the outcome of a request of this client or another."""
        if about.record.group not in self._invocations:
            return
        work = Work(
            "outcome", about.record, about.token, self._ports.clock.now(), DURATIONS_NS[-1], about=about
        )
        work.request = request
        policy = CallPolicy(duration_ns=work.duration_ns, outcome_ns=work.outcome_ns)
        try:
            self._invocations[about.record.group].ask_outcome(work, request, policy)
        except Overloaded:
            return

    # --- how it ends

    def _on_ended(self, work: Work, how: Ended) -> None:
        if work.is_over:
            self._world.violation("once", f"{work.token} ended twice")
        work.is_over = True
        took_ns = self._ports.clock.now() - work.began_ns
        if took_ns > work.duration_ns + SLACK_NS:
            self._world.violation("ends", f"{work.token} took {took_ns} of {work.duration_ns} ns")
        subject = work.about or work
        if isinstance(how, bytes):
            outcome = decode_outcome(how)
            if not isinstance(outcome, Refused):
                self._book.done(work.record.group)
            self._on_outcome(work, subject, outcome)
        elif isinstance(how, CallOutcomeUnknown):
            self._world.sometimes(f"outcome unknown: {work.kind}")
            if work.about is None and work.kind != "echo":
                self._have_asked(work, how.request_id)
        else:
            self._world.sometimes(f"not executed: {how.code}")
            if work.about is None:
                self._fail(subject)

    def _on_outcome(self, work: Work, subject: Work, outcome: Any) -> None:
        match outcome:
            case Returned(value=str(token)) if work.kind == "echo":
                self._check_reply(work, token)
            case Returned(value=[str(token), int(place)]) if work.kind not in ("read", "stale"):
                self._acknowledge(subject, token, place)
            case Raised(text=text) if subject.kind == "fail":
                raised, _, at = text.partition("@")
                self._acknowledge(subject, raised, int(at))
            case Returned(value=tokens) if work.kind == "read" and work.handle is not None:
                self._book.history.ok(work.handle, tuple(tokens))
            case Returned(value=tokens) if work.kind == "stale":
                self._check_stale(work, tokens)
            case Refused(code="expired") if work.about is None:
                self._check_expired(work)
                self._fail(subject)
            case Poisoned() if subject.kind == "die":
                self._world.sometimes("a call was poisoned")
                self._fail(subject)
            case Refused(code="overloaded") if work.kind == "read":
                self._world.sometimes("a query waited too long for an operation that was half done")
                self._fail(subject)
            case Refused(code="never_runs"):
                self._world.sometimes("settled: it never runs")
                self._check_settled(work)
                self._fail(subject)
            case _:
                self._world.violation("outcome", f"{work.kind} of {work.token} ended with {outcome}")

    def _acknowledge(self, work: Work, token: str, place: int) -> None:
        self._check_reply(work, token)
        if work.handle is not None:
            self._book.history.ok(work.handle, place)
            self._own[work.record.group].append(token)

    def _check_reply(self, work: Work, token: str) -> None:
        if token != work.token:
            self._world.violation("reply", f"{work.token} got the reply to {token}")

    def _check_settled(self, work: Work) -> None:
        """Require that the primary of the current view knows that the request never runs (X3)."""
        asked = work.request
        view = next((each for each in views(self._world) if each.group == work.record.group), None)
        host = self._world.nodes[view.primary].core if view is not None else None
        hosted = host.groups.hosted.get(work.record.group) if host is not None and host.groups else None
        if view is None or hosted is None or asked is None:
            return
        execution = hosted.replica.execution
        if execution is None or not hosted.is_ready or hosted.member.epoch != view.epoch:
            return
        if execution.retention.judge(asked.client, asked.number, asked.expiration_s) is FRESH:
            said = f"{work.token} was said to run never, and {view.primary} would run it"
            self._world.violation("X3", said)

    def _check_expired(self, work: Work) -> None:
        """Check a call that expired.

        It is made again, however wrong the estimate of the group's time was, except in a lane, whose next
        call may have run by then.
        """
        self._world.sometimes("expired before it was ordered")
        is_reckoned_well = work.outcome_ns == OUTCOMES_NS[-1] and not observer.may_be_wrong(self._book)
        if work.kind != "lane" or is_reckoned_well:
            self._world.violation("X4", f"{work.token} has expired within its duration")

    def _fail(self, work: Work) -> None:
        if work.handle is not None and work.kind != "read":
            self._book.history.failed(work.handle)

    def _check_stale(self, work: Work, tokens: list[str]) -> None:
        """Check a stale read (S7).

        It may show an older state, but a real one, and none older than what its own client has seen.
        """
        self._world.sometimes("a stale read was answered")
        self._book.saw(work.record.group, tokens)
        known = dict.fromkeys(tokens)
        if work.record.group in self._book.losses.groups:
            return
        missing = [token for token in self._own[work.record.group][: work.own] if token not in known]
        if missing:
            self._world.violation("S7", f"a read did not see its own client's {missing[0]}")


def _plainest(record: GroupRecord) -> str:
    """Return the kind of call that requires least of a group."""
    return "echo" if record.style == "stateless" else "append"
