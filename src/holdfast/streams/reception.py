"""What a host does with the datagrams of sources: whose they are, whether they may be taken, and for which
group they are.

A stream is bound to one group by a record at the authority, which also has its number on the wire and the
keys of its sources. What a stranger sends, what is malformed, forged or of an earlier life of a source, is
counted and dropped before any group hears of it. What is taken goes to the member of the group on this host,
its *intake*; how far that member has delivered goes back to the source as credit (:mod:`.pacing`).

Answers go the way on which the source was last heard (its *path*): an address, or a connection. A datagram
that was recorded and comes again from elsewhere must not lead them away, so the path changes only with
something new, or when the old one has been silent for a while.
"""

from collections import Counter, deque
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final, Protocol

from msgspec import Struct

from holdfast.model.ids import SECOND, GroupId
from holdfast.streams.columns import Malformed
from holdfast.streams.datagram import (
    DATAGRAM_BYTES_MAX,
    HEADER,
    NO_KEY,
    Batch,
    Beat,
    Datagram,
    From,
    Notice,
    Refusal,
    Request,
    decode,
    decode_joined,
    encode,
    follows,
    number_in,
)
from holdfast.streams.message import Heartbeat, Message, Origin
from holdfast.streams.pacing import CreditConfig, CreditGiver
from holdfast.streams.runs import ends_of

NOTICES_MAX: Final = 20
"""How many notices the sources of one stream get in a second."""
ASKED_KEPT: Final = 32
SILENT_NS: Final = 3 * SECOND
"""A source that was not heard for so long may be anywhere else."""
NOBODY: Final = From(0, 0, 0)
JOINED_MIN: Final = 4
"""From so many datagrams on it costs less to read them as one batch."""
JOINED_BYTES_MAX: Final = DATAGRAM_BYTES_MAX
"""So that what is joined is no longer than what comes in one datagram."""
STREAM_AT: Final = 8
"""Where a datagram has the number of its stream."""


class StreamBinding(Struct, frozen=True, kw_only=True):
    """A stream, as the members of its group know it."""

    stream: str
    number: int
    group: GroupId
    source: str
    """The source's name, for datagrams without a key."""
    keys: dict[int, tuple[str, bytes]] = {}
    """The keys that may seal its datagrams, each with the name of its source."""
    is_open: bool = False
    """Whether datagrams without a key are taken."""
    is_paced: bool = True
    """Whether what goes beyond the credit is refused."""


class Intake(Protocol):
    """The member of a group on this host, as far as its streams are concerned."""

    def on_messages(self, origin: Origin, messages: Sequence[Message], *, is_answer: bool) -> None:
        """Messages have come; *is_answer*: because they were asked for."""

    def on_heartbeat(self, origin: Origin, heartbeat: Heartbeat) -> None: ...

    def on_unavailable(self, origin: Origin, first: int, last: int, reason: str) -> None:
        """The source does not have these messages any more."""

    def delivered(self, origin: Origin) -> int:
        """The highest number of that life below which every message was delivered or passed over."""
        ...

    def latest(self, stream: str) -> int:
        """The incarnation of that stream's latest life that the group has ordered; 0 if there was none."""
        ...

    @property
    def epoch(self) -> int: ...

    @property
    def leads(self) -> bool: ...


class ReceptionPorts(Protocol):
    """What a host gives to its reception."""

    def now(self) -> int:
        """The clock, in nanoseconds."""
        ...

    def intake(self, group: GroupId) -> Intake | None:
        """The member of that group here; None if there is none."""
        ...

    def answer(self, path: Hashable, data: bytes) -> None:
        """Send something back; no promise."""
        ...


@dataclass(slots=True)
class ReceivedStream:
    """One stream, as this host receives it."""

    binding: StreamBinding
    origin: Origin | None = None
    """The latest life of its source."""
    sender: From = NOBODY
    path: Hashable = None
    heard_ns: int = 0
    """When it was last heard on that path."""
    oldest: int = 1
    """The lowest number that the source still has."""
    highest: int = 0
    giver: CreditGiver | None = None
    loss: float = 0.0
    """The part of datagrams that is thrown away, to try out what happens then."""
    counts: Counter[str] = field(default_factory=Counter)
    """Messages and datagrams, by what became of them."""
    asked: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=ASKED_KEPT))
    """The ranges that the source was last asked for."""
    notices_since_ns: int = 0
    notices: int = 0


