"""A source of one stream: what it sends, what it keeps for those who lack it, and when it shows life.

It is a state machine without IO. Its driver gives it messages, hands it the datagrams of members, and sends
what it answers: batches to all members, and what one member asked for to that one. Messages are kept until
there is no room for them, the delivered ones first to go; as long as a source heeds its credit
(:mod:`.pacing`), what is not delivered is always kept. So a member that comes to lead, or a new one, can ask
for all that the group has not delivered, and nothing is lost when members move.

No storms: a member is answered with a bounded number of messages in a given time, and asks again for the
rest.
"""

from collections import deque
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from msgspec import Struct

from holdfast.model.errors import Overloaded
from holdfast.model.ids import MILLISECOND
from holdfast.streams.columns import Malformed
from holdfast.streams.datagram import (
    Batch,
    Beat,
    Credit,
    Datagram,
    From,
    Notice,
    Refusal,
    Request,
    decode,
    encode,
    encode_batch,
)
from holdfast.streams.encoding import EncodingConfig, StreamEncoder, batches, room_of
from holdfast.streams.message import PAYLOAD_BYTES_MAX, Message
from holdfast.streams.pacing import Pacing

MTU_BYTES: Final = 1_472
"""What an Ethernet frame takes of a datagram over IPv4, so that no fragment is lost alone."""
LOOPBACK_BYTES: Final = 65_000


class SourceConfig(Struct, frozen=True, kw_only=True):
    """How a source sends and what it keeps."""

    datagram_bytes: int = MTU_BYTES
    """The longest datagram: what the path takes unbroken."""
    kept_messages: int = 65_536
    """How many messages are kept for members that lack them."""
    kept_bytes: int = 32 << 20
    """How many bytes of payload are kept. What is not delivered yet is among them, so no more is under way;
    it is less than members hold (``hold_bytes``), who would refuse the rest."""
    heartbeat_ns: int = 100 * MILLISECOND
    """The longest silence: a loss of the last messages is noticed after that."""
    repeats_max: int = 2_048
    """How many messages a member is sent again within ``repeat_ns``."""
    repeat_ns: int = 10 * MILLISECOND

    def validate(self) -> list[tuple[str, str]]:
        problems = []
        if not 512 <= self.datagram_bytes <= LOOPBACK_BYTES:
            problems.append(("datagram_bytes", f"must be 512 to {LOOPBACK_BYTES}"))
        if not 1 <= self.kept_messages <= 1 << 24:
            problems.append(("kept_messages", f"must be 1 to {1 << 24}"))
        if not 65_536 <= self.kept_bytes <= 1 << 34:
            problems.append(("kept_bytes", "must be 64 KiB to 16 GiB"))
        if self.heartbeat_ns < MILLISECOND or self.repeat_ns < MILLISECOND or self.repeats_max < 1:
            problems.append(("heartbeat_ns", "times must be at least 1 ms, and repeats_max at least 1"))
        return problems


