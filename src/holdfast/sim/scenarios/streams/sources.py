"""Sources of the scenario: they number, describe and send messages, lose some on each way, and end and
return.

A message to a host may be lost, late, or come twice, on each link apart: what one member has, another may
lack. After the healing nothing is lost any more, and heartbeats say what was sent.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from holdfast.model.ids import MILLISECOND, HostId
from holdfast.sim.engine.world import World
from holdfast.sim.scenarios.streams.books import TOPICS
from holdfast.streams.annex import Streams
from holdfast.streams.columns import read, write
from holdfast.streams.message import NONE_BEFORE, Ages, Heartbeat, Message, Origin
from holdfast.streams.ports import EXPIRED

LEVELS: Final = 3
KEPT_MAX: Final = 60
"""How many messages a source keeps for those who ask."""
HEARTBEAT_NS: Final = 120 * MILLISECOND
SYNC_EACH: Final = 25
"""Every so many messages one is a sync."""

StreamsOf = Callable[[HostId], Streams | None]
"""The streams of the present process of a host, if it has a member."""


@dataclass(slots=True)
class Source:
    """One source with one stream."""

    world: World
    stream: str
    hosts: tuple[HostId, ...]
    streams_of: StreamsOf
    rng: random.Random
    loss: dict[HostId, float]
    """How often a message to that host is lost."""
    gap_ns: int
    """The time between two bursts of messages, on average."""
    restarts: float
    has_store: bool
    incarnation: int = 1
    number: int = 0
    last_of_level: dict[int, int] = field(default_factory=dict)
    kept: dict[int, Message] = field(default_factory=dict)
    sent: dict[tuple[int, int], bytes] = field(default_factory=dict)
    """All that was ever sent: (incarnation, number) to payload."""
    deaf: dict[HostId, int] = field(default_factory=dict)
    """How many more messages a host does not get."""
    is_healed: bool = False
    is_over: bool = False

    @property
    def origin(self) -> Origin:
        return Origin(f"source-{self.stream}", self.stream, self.incarnation)

    def end(self) -> None:
        """Send a last burst, of which every host loses about half, and nothing any more: only heartbeats tell
        of it."""
        self.is_over = True
        self.is_healed = False
        self.loss = dict.fromkeys(self.hosts, 0.5)
        for _ in range(2):
            self._send([self._made()])
        self.is_healed = True

    def start(self) -> None:
        self.world.after(self.rng.randrange(100 * MILLISECOND), self._send_next)
        self.world.after(HEARTBEAT_NS, self._beat)

    # --- sending

    def _send_next(self) -> None:
        if self.is_over:
            return
        if self.number > 5 and self.rng.random() < self.restarts:
            self.world.sometimes("a source began a new life")
            self.incarnation, self.number = self.incarnation + 1, 0
            self.last_of_level.clear()
            self.kept.clear()
        made = [self._made() for _ in range(self.rng.choice((1, 1, 1, 2, 6, 12)))]
        if self.rng.random() < 0.5:
            self._send(made)
        else:
            for each in made:
                self._send([each])
        self.world.after(self.rng.randrange(2 * self.gap_ns) + 1, self._send_next)

    def _made(self) -> Message:
        """The next message, with what it says of those before it."""
        self.number = number = self.number + 1
        priority = self.rng.randrange(LEVELS)
        exact = tuple(self._distance(level, exact=True) for level in range(LEVELS - 1))
        cumulative = tuple(self._distance(level, exact=False) for level in range(LEVELS - 1))
        topic = "sync" if number % SYNC_EACH == 0 else self.rng.choice(TOPICS)
        payload = f"{self.stream}/{self.incarnation}/{number}".encode()
        message = Message(number, priority, topic, payload, exact, cumulative, Ages(self.world.now))
        self.last_of_level[priority] = number
        self.sent[self.incarnation, number] = payload
        self.kept[number] = message
        self.kept.pop(number - KEPT_MAX, None)
        return message

    def _distance(self, level: int, *, exact: bool) -> int:
        levels = (level,) if exact else range(level + 1)
        last = max((self.last_of_level.get(each, 0) for each in levels), default=0)
        return self.number - last if last else NONE_BEFORE

    def _send(self, messages: list[Message]) -> None:
        """Send messages in one datagram."""
        origin = self.origin
        for host in self.hosts:
            if self.deaf.get(host, 0):
                self.deaf[host] -= 1
                continue
            if not self.is_healed and self.rng.random() < self.loss[host]:
                continue
            copies = 2 if self.rng.random() < 0.03 else 1
            for _ in range(copies):
                late = self.rng.random() < 0.05
                delay = self.rng.randrange((40 if late else 3) * MILLISECOND)
                self.world.after(delay, self._arrive, host, origin, messages)

    def _arrive(self, host: HostId, origin: Origin, messages: list[Message]) -> None:
        def take() -> None:
            streams = self.streams_of(host)
            if streams is not None:
                body = write(messages)
                streams.on_messages(origin, read(body, 0, len(body), messages[0].number))

        node = self.world.nodes[host]
        node.run(node.life, take)

    def _beat(self) -> None:
        for host in self.hosts:
            if self.is_healed or self.rng.random() >= self.loss[host]:
                self._beat_at(host, self.origin, self.number)
        self.world.after(HEARTBEAT_NS, self._beat)

    def _beat_at(self, host: HostId, origin: Origin, highest: int) -> None:
        def take() -> None:
            streams = self.streams_of(host)
            if streams is not None:
                streams.on_heartbeat(origin, Heartbeat(highest))

        node = self.world.nodes[host]
        node.run(node.life, take)


@dataclass(slots=True)
class SourceStore:
    """What one host asks the sources for (:class:`holdfast.streams.ports.MessageStore`)."""

    world: World
    host: HostId
    sources: dict[str, Source]

    def request(self, origin: Origin, first: int, last: int) -> bool:
        source = self.sources[origin.stream]
        if not source.has_store:
            return False
        self.world.after(source.rng.randrange(1, 30 * MILLISECOND), self._answer, source, origin, first, last)
        return True

    def _answer(self, source: Source, origin: Origin, first: int, last: int) -> None:
        if not source.is_healed and source.rng.random() < source.loss[self.host]:
            return
        is_same = origin.incarnation == source.incarnation
        found = [
            source.kept[number] for number in range(first, last + 1) if is_same and number in source.kept
        ]

        def take() -> None:
            streams = source.streams_of(self.host)
            if streams is None:
                return
            if found:
                self.world.sometimes("a source gave messages once more")
                streams.on_messages(origin, found, place="@source")
            else:
                streams.on_unavailable(origin, first, last, EXPIRED, place="@source")

        node = self.world.nodes[self.host]
        node.run(node.life, take)
