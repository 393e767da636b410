"""A host with a member of the group: takes frames, judges them by its view, answers after commit."""

from collections.abc import Callable, Hashable
from typing import Final

import msgspec

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
from holdfast.model.ids import Epoch, HostId
from holdfast.model.outcome import encode_returned
from holdfast.model.reference import Reference, Routing, route
from holdfast.sim.calls.group import GROUP, Batch, Group, View
from holdfast.sim.node import NodePorts
from holdfast.sim.options import MICROSECOND, MILLISECOND
from holdfast.sim.streams import Acceptor, Packet, Stream
from holdfast.styles.operation import Sent, decode_calls

POLL_NS: Final = 150 * MILLISECOND
"""How often a member hears of the view and of what is committed."""
COMMIT_NS: Final = 2 * MILLISECOND
SLOW_COMMIT_NS: Final = 900 * MILLISECOND
SLOW: Final = 0.02
OVERLOADED: Final = 0.02
HANGS_UP: Final = 0.5
"""How likely a primary that was replaced ends the connection instead of falling silent."""
TELL_NS: Final = 300 * MILLISECOND
"""How long it may take until those who follow the group are told of a new view."""
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
        # What is to be done later, by the tag of its timer.
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
        """Hear of the newest view, and hold everything that is committed."""
        group = self._group
        if group.view != self._view and group.view.primary == self._name:
            reference = group.reference(group.view)
            self._later(self._rng.randrange(TELL_NS) + 1, lambda: self._tell(reference))
        self._view, self._position, self._tokens = group.view, group.position, list(group.tokens)
        self._learnt_ns = self._ports.clock.now()

    def _tell(self, reference: Reference) -> None:
        """Tell those who follow the group that it is served here. By now that may be old."""
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
            # It cannot know what becomes of them, so it must not say.
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
        """From what this member holds, if that is not too old (S7)."""
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
