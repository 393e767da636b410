"""What rules keep back of the messages that come next (F2, LOSS-49, LOSS-50).

A message that is kept back is passed over: the stream's mark moves on all the same, so that ignoring never
makes a gap. One with the sync topic ends the rules of its stream that last until sync, before it is looked
at itself.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from holdfast.streams.message import Message, Origin
from holdfast.streams.records import Deliver, Entry, Passed, RuleEnded
from holdfast.streams.rules import Rules
from holdfast.streams.runs import Listed, Run


@dataclass(slots=True)
class SelectiveDropper:
    """Makes entries of messages, by the rules that there are. *deliver* makes the one for messages that no
    rule keeps back."""

    sync_topic: str
    deliver: Callable[[Origin, list[Run]], Deliver]
    _kept: list[Message] = field(default_factory=list)
    _back: list[int] = field(default_factory=list)
    _rule: int = 0

    def entries(self, origin: Origin, messages: Iterable[Message], rules: Rules) -> Iterator[Entry]:
        """The entries for *messages*, which follow each other; *rules* count those that they keep back."""
        for message in messages:
            ended = rules.of_sync(origin) if self.sync_topic and message.topic == self.sync_topic else []
            if ended:
                yield from self._flushed(origin)
                for number in ended:
                    rules.end(number)
                    yield RuleEnded(number, "sync")
            found = rules.match(origin, message)
            number = found.number if found is not None else 0
            if number != self._rule:
                yield from self._flushed(origin)
            self._rule = number
            if found is None:
                self._kept.append(message)
            else:
                self._back.append(message.number)
                rules.count(number, 1)
        yield from self._flushed(origin)

    def _flushed(self, origin: Origin) -> Iterator[Entry]:
        if self._kept:
            yield self.deliver(origin, [Listed(self._kept[:])])
        if self._back:
            yield Passed(origin, self._back[0], self._back[-1], self._rule)
        self._kept.clear()
        self._back.clear()
        self._rule = 0
