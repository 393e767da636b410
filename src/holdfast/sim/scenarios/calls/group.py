"""A simplified group with one sequence, one table and one primary at a time, and the hosts of its members.

How members agree is not simulated here but in the scenario `groups`. Whatever commits goes through
:meth:`Group.commit`, which refuses an older epoch. What a primary has ordered and not committed when another
takes over may survive or not, as K1 permits.

A :class:`Member` runs on each host: it takes frames, judges them by its view, and answers after the commit.
"""

import random
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final

import msgspec

from holdfast.execution.records import Call, Sent, decode_calls, encode_arguments
from holdfast.model.calls import (
    NO_FRAME,
    Calls,
    Follow,
    FollowHosts,
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
    decode_to_host,
    encode_message,
)
from holdfast.model.errors import invariant
from holdfast.model.ids import SECOND, ClientId, Epoch, GroupId, HostId, Position
from holdfast.model.outcome import Raised, Refused, encode_outcome, encode_returned
from holdfast.model.reference import MemberAddress, Reference, Routing, route
from holdfast.sequence.retention import ABANDONED, EXPIRED, NEVER, Fresh, InProgress, Repeated, Retention
from holdfast.sim.engine.clocks import WALL_START
from holdfast.sim.engine.connections import Acceptor, Packet, Stream
from holdfast.sim.engine.node import NodePorts
from holdfast.sim.engine.options import MICROSECOND, MILLISECOND
from holdfast.sim.engine.world import World

GROUP: Final = GroupId(7)
NAME: Final = "tokens"
SURVIVES: Final = 0.5

REFUSALS: Final = {
    EXPIRED: encode_outcome(Refused("expired", EXPIRED.why)),
    ABANDONED: encode_outcome(Refused("abandoned", ABANDONED.why)),
    NEVER: encode_outcome(Refused("never_runs", NEVER.why)),
}
READ: Final = "read"
APPEND: Final = "append"
FAIL: Final = "fail"
"""The method that appends its token, then raises."""


@dataclass(slots=True)
class Batch:
    """Calls that a primary has ordered, and their outcomes once they are committed."""

    epoch: Epoch
    sent: Sent
    calls: list[Call]
    outcomes: list[bytes] | None = None


@dataclass(frozen=True, slots=True)
class View:
    epoch: Epoch
    primary: HostId


