"""Rules by which messages are ignored from some point of the order on (LOSS-66 to 70).

A rule begins and ends at a position of the sequence, so at the same message everywhere. One that lasts for so
many messages counts those that it kept back, in the order. One that lasts for some time ends when the
leader's clock says so and the leader has *ordered* its end: nobody looks at a clock while a record is applied
(LOSS-69). *Without it:* A and B apply the same range at different moments; for A the rule has ended, for B it
has not."""

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from holdfast.model.ids import SECOND
from holdfast.streams.actions import ANY, Ignore
from holdfast.streams.message import Message, Origin

RULES_MAX: Final = 64
"""The most rules of a group at a time; another one is not registered, and the audit says so."""


class Rule(Struct, frozen=True, array_like=True):
    """A registered rule. Empty selectors match everything."""

    number: int
    """Its number in the group, from 1, never used again."""
    source: str = ""
    stream: str = ""
    topics: tuple[str, ...] = ()
    related_to: str = ""
    priorities: tuple[int, ...] = ()
    left: int | None = None
    """How many messages it still keeps back; None if it does not count."""
    until_ns: int | None = None
    """When, in the group's time, its end is due; None if no time ends it."""
    until_sync: bool = False

    def matches(self, origin: Origin, message: Message) -> bool:
        return (
            (not self.stream or self.stream == origin.stream)
            and (not self.source or self.source == origin.source)
            and (not self.topics or message.topic in self.topics)
            and (not self.related_to or _is_related(message.topic, self.related_to))
            and (not self.priorities or message.priority in self.priorities)
        )

    def concerns(self, origin: Origin) -> bool:
        """Whether it may match messages of that stream."""
        return (not self.stream or self.stream == origin.stream) and (
            not self.source or self.source == origin.source
        )

    def __str__(self) -> str:
        selectors = {
            "source": self.source,
            "stream": self.stream,
            "topics": ",".join(self.topics),
            "related to": self.related_to,
            "priorities": ",".join(map(str, self.priorities)),
        }
        said = " ".join(f"{name} {value}" for name, value in selectors.items() if value) or "everything"
        return f"rule {self.number}: {said}"


def _is_related(topic: str, to: str) -> bool:
    return topic == to or (topic.startswith(to) and topic[len(to)] in "./:")


def rule_of(number: int, action: Ignore, origin: Origin, time_ns: int) -> Rule:
    """The rule that *action* means for a loss of *origin*, from *time_ns* of the group's time on."""
    is_default = not action.source and not action.stream
    stream = origin.stream if is_default else action.stream
    return Rule(
        number,
        action.source,
        "" if stream == ANY else stream,
        action.topics,
        action.related_to,
        action.priorities,
        action.for_messages,
        time_ns + round(action.for_s * SECOND) if action.for_s is not None else None,
        action.until_sync,
    )


class Rules:
    """The rules of one group, oldest first."""

    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        self._rules = {each.number: each for each in rules}

    def __iter__(self) -> Iterator[Rule]:
        return iter(self._rules.values())

    def __len__(self) -> int:
        return len(self._rules)

    def __contains__(self, number: object) -> bool:
        return number in self._rules

    @property
    def is_full(self) -> bool:
        return len(self._rules) >= RULES_MAX

    def copy(self) -> "Rules":
        return Rules(self._rules.values())

    def add(self, rule: Rule) -> None:
        self._rules[rule.number] = rule

    def end(self, number: int) -> None:
        self._rules.pop(number, None)

    def concern(self, origin: Origin) -> bool:
        """Whether any rule may match messages of that stream."""
        return any(each.concerns(origin) for each in self._rules.values())

    def match(self, origin: Origin, message: Message) -> Rule | None:
        """The oldest rule that keeps the message back."""
        return next((each for each in self._rules.values() if each.matches(origin, message)), None)

    def count(self, number: int, messages: int) -> None:
        """Rule *number* has kept back so many messages; it ends with the last of them."""
        rule = self._rules.get(number)
        if rule is not None and rule.left is not None:
            self._rules[number] = replace(rule, left=rule.left - messages)
            if rule.left <= messages:
                del self._rules[number]

    def of_sync(self, origin: Origin) -> list[int]:
        """The rules of that stream that end with a sync."""
        return [each.number for each in self._rules.values() if each.until_sync and each.concerns(origin)]

    def due(self, time_ns: int) -> list[int]:
        """The rules whose time has come by *time_ns* of the group's time; their end is to be ordered."""
        return [
            each.number
            for each in self._rules.values()
            if each.until_ns is not None and each.until_ns <= time_ns
        ]

    @property
    def next_due_ns(self) -> int | None:
        times = [each.until_ns for each in self._rules.values() if each.until_ns is not None]
        return min(times) if times else None