class StreamSource:
    """One stream in one life of its source."""

    def __init__(
        self,
        sender: From,
        key: bytes | None,
        encoding: EncodingConfig,
        config: SourceConfig,
        *,
        is_paced: bool = True,
    ) -> None:
        self._sender = sender
        self._key = key
        self._encoder = StreamEncoder(encoding)
        self._config = config
        self._room = room_of(config.datagram_bytes)
        self._kept: deque[Message] = deque()
        """In the order of their numbers, which follow each other."""
        self._kept_bytes = 0
        self._unsent: list[Message] = []
        self._spoken_ns = 0
        self._repeated: dict[object, tuple[int, int]] = {}
        """For each member, since when and how much was repeated for it."""
        self.pacing: Final = Pacing(is_paced=is_paced)
        self.refused: Notice | None = None
        """The last refusal that only a person can mend."""
        self.is_moved = False
        """A member has said that it is none any more: ask where the members are."""
        self.beyond = 0
        """How often a member said that messages went beyond its credit."""
        self.repeats = 0
        """How many messages were sent again."""

    # --- sending

    @property
    def highest(self) -> int:
        return self._encoder.highest

    @property
    def room(self) -> int:
        """How many messages may be sent now."""
        limit = min(self.pacing.limit, self.pacing.delivered + self._config.kept_messages)
        return max(limit - self._encoder.highest, 0)

    def fits(self, payloads: Sequence[bytes]) -> int:
        """How many of *payloads* may be sent now: what is not delivered is kept, so there must be room for it
        in bytes, too."""
        if not self.pacing.is_paced:
            return len(payloads)
        room = min(self.room, len(payloads))
        left = self._config.kept_bytes - self._kept_bytes
        wanted = sum(map(len, payloads[:room]))
        if wanted > left:
            left += self._let_go_delivered(wanted - left)
        if wanted <= left:
            return room
        # A message that is too long counts as the longest there is, and is refused for its length.
        lengths = (min(len(each), PAYLOAD_BYTES_MAX) for each in payloads[:room])
        return sum(reached <= left for reached in accumulate(lengths))

    def _let_go_delivered(self, wanted: int) -> int:
        """Let go of so many bytes of what was delivered, if there are; returns how many it was."""
        kept, delivered, gone = self._kept, self.pacing.delivered, 0
        while gone < wanted and kept and kept[0].number <= delivered:
            gone += len(kept.popleft().payload)
        self._kept_bytes -= gone
        return gone

    def post(self, payload: bytes, *, priority: int = 0, topic: str = "", now_ns: int = 0) -> int:
        """Make the next message, to be sent with :meth:`take_batches`; returns its number. Raises
        ``Overloaded`` while the group cannot take more, ``InvalidRequest``."""
        if not self.fits([payload]):
            raise Overloaded("the group has not delivered enough of this stream yet to take more")
        made = self._encoder.message(payload, priority=priority, topic=topic, now_ns=now_ns)
        self._unsent.append(made)
        self._keep([made])
        return made.number

    def post_many(
        self, payloads: Sequence[bytes], *, priority: int = 0, topic: str = "", now_ns: int = 0
    ) -> int:
        """Make the next messages, all of one priority and topic; returns the number of the last. Raises as
        :meth:`post` does; then there are none."""
        if self.fits(payloads) < len(payloads):
            raise Overloaded("the group has not delivered enough of this stream yet to take more")
        made = self._encoder.messages(payloads, priority=priority, topic=topic, now_ns=now_ns)
        self._unsent += made
        self._keep(made)
        return self._encoder.highest

    @property
    def unsent(self) -> int:
        return len(self._unsent)

    def take_batches(self, now_ns: int) -> list[bytes]:
        """The datagrams with what was posted, to be sent to every member."""
        messages, self._unsent = self._unsent, []
        if not messages:
            return []
        self._spoken_ns = now_ns
        return self._datagrams(messages, is_first=True)

    def _datagrams(self, messages: Sequence[Message], *, is_first: bool = False) -> list[bytes]:
        made = []
        for batch in batches(messages, self._room):
            if is_first:
                batch[0] = self._encoder.opening(batch[0])
            made.append(encode_batch(self._sender, batch, self._key))
        return made

    def _keep(self, messages: Sequence[Message]) -> None:
        kept, config = self._kept, self._config
        kept.extend(messages)
        self._kept_bytes += sum([len(each.payload) for each in messages])
        while len(kept) > config.kept_messages or (self._kept_bytes > config.kept_bytes and len(kept) > 1):
            self._kept_bytes -= len(kept.popleft().payload)

    # --- time

    def heartbeat(self, now_ns: int, *, is_last: bool = False) -> bytes:
        """What the source says of itself now. It also asks members how far they are."""
        self._spoken_ns = now_ns
        encoder = self._encoder
        oldest = self._kept[0].number if self._kept else encoder.highest + 1
        beat = Beat(
            self._sender, encoder.highest, oldest, encoder.distances, encoder.cumulative, is_last=is_last
        )
        return encode(beat, self._key)

    def heartbeat_due_ns(self) -> int:
        return self._spoken_ns + self._config.heartbeat_ns

    # --- what members say

    def on_datagram(self, member: object, data: bytes, now_ns: int) -> list[bytes]:
        """Take a datagram of *member*; returns what that member, and no other, shall be sent. Raises
        :class:`.columns.Malformed`."""
        found = decode(data, self._key_of, is_open=self._key is None)
        if found.sender.stream != self._sender.stream:
            raise Malformed("stream", f"a datagram about stream {found.sender.stream}")
        if found.sender.incarnation != self._sender.incarnation and not isinstance(found, Notice):
            return []  # meant for an earlier life
        return self._on_said(member, found, now_ns)

    def _on_said(self, member: object, found: Datagram, now_ns: int) -> list[bytes]:
        match found:
            case Credit():
                self.pacing.on_credit(member, found)
            case Request():
                return self._repeat(member, found, now_ns)
            case Notice(refusal=Refusal.BEYOND_CREDIT):
                self.beyond += 1
            case Notice(refusal=Refusal.NOT_HERE):
                self.is_moved = True
            case Notice():
                self.refused = found
            case Batch() | Beat():
                raise Malformed("kind", "members send no messages")
        return []

    def _key_of(self, key: int) -> bytes | None:
        return self._key if key == self._sender.key else None

    def _repeat(self, member: object, asked: Request, now_ns: int) -> list[bytes]:
        since_ns, count = self._repeated.get(member, (now_ns, 0))
        if now_ns - since_ns >= self._config.repeat_ns:
            since_ns, count = now_ns, 0
        if not self._kept:
            return []
        oldest, found = self._kept[0].number, list[Message]()
        for first, length in asked.ranges:
            begin, end = max(first, oldest), min(first + length, self._encoder.highest + 1)
            end = min(end, begin + self._config.repeats_max - count)
            found += [self._kept[number - oldest] for number in range(begin, end)]
            count += max(0, end - begin)
        self._repeated[member] = (since_ns, count)
        while len(self._repeated) > 256:  # more than a group has members
            self._repeated.pop(next(iter(self._repeated)))
        self.repeats += len(found)
        return self._datagrams(found)
