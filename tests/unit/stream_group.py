"""A group of three members fed by a stream, each with what reached it: real replicas over the stand-in of the
sequence (:mod:`fake_group`), and a class as users write it."""

from dataclasses import replace
from typing import Any

from fake_group import FakeGroup
from style_groups import CONFIG

from holdfast.app_code.annex_table import annexes_of
from holdfast.authority.groups import GroupRecord
from holdfast.execution.definition import Definition
from holdfast.model.ids import MILLISECOND, GroupId, Nonce
from holdfast.streams.annex import Streams
from holdfast.streams.ledger import Ledger
from holdfast.streams.message import NONE_BEFORE, Ages, Heartbeat, Message, Origin
from holdfast.styles.replica import Replica

RECORD = GroupRecord(group=GroupId(1), class_name="c", style="active", members=(), nonce=Nonce("n"))
ORIGIN = Origin("exchange", "gold", 1)


def message(number: int, priority: int = 1, topic: str = "bids", **more: Any) -> Message:
    """A message of the stream; its content is its number."""
    return Message(number, priority, topic, f"#{number}".encode(), **more)


def described(priorities: list[int], levels: int = 2, topic: str = "bids") -> list[Message]:
    """Messages 1, 2, … with these priorities, and the distances that a source gives them."""
    last: dict[int, int] = {}
    made = []
    for number, priority in enumerate(priorities, start=1):
        exact = tuple(number - last[each] if each in last else NONE_BEFORE for each in range(levels - 1))
        before = [max(last.get(each, 0) for each in range(level + 1)) for level in range(levels - 1)]
        cumulative = tuple(number - each if each else NONE_BEFORE for each in before)
        made.append(message(number, priority, topic, distances=exact, cumulative=cumulative))
        last[priority] = number
    return made


class StreamGroup(FakeGroup):
    """Members *a* (the first leader), *b* and *c* of a group of *cls*."""

    def __init__(self, cls: type, names: str = "abc") -> None:
        self.streams: dict[str, Streams] = {}
        made = Definition(group="books", cls=cls, fresh=cls, created_ns=1)
        super().__init__("active", made, CONFIG, names)

    def start(self, name: str) -> Replica:
        (annex,) = annexes_of(RECORD, self.definition.cls)
        assert isinstance(annex, Streams)
        self.streams[name] = annex
        self.classes[name] = replace(self.definition, annexes=(annex,))
        return super().start(name)

    # --- the world

    def send(self, to: str, *messages: Message, origin: Origin = ORIGIN) -> None:
        """These reach the members named in *to*, and no others."""
        for name in to:
            if name in self.replicas:
                self.streams[name].on_messages(origin, messages)
        self.run()

    def beat(self, to: str, highest: int, origin: Origin = ORIGIN) -> None:
        for name in to:
            self.streams[name].on_heartbeat(origin, Heartbeat(highest))
        self.run()

    def run(self, ms: int = 0) -> None:
        """Let *ms* pass, and everything happen that follows."""
        for _ in range(max(1, ms // 5)):
            if ms:
                self.clock.time_ns += 5 * MILLISECOND
            for _ in range(4):
                for name in self.replicas:
                    self.replicas[name].turn()
                self.settle()
                self.deliver()

    # --- what came of it

    def object(self, name: str) -> Any:
        execution = self.replicas[name].execution
        assert execution is not None
        return execution.line.instance

    def objects(self) -> list[Any]:
        return [self.object(name) for name in self.replicas]

    def ledger(self, name: str = "") -> Ledger:
        found = self.streams[name or self.primary].ledger
        assert found is not None
        return found

    def digests(self) -> set[bytes]:
        found = [self.replicas[name].execution for name in self.replicas]
        return {each.digest() for each in found if each is not None}


def created(number: int, at_ns: int) -> Message:
    return message(number, ages=Ages(created_ns=at_ns))
