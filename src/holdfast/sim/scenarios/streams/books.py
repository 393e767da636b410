"""The classes of the scenario's groups: each notes what it is given, and answers losses by its own policy."""

import zlib
from functools import lru_cache
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from holdfast.execution.context import context
from holdfast.streams import policies
from holdfast.streams.actions import Action, Drop, Ignore, Recover, Suspend
from holdfast.streams.config import StreamSettings
from holdfast.streams.handlers import Notice
from holdfast.streams.information import LossInfo
from holdfast.streams.message import StreamMessage

Policy = Literal["drop", "ignore", "gap_fill", "market_data", "strict", "mixed", "raises", "nonsense", "none"]
POLICIES: Final[tuple[Policy, ...]] = (
    "drop",
    "ignore",
    "gap_fill",
    "market_data",
    "strict",
    "mixed",
    "mixed",
    "raises",
    "nonsense",
    "none",
)
NEVER_STOPS: Final = ("drop", "ignore", "gap_fill", "market_data")
"""Policies under which message loss alone never stops a stream (LOSS-108)."""
TOPICS: Final = ("bids", "asks", "bids.gold", "news")


class BookKind(Struct, frozen=True):
    """Which class a group has, as its record names it."""

    policy: Policy
    is_batch: bool
    settings: StreamSettings

    @property
    def class_name(self) -> str:
        return msgspec.json.encode(self).decode()


class Noted:
    """What every book notes."""

    delivered: list[tuple[str, int, int]]
    """(stream, incarnation, number), in the order of delivery"""
    sums: dict[str, int]
    """A checksum of all payloads of each stream."""
    notices: list[tuple[str, str, int, int, int]]
    recovered: int

    def __init__(self) -> None:
        self.delivered = []
        self.sums = {}
        self.notices = []

    def _note(self, message: StreamMessage) -> None:
        self.delivered.append((message.stream, message.incarnation, message.number))
        before = self.sums.get(message.stream, 0)
        self.sums[message.stream] = zlib.crc32(message.payload, before)
        if message.number % 5 == 0:
            context.emit(message.topic, message.payload[:8])

    def on_action(self, notice: Notice) -> None:
        self.notices.append((notice.kind, notice.stream, notice.first, notice.last, notice.rule))


def _drop(self: Any, info: LossInfo) -> Action:
    return Drop()


def _ignore(self: Any, info: LossInfo) -> Action:
    """Every extent and selector in turn, as the loss has it."""
    rules: tuple[Action, ...] = (
        Ignore(topic="bids", for_messages=3),
        Ignore(for_s=0.05),
        Ignore(related_to="bids", until_sync=True),
        Ignore(stream="*", priority=(2,), for_messages=2),
        Ignore(source=info.source, topic=("news",), for_s=0.2),
    )
    return Drop() & rules[info.first % len(rules)]


def _mixed(self: Any, info: LossInfo) -> Action:
    """A function of the information alone, and of what the object has."""
    answers: tuple[Action, ...] = (
        Drop(),
        Recover(),
        Recover(within_ms=30),
        Recover() | Suspend(),
        Recover(within_ms=40) | Drop(),
        Suspend() | Drop(),
        Drop() & Ignore(for_messages=2),
        (Recover() & Ignore(topic="news", for_s=0.1)) | Drop(),
    )
    if info.attempt > 1:
        return Drop()
    return answers[(info.first + len(self.delivered)) % len(answers)]


def _raises(self: Any, info: LossInfo) -> Action:
    raise ValueError("no opinion")


def _nonsense(self: Any, info: LossInfo) -> str:
    return "drop it like it is hot"


ANSWERS: Final[dict[str, Any]] = {
    "drop": _drop,
    "ignore": _ignore,
    "gap_fill": policies.gap_fill,
    "market_data": policies.market_data,
    "strict": policies.strict,
    "mixed": _mixed,
    "raises": _raises,
    "nonsense": _nonsense,
}


RAISES_EVERY: Final = 17
"""Each so manieth message makes its method raise."""


@lru_cache(maxsize=256)
def class_of(class_name: str) -> type:
    """The class that a record names."""
    kind = msgspec.json.decode(class_name, type=BookKind)

    class Single(Noted):
        def on_message(self, message: StreamMessage) -> None:
            self._note(message)
            _raise_at(message)

    class Batched(Noted):
        def on_messages(self, batch: list[StreamMessage]) -> None:
            for message in batch:
                self._note(message)
            for message in batch:
                _raise_at(message)

    made: type = Batched if kind.is_batch else Single
    made.streams = kind.settings  # type: ignore[attr-defined]  # as a user's class has it
    if kind.policy in ANSWERS:

        def on_loss(self: Noted, info: LossInfo) -> Any:
            return answered(kind.policy, self, info)

        made.on_loss = on_loss  # type: ignore[attr-defined]
    return made


def _raise_at(message: StreamMessage) -> None:
    """Raise now and then, when all is noted: it is counted in the state, the same everywhere."""
    if message.number % RAISES_EVERY == 0:
        raise ValueError(f"nobody likes {message.number}")


def answered(policy: Policy, book: Noted, info: LossInfo) -> Any:
    """What a book of that policy answers to a loss; it changes nothing."""
    return ANSWERS[policy](book, info)
