"""What a group's class has for streams, and what its methods are given.

A class takes part in streams if it has ``on_message(self, message: holdfast.StreamMessage)`` or
``on_messages(self, batch: list[holdfast.StreamMessage])``: the annotation tells it from a method that only
has the same name. It may have ``on_loss(self, info: holdfast.LossInfo)``, which changes nothing and returns
an action, and ``on_action(self, notice: holdfast.Notice)``, which runs at every member at the same place of
the order and may change the state (LOSS-89)."""

import inspect
from dataclasses import dataclass
from typing import Any, Final, get_type_hints

from msgspec import Struct

from holdfast.execution.interface import SLOW_MARK
from holdfast.model.errors import InvalidRequest
from holdfast.streams.config import StreamSettings
from holdfast.streams.gaps import MakeDetector
from holdfast.streams.information import LossInfo
from holdfast.streams.message import StreamMessage
from holdfast.streams.records import Decided, Entry, Lacked, Ruled, RuleEnded

ON_MESSAGE: Final = "on_message"
ON_MESSAGES: Final = "on_messages"
ON_LOSS: Final = "on_loss"
ON_ACTION: Final = "on_action"
SETTINGS: Final = "streams"
DETECTOR: Final = "gap_detector"


class Notice(Struct, frozen=True, array_like=True):
    """What the leader has decided, told to the application of every member at the same place (LOSS-75)."""

    kind: str
    """``drop``, ``recover`` or ``suspend``, with ``& ignore`` for each rule; or ``rule``, ``rule ended``,
    ``lacked`` (an ordered message that no server has was passed over: whether an earlier leader delivered it
    is not known)."""
    stream: str = ""
    incarnation: int = 0
    first: int = 0
    last: int = 0
    rule: int = 0
    said: str = ""
    """By whom or why, for people."""


def notice_of(entry: Entry) -> Notice | None:
    """What the application is told of an entry of the order; None for what is no notice."""
    match entry:
        case Decided():
            said = f"{entry.by}: {entry.came_to}" if entry.came_to else entry.by
            return Notice(
                entry.action, entry.origin.stream, entry.origin.incarnation, entry.first, entry.last, 0, said
            )
        case Ruled(rule=rule):
            return Notice("rule", rule.stream, rule=rule.number, said=str(rule))
        case RuleEnded(rule=number, why=why):
            return Notice("rule ended", rule=number, said=why)
        case Lacked():
            return Notice("lacked", entry.origin.stream, entry.origin.incarnation, entry.first, entry.last)
        case _:
            return None


@dataclass(frozen=True, slots=True)
class Handlers:
    """What one class has for streams."""

    is_batch: bool
    decides: bool
    notifies: bool
    settings: StreamSettings
    detector: MakeDetector | None = None
    """What makes the detectors of gaps, if the class has its own (LOSS-38)."""
    is_plain: bool = True
    """Whether the method that takes messages never waits. What it is given need not be encoded then: nothing
    of it is saved in the middle, and nobody else has it."""


class BadHandlers(InvalidRequest):
    """Raised when a class takes part in streams in a way that cannot work."""

    code = "bad_stream_handlers"


def handlers_of(cls: type) -> Handlers | None:
    """What *cls* has for streams; None if it takes no part. Raises :class:`BadHandlers`."""
    single = _first_type(cls, ON_MESSAGE) is StreamMessage
    batch = _first_type(cls, ON_MESSAGES) == list[StreamMessage]
    if not single and not batch:
        return None
    name = cls.__name__
    if single and batch:
        raise BadHandlers(f"{name} has both on_message and on_messages; remove one of them")
    settings = getattr(cls, SETTINGS, StreamSettings())
    if not isinstance(settings, StreamSettings):
        raise BadHandlers(f"{name}.streams is a holdfast.StreamSettings, not {type(settings).__name__}")
    if problems := settings.problems():
        raise BadHandlers(f"{name}.streams: {'; '.join(problems)}")
    decides = _check_optional(cls, ON_LOSS, LossInfo)
    notifies = _check_optional(cls, ON_ACTION, Notice)
    method = getattr(cls, ON_MESSAGES if batch else ON_MESSAGE)
    is_plain = not inspect.iscoroutinefunction(method) and not getattr(method, SLOW_MARK, False)
    return Handlers(batch, decides, notifies, settings, _detector_of(cls), is_plain)


def _detector_of(cls: type) -> MakeDetector | None:
    detector: MakeDetector | None = getattr(cls, DETECTOR, None)
    if detector is not None and not callable(getattr(detector, "look", None)):
        raise BadHandlers(
            f"{cls.__name__}.{DETECTOR} is a class with `look` and `due_ns`, as holdfast.GapDetector has them"
        )
    return detector


def _check_optional(cls: type, name: str, wanted: type) -> bool:
    if not hasattr(cls, name):
        return False
    found = _first_type(cls, name)
    if found is not wanted:
        raise BadHandlers(
            f"{cls.__name__}.{name} must say what it takes: `{name}(self, x: holdfast.{wanted.__name__})`"
        )
    return True


def _first_type(cls: type, name: str) -> Any:
    """The annotation of the first parameter of a method, without ``self``; None if there is none."""
    method = getattr(cls, name, None)
    if method is None or not callable(method):
        return None
    parameters = list(inspect.signature(method).parameters)[1:]
    try:
        return get_type_hints(method).get(parameters[0]) if parameters else None
    except (NameError, TypeError):
        return None