class Group:
    """The group of one run."""

    def __init__(self, world: World, hosts: tuple[str, ...]) -> None:
        self.world = world
        self.hosts = tuple(HostId(host) for host in hosts)
        self.view = View(Epoch(1), self.hosts[0])
        self.tokens: list[str] = []
        self.position = Position(0)
        self.table = Retention()
        self._ordered: list[Batch] = []
        self._rng: random.Random = world.rng("group")
        self._ahead_ns = 0
        self._stamped_ns = 0

    # --- who serves

    def reference(self, view: View) -> Reference:
        members = tuple(MemberAddress(host, f"{host}:1") for host in self.hosts)
        return Reference(GROUP, NAME, view.epoch, view.primary, members)

    def take_over(self, host: HostId) -> None:
        """Make *host* the primary. Some of what the previous primary had ordered survives."""
        ordered, self._ordered = self._ordered, []
        self.view = View(Epoch(self.view.epoch + 1), host)
        self.table = Retention.load(self.table.save())
        self._ahead_ns = self._rng.randrange(SECOND // 2)
        for batch in ordered:
            if self._rng.random() < SURVIVES:
                self.world.sometimes("calls survived their primary")
                self._execute(batch)

    def time_ns(self) -> int:
        """Return the time that the primary would stamp now.

        It is that of the primary's own clock, and never less than before.
        """
        self._stamped_ns = max(self._stamped_ns, WALL_START + self.world.now + self._ahead_ns)
        return self._stamped_ns

    # --- the sequence

    def order(self, view: View, sent: Sent) -> Batch:
        batch = Batch(view.epoch, sent, decode_calls(sent.calls))
        if view == self.view:
            self._ordered.append(batch)
        return batch

    def commit(self, batch: Batch) -> bool:
        """Commit *batch*; returns False for a primary that has been replaced (S2)."""
        if batch.epoch != self.view.epoch:
            return False
        # Batches commit in order: those ordered before it commit with it.
        while batch.outcomes is None:
            self._execute(self._ordered.pop(0))
        return True

    def settle(self, client: ClientId, number: int, expiration_s: int) -> bytes:
        """Answer an ordered question about an outcome (X3)."""
        while self._ordered:
            self._execute(self._ordered.pop(0))
        self._advance(1)
        verdict = self.table.settle(client, number, expiration_s)
        return verdict.reply if isinstance(verdict, Repeated) else REFUSALS[verdict]  # type: ignore[index]  # nothing is in progress here

    def _execute(self, batch: Batch) -> None:
        sent, table = batch.sent, self.table
        first = self._advance(len(batch.calls))
        table.raise_floor(sent.client, sent.floor, sent.horizon_s)
        batch.outcomes = []
        for index, call in enumerate(batch.calls):
            if call.method == READ:
                batch.outcomes.append(encode_returned(self.tokens))
                continue
            verdict = table.judge(sent.client, call.number, call.expiration_s)
            if isinstance(verdict, Fresh):
                table.begin(sent.client, call.number, Position(first + index), call.expiration_s)
                outcome = self._run(call)
                table.finish(sent.client, call.number, outcome)
            elif isinstance(verdict, Repeated):
                self.world.sometimes("a repetition got the first reply")
                outcome = verdict.reply
            else:
                assert not isinstance(verdict, InProgress)
                self.world.sometimes(f"refused: {verdict.why}")
                outcome = REFUSALS[verdict]
            batch.outcomes.append(outcome)

    def _advance(self, count: int) -> Position:
        first = Position(self.position + 1)
        self.position = Position(self.position + count)
        self.table.advance(self.time_ns() // SECOND)
        return first

    def _run(self, call: Call) -> bytes:
        token = token_of(call)
        self.tokens.append(token)
        if call.method == FAIL:
            return encode_outcome(Raised("ValueError", f"{token}@{len(self.tokens)}"))
        return encode_returned([token, len(self.tokens)])


def arguments_of(token: str) -> bytes:
    return bytes(encode_arguments((token,), {}))


def token_of(call: Call) -> str:
    return msgspec.msgpack.decode(call.arguments, type=tuple[str])[0]


POLL_NS: Final = 150 * MILLISECOND
"""How often a member learns the view and what is committed."""
COMMIT_NS: Final = 2 * MILLISECOND
SLOW_COMMIT_NS: Final = 900 * MILLISECOND
SLOW: Final = 0.02
OVERLOADED: Final = 0.02
HANGS_UP: Final = 0.5
"""The probability that a replaced primary closes the connection instead of falling silent."""
TELL_NS: Final = 300 * MILLISECOND
"""The longest time until the group's followers are told of a new view."""
LOOK_UP_NS: Final = 10 * MILLISECOND

UNKNOWN: Final = View(Epoch(0), HostId(""))

_sent: Final = msgspec.msgpack.Decoder(Sent)


class Member:
    """One process of one host."""

    def __init__(self, ports: NodePorts, group: Group) -> None:
        self._ports = ports
        self._group = group
        self._name = HostId(ports.name)
        self._rng = ports.random.stream("member")
        self._acceptor = Acceptor(ports, self._on_body)
        self._timers = ports.timers(self._on_timer)
        # Postponed work, by the tag of its timer.
        self._due: dict[Hashable, Callable[[], None]] = {}
        self._last_due = 0
        self._followers: dict[Stream, None] = {}
        self._view = UNKNOWN
        self._learn()
        self._timers.set(POLL_NS, "poll")

    def on_message(self, peer: str, packet: Packet) -> None:
        self._acceptor.on_packet(peer, packet)

    def _on_body(self, stream: Stream, body: bytes) -> None:
        match decode_to_host(body):
            case Ping(number=number):
                self._send(stream, Pong(number))
            case Locate(frame=frame):
                reference = self._group.reference(self._view)
                self._send(stream, Located(frame, reference, self._group.time_ns()))
            case Follow():
                self._followers[stream] = None
            case Nested() | FollowHosts():
                invariant(False, "the clients of this scenario are no groups, and hosts do not move")
            case message:
                self._judge(stream, message, is_looked_up=False)

    def _on_timer(self, tag: Hashable) -> None:
        if tag == "poll":
            self._learn()
            self._timers.set(self._rng.randrange(POLL_NS) + 1, "poll")
        else:
            self._due.pop(tag)()

    def _learn(self) -> None:
        """Learn the newest view and everything that is committed."""
        group = self._group
        if group.view != self._view and group.view.primary == self._name:
            reference = group.reference(group.view)
            self._later(self._rng.randrange(TELL_NS) + 1, lambda: self._tell(reference))
        self._view, self._position, self._tokens = group.view, group.position, list(group.tokens)
        self._learnt_ns = self._ports.clock.now()

    def _tell(self, reference: Reference) -> None:
        """Tell the group's followers that it is served here. By then this may no longer be true."""
        for stream in self._followers:
            self._ports.node.world.sometimes("a follower was told where the group is served")
            self._send(stream, Redirected(NO_FRAME, reference))

    # --- judging (FTC-78 to 85)

    def _judge(self, stream: Stream, message: Calls | Reads | Settle, *, is_looked_up: bool) -> None:
        is_primary = self._view.primary == self._name
        verdict = route(message.version, self._view.epoch, is_primary=is_primary, is_looked_up=is_looked_up)
        if isinstance(message, Reads) and verdict in (Routing.SERVE, Routing.NOT_PRIMARY):
            self._read(stream, message)
            return
        match verdict:
            case Routing.SERVE if self._rng.random() < OVERLOADED:
                self._send(stream, Turned(message.frame, GROUP, RefusalCode.OVERLOADED))
            case Routing.SERVE:
                self._serve(stream, message)
            case Routing.FORWARD:
                self._send(stream, Redirected(message.frame, self._group.reference(self._view)))
            case Routing.NOT_PRIMARY:
                self._send(stream, Turned(message.frame, GROUP, RefusalCode.NOT_PRIMARY))
            case Routing.BAD_REFERENCE:
                self._send(stream, Turned(message.frame, GROUP, RefusalCode.BAD_REFERENCE))
            case Routing.LOOK_UP:
                self._later(self._rng.randrange(LOOK_UP_NS) + 1, lambda: self._look_up(stream, message))

    def _look_up(self, stream: Stream, message: Calls | Reads | Settle) -> None:
        self._ports.node.world.sometimes("a request knew of a newer view")
        self._learn()
        self._judge(stream, message, is_looked_up=True)

    def _later(self, delay_ns: int, then: Callable[[], None]) -> None:
        self._last_due += 1
        self._due[self._last_due] = then
        self._timers.set(delay_ns, self._last_due)

    # --- serving

    def _serve(self, stream: Stream, message: Calls | Reads | Settle) -> None:
        if isinstance(message, Settle):
            self._later(self._rng.randrange(LOOK_UP_NS) + 1, lambda: self._settle(stream, message))
        elif isinstance(message, Calls):
            batch = self._group.order(self._view, _sent.decode(message.sent))
            longest_ns = SLOW_COMMIT_NS if self._rng.random() < SLOW else COMMIT_NS
            delay_ns = self._rng.randrange(100 * MICROSECOND, longest_ns)
            self._later(delay_ns, lambda: self._on_ordered(stream, batch))

    def _on_ordered(self, stream: Stream, batch: Batch) -> None:
        if self._group.commit(batch):
            assert batch.outcomes is not None
            self._reply(stream, [call.number for call in batch.calls], batch.outcomes)
        elif self._rng.random() < HANGS_UP:
            # It cannot know the outcome of these calls, so it must not answer.
            self._acceptor.end(stream)

    def _settle(self, stream: Stream, asked: Settle) -> None:
        if self._group.view == self._view and self._view.primary == self._name:
            outcome = self._group.settle(asked.asked_client, asked.asked_number, asked.asked_expiration_s)
            self._reply(stream, [asked.number], [outcome])
        else:
            self._send(stream, Turned(asked.frame, GROUP, RefusalCode.UNAVAILABLE))

    def _reply(self, stream: Stream, numbers: list[int], outcomes: list[bytes]) -> None:
        group = self._group
        seen = Seen(group.view.epoch, group.position)
        self._send(stream, Replies(GROUP, numbers, outcomes, seen, group.time_ns()))

    def _read(self, stream: Stream, asked: Reads) -> None:
        """Answer from this member's own state, if that is recent enough (S7)."""
        age_ns = self._ports.clock.now() - self._learnt_ns
        if self._position < asked.seen.position or age_ns > asked.stale_ms * MILLISECOND:
            self._send(stream, Turned(asked.frame, GROUP, RefusalCode.BEHIND))
            return
        numbers = [call.number for call in decode_calls(asked.calls)]
        outcomes = [encode_returned(self._tokens)] * len(numbers)
        seen = Seen(self._view.epoch, self._position)
        self._send(stream, Replies(GROUP, numbers, outcomes, seen, self._group.time_ns()))

    def _send(self, stream: Stream, message: ToClient) -> None:
        self._acceptor.send(stream, encode_message(message))