class Reception:
    """The streams of one host."""

    def __init__(self, ports: ReceptionPorts, config: CreditConfig, random: Random) -> None:
        self._ports = ports
        self._config = config
        self._random = random
        self._by_number: dict[int, ReceivedStream] = {}
        self._by_name: dict[str, ReceivedStream] = {}
        self.refused: Counter[str] = Counter()
        """Datagrams that belong to no stream here, by what is wrong with them."""

    def tune(self, config: CreditConfig) -> None:
        """Go on with other settings; streams that are known keep theirs until their source starts again."""
        self._config = config

    # --- which streams there are

    def bind(self, bindings: Iterable[StreamBinding]) -> None:
        """These are the streams from now on. What is known of those that stay is kept."""
        known, self._by_number, self._by_name = self._by_number, {}, {}
        for each in bindings:
            stream = known.get(each.number)
            if stream is None:
                stream = ReceivedStream(each)
            elif stream.binding.group != each.group:
                stream = ReceivedStream(each, loss=stream.loss)
            stream.binding = each
            self._by_number[each.number] = self._by_name[each.stream] = stream

    @property
    def streams(self) -> list[ReceivedStream]:
        return list(self._by_number.values())

    def stream(self, name: str) -> ReceivedStream | None:
        return self._by_name.get(name)

    # --- what comes in

    def on_datagrams(self, received: Iterable[tuple[bytes, Hashable]]) -> None:
        """Take datagrams that came together, each with its path. Where a source sends its messages one by one
        and they wait here, they are read as one batch, so that what is done for each datagram on the way to
        the application is done for many."""
        run: list[bytes] = []
        size, path = 0, None
        for data, sender in received:
            if run and sender == path and size + len(data) <= JOINED_BYTES_MAX and follows(data, run[-1]):
                run.append(data)
                size += len(data)
                continue
            self._on_run(path, run)
            run, size, path = [data], len(data), sender
        self._on_run(path, run)

    def on_datagram(self, path: Hashable, data: bytes) -> None:
        """Take a datagram, whatever it is."""
        number = int.from_bytes(data[STREAM_AT : STREAM_AT + 4], "big")
        stream = self._by_number.get(number)
        if stream is None or len(data) < HEADER.size:
            self.refused["short" if len(data) < HEADER.size else "stream"] += 1
        elif not (stream.loss and self._is_lost(stream)):
            self._take(stream, path, data)

    def _is_lost(self, stream: ReceivedStream) -> bool:
        """Whether a datagram is thrown away, to try out what happens then."""
        if self._random.random() >= stream.loss:
            return False
        stream.counts["injected"] += 1
        return True

    def _on_run(self, path: Hashable, run: list[bytes]) -> None:
        """Take datagrams that continue each other."""
        stream = None
        if len(run) >= JOINED_MIN:
            stream = self._by_number.get(int.from_bytes(run[0][STREAM_AT : STREAM_AT + 4], "big"))
        if stream is None:
            for data in run:
                self.on_datagram(path, data)
            return
        parts: list[list[bytes]] = [[]]
        for data in run:
            if stream.loss and self._is_lost(stream):
                parts.append([])
            else:
                parts[-1].append(data)
        binding = stream.binding
        up_to = max((last for _, last in stream.asked), default=0)
        for part in parts:
            # What was asked for is told from what is new by the first number of each datagram.
            if len(part) >= JOINED_MIN and number_in(part[0]) > up_to:
                found = decode_joined(part, lambda key: _secret(binding, key), is_open=binding.is_open)
                if found is not None:
                    self._on_decoded(stream, path, found, len(part))
                    continue
            for data in part:
                self._take(stream, path, data)

    def _take(self, stream: ReceivedStream, path: Hashable, data: bytes) -> None:
        binding = stream.binding
        try:
            found = decode(data, lambda key: _secret(binding, key), is_open=binding.is_open)
        except Malformed as error:
            stream.counts[error.why] += 1
        else:
            self._on_decoded(stream, path, found)

    def _on_decoded(
        self, stream: ReceivedStream, path: Hashable, found: Datagram, datagrams: int = 1
    ) -> None:
        binding = stream.binding
        if not isinstance(found, Batch | Beat):
            stream.counts["kind"] += 1
            return
        intake = self._ports.intake(binding.group)
        if intake is None:
            stream.counts["not_here"] += datagrams
            self._notify(stream, path, found.sender, Refusal.NOT_HERE)
            return
        origin = self._origin(stream, found.sender, intake)
        if origin is None:
            stream.counts["old_incarnation"] += datagrams
            self._notify(stream, path, found.sender, Refusal.OLD_INCARNATION)
        elif isinstance(found, Beat):
            self._follow(stream, path, found.highest)
            self._on_beat(stream, intake, origin, found, path)
        else:
            self._follow(stream, path, ends_of(found.messages)[1])
            self._on_batch(stream, intake, origin, found)

    def on_path_gone(self, path: Hashable) -> None:
        """Nothing can be answered there any more."""
        for stream in self._by_number.values():
            if stream.path == path:
                stream.path = None

    def _follow(self, stream: ReceivedStream, path: Hashable, highest: int) -> None:
        """Answer where the source is now."""
        now = self._ports.now()
        if path != stream.path:
            is_news = highest > stream.highest or stream.path is None
            if not is_news and now - stream.heard_ns < SILENT_NS:
                return
            stream.path = path
        stream.heard_ns = now

    def _origin(self, stream: ReceivedStream, sender: From, intake: Intake) -> Origin | None:
        """Whose life it is; None if a later one is known."""
        known = stream.origin
        if known is not None and sender == stream.sender:
            return known
        binding = stream.binding
        # A host that was started again, or was deaf, has not heard of the latest life; the group remembers.
        if sender.incarnation < max(intake.latest(binding.stream), known.incarnation if known else 0):
            return None
        source = binding.source if sender.key == NO_KEY else binding.keys[sender.key][0]
        stream.origin = origin = Origin(source, binding.stream, sender.incarnation)
        if known is None or origin.incarnation != known.incarnation:
            stream.oldest, stream.highest, stream.path = 1, 0, None
            stream.asked.clear()
            stream.giver = CreditGiver(self._config, sender)
        stream.sender = sender
        return origin

    def _on_beat(
        self, stream: ReceivedStream, intake: Intake, origin: Origin, beat: Beat, path: Hashable
    ) -> None:
        stream.counts["heartbeats"] += 1
        stream.highest, stream.oldest = max(stream.highest, beat.highest), max(stream.oldest, beat.oldest)
        intake.on_heartbeat(origin, Heartbeat(beat.highest))
        giver = stream.giver
        if giver is not None:
            giver.on_delivered(intake.delivered(origin))
            credit = giver.now(self._ports.now(), epoch=intake.epoch, is_leader=intake.leads)
            self._answer(stream, credit, path)

    def _on_batch(self, stream: ReceivedStream, intake: Intake, origin: Origin, batch: Batch) -> None:
        messages, giver = batch.messages, stream.giver
        first, last = ends_of(messages)
        # A follower hears late what was delivered: a source that heeds the leader's credit may be beyond its.
        if giver is not None and last > giver.limit and stream.binding.is_paced and intake.leads:
            giver.on_delivered(intake.delivered(origin))
            if last > giver.limit:
                messages = [each for each in messages if giver.admits(each.number)]
                stream.counts["beyond"] += len(batch.messages) - len(messages)
                self._notify(stream, stream.path, batch.sender, Refusal.BEYOND_CREDIT, last)
        stream.highest = max(stream.highest, last)
        stream.counts["messages"] += len(messages)
        if messages:
            is_answer = False
            for begin, end in stream.asked:
                is_answer = is_answer or begin <= first <= end
            intake.on_messages(origin, messages, is_answer=is_answer)

    # --- what goes back

    def give_credit(self) -> None:
        """Tell sources how far they may go, where it is due."""
        now = self._ports.now()
        for stream in self._by_number.values():
            giver, origin = stream.giver, stream.origin
            if giver is None or origin is None:
                continue
            intake = self._ports.intake(stream.binding.group)
            if intake is None:
                continue
            giver.on_delivered(intake.delivered(origin))
            credit = giver.due(now, epoch=intake.epoch, is_leader=intake.leads)
            if credit is not None:
                self._answer(stream, credit, stream.path)

    def request(self, origin: Origin, first: int, last: int) -> bool:
        """Ask the source for messages; whether it could be asked. What it has not any more is told to the
        group at once."""
        stream = self._by_name.get(origin.stream)
        if stream is None or stream.origin != origin or stream.path is None:
            return False
        if last < stream.oldest:
            intake = self._ports.intake(stream.binding.group)
            if intake is not None:
                intake.on_unavailable(origin, first, last, "expired")
            return intake is not None
        stream.counts["requests"] += 1
        stream.asked.append((first, last))
        asked = Request(stream.sender, ((first, min(last - first + 1, (1 << 32) - 1)),))
        self._answer(stream, asked, stream.path)
        return True

    def _answer(self, stream: ReceivedStream, said: Datagram, path: Hashable) -> None:
        key = stream.sender.key
        secret = None if key == NO_KEY else _secret(stream.binding, key)
        if path is not None and (key == NO_KEY or secret is not None):
            self._ports.answer(path, encode(said, secret))

    def _notify(
        self, stream: ReceivedStream, path: Hashable, to: From, refusal: Refusal, number: int = 0
    ) -> None:
        """Tell a source what is refused, but not so often that it would be worth anything to provoke it."""
        now = self._ports.now()
        if now - stream.notices_since_ns > SECOND:
            stream.notices_since_ns, stream.notices = now, 0
        stream.notices += 1
        if stream.notices > NOTICES_MAX:
            return
        secret = None if to.key == NO_KEY else _secret(stream.binding, to.key)
        self._ports.answer(path, encode(Notice(to, number, refusal), secret))


def _secret(binding: StreamBinding, key: int) -> bytes | None:
    found = binding.keys.get(key)
    return None if found is None else found[1]
