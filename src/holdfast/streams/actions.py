"""What the application may answer to a loss: four actions, and how they are put together (LOSS-62 to 74).

``Recover() | Suspend()`` tries the first and, if it fails, does the second. ``Drop() & Ignore(topic="bids")``
does both. An answer is checked as a whole and becomes *steps*: alternatives, of which each does one thing
with the lost messages and registers any number of rules. Only a recovery can fail, and a suspension that
finds no other server, so whatever comes after anything else would never be reached, and is refused."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated, Any, Final, cast

import msgspec
from msgspec import Meta, Struct

from holdfast.model.errors import InvalidRequest
from holdfast.streams.message import NAME_CHARACTERS_MAX, PRIORITY_MAX, TOPIC_CHARACTERS_MAX, Priority

STEPS_MAX: Final = 8
"""The most alternatives in one answer."""
RULES_PER_ANSWER_MAX: Final = 8
TOPICS_MAX: Final = 32
FOR_S_MAX: Final = 366 * 24 * 3600
FOR_MESSAGES_MAX: Final = 1 << 40
ANY: Final = "*"
"""Stands for every stream."""


class BadAction(InvalidRequest):
    """Raised when an answer to a loss cannot be carried out as it was given."""

    code = "bad_action"


class _Action(Struct, frozen=True):
    def __or__(self, other: "Action") -> "Either":
        return Either((*_parts(self, Either), *_parts(other, Either)))

    def __and__(self, other: "Action") -> "Both":
        return Both((*_parts(self, Both), *_parts(other, Both)))


class Suspend(_Action, frozen=True, tag="suspend"):
    """Leave the lost messages to a server that has them: it leads from now on, and this one takes its
    state."""


class Recover(_Action, frozen=True, tag="recover"):
    """Get the lost messages from wherever they are. It fails when this time has passed, or everybody who
    could have them was asked this often; None means the settings of the streams."""

    within_ms: Annotated[int, Meta(ge=1, le=600_000)] | None = None
    attempts: Annotated[int, Meta(ge=1, le=100)] | None = None


class Drop(_Action, frozen=True, tag="drop"):
    """Go on without the lost messages. No server delivers them, also if it has them."""


Topic = Annotated[str, Meta(min_length=1, max_length=TOPIC_CHARACTERS_MAX)]


class Ignore(_Action, frozen=True, tag="ignore"):
    """Deliver no more messages that match everything given here: of a source, of a stream (where neither is
    given: of the stream that lost messages; ``"*"`` means every stream), of topics, of topics related to one
    (equal to it, or below it: ``"bids"`` and ``"bids.gold"``), of priorities. For ever, or for so many
    seconds or messages, or until the application and the source are in step again (``until_sync``)."""

    source: Annotated[str, Meta(max_length=NAME_CHARACTERS_MAX)] = ""
    stream: Annotated[str, Meta(max_length=NAME_CHARACTERS_MAX)] = ""
    topic: Topic | Annotated[tuple[Topic, ...], Meta(max_length=TOPICS_MAX)] = ()
    related_to: Annotated[str, Meta(max_length=TOPIC_CHARACTERS_MAX)] = ""
    priority: Priority | Annotated[tuple[Priority, ...], Meta(max_length=PRIORITY_MAX + 1)] = ()
    for_s: Annotated[float, Meta(gt=0, le=FOR_S_MAX)] | None = None
    for_messages: Annotated[int, Meta(ge=1, le=FOR_MESSAGES_MAX)] | None = None
    until_sync: bool = False

    @property
    def topics(self) -> tuple[str, ...]:
        return (self.topic,) if isinstance(self.topic, str) else self.topic

    @property
    def priorities(self) -> tuple[int, ...]:
        return (self.priority,) if isinstance(self.priority, int) else self.priority


class Either(_Action, frozen=True, tag="either"):
    """The first of these that succeeds."""

    actions: tuple["Action", ...]


class Both(_Action, frozen=True, tag="both"):
    """All of these."""

    actions: tuple["Action", ...]


Action = Suspend | Recover | Drop | Ignore | Either | Both


def _parts(action: Any, kind: type[Either] | type[Both]) -> tuple[Action, ...]:
    return action.actions if isinstance(action, kind) else (action,)


class Deed(StrEnum):
    """What becomes of the lost messages."""

    SUSPEND = "suspend"
    RECOVER = "recover"
    DROP = "drop"


@dataclass(frozen=True, slots=True)
class Step:
    """One alternative of an answer."""

    deed: Deed | None = None
    rules: tuple[Ignore, ...] = ()
    within_ms: int | None = None
    attempts: int | None = None

    def __str__(self) -> str:
        return " & ".join([str(self.deed), *("ignore" for _ in self.rules)])


def steps_of(action: Action) -> tuple[Step, ...]:
    """The alternatives that *action* means, in their order. An ``Ignore`` that says nothing of the messages
    already lost drops them (LOSS-74). Raises :class:`BadAction`."""
    steps = tuple(
        replace(each, deed=Deed.DROP) if each.deed is None else each for each in _alternatives(action, 0)
    )
    if len(steps) > STEPS_MAX:
        raise BadAction(f"an answer has at most {STEPS_MAX} alternatives, not {len(steps)}")
    for each in steps[:-1]:
        if each.deed is Deed.DROP:
            raise BadAction("nothing comes after Drop() |, because dropping always succeeds; put it last")
    if any(len(each.rules) > RULES_PER_ANSWER_MAX for each in steps):
        raise BadAction(f"an answer registers at most {RULES_PER_ANSWER_MAX} rules")
    return steps


def action_of(value: Any) -> Action:
    """The action that the application returned, after it was encoded. Raises :class:`BadAction`."""
    try:
        return cast(Action, msgspec.convert(value, Action))
    except (msgspec.ValidationError, RecursionError) as error:
        raise BadAction(
            f"on_loss returns an action such as Drop() or Recover() | Suspend(): {error}"
        ) from None


DEPTH_MAX: Final = 16


def _alternatives(action: Action, depth: int) -> list[Step]:
    if depth > DEPTH_MAX:
        raise BadAction(f"an answer is nested at most {DEPTH_MAX} deep")
    match action:
        case Either(actions=actions):
            if not actions:
                raise BadAction("an answer without any action")
            found = [step for each in actions for step in _alternatives(each, depth + 1)]
            if len(found) > STEPS_MAX:
                raise BadAction(f"an answer has at most {STEPS_MAX} alternatives")
            return found
        case Both(actions=actions):
            if not actions:
                raise BadAction("an answer without any action")
            found = _alternatives(actions[0], depth + 1)
            for each in actions[1:]:
                found = list(_joined(found, _alternatives(each, depth + 1)))
            return found
        case Recover():
            return [Step(Deed.RECOVER, (), action.within_ms, action.attempts)]
        case Suspend():
            return [Step(Deed.SUSPEND)]
        case Drop():
            return [Step(Deed.DROP)]
        case Ignore():
            _check(action)
            return [Step(None, (action,))]


def _joined(one: list[Step], other: list[Step]) -> Iterator[Step]:
    if len(one) * len(other) > STEPS_MAX:
        raise BadAction(f"an answer has at most {STEPS_MAX} alternatives")
    for left in one:
        for right in other:
            if left.deed is not None and right.deed is not None and left.deed is not right.deed:
                raise BadAction(
                    f"{left.deed} & {right.deed}: the lost messages have one fate; use | for a second choice"
                )
            yield Step(
                left.deed or right.deed,
                left.rules + right.rules,
                left.within_ms or right.within_ms,
                left.attempts or right.attempts,
            )


def _check(rule: Ignore) -> None:
    extents = [rule.for_s is not None, rule.for_messages is not None, rule.until_sync]
    if sum(extents) > 1:
        raise BadAction("Ignore lasts for seconds, for messages or until sync: give one of them, or none")
