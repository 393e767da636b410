"""Classes that answer losses as told and write down all that happens to them, and what the sequence
does for their groups."""

from collections.abc import Callable
from typing import Any

from stream_group import StreamGroup

import holdfast as hf
from holdfast.streams.message import Message

SHORT: dict[str, Any] = {
    "grace_ms": 10,
    "recover_ms": 40,
    "retry_ms": 5,
    "attempts": 1,
    "decide_ms": 20,
    "status_ms": 50,
}


def said(number: int, topic: str = "opening", priority: int = 3) -> Message:
    return Message(number, priority, topic, f"#{number}".encode())


def book(answer: hf.Action, *, is_batch: bool = False, **settings: Any) -> type:
    """A class that answers every loss so, and writes down all that it is given and told."""

    class Written:
        streams = hf.StreamSettings(**{**SHORT, **settings})

        def __init__(self) -> None:
            self.seen: list[str] = []
            self.told: list[str] = []

        def on_loss(self, info: hf.LossInfo) -> hf.Action:
            return answer

        def on_action(self, notice: hf.Notice) -> None:
            span = f" {notice.rule}" if notice.rule else f" {notice.first}-{notice.last}"
            self.told.append(notice.kind + span)

        def note(self, message: hf.StreamMessage) -> None:
            assert message.payload == f"#{message.number}".encode()
            self.seen.append(f"{message.stream} {message.number}")

    class One(Written):
        def on_message(self, message: hf.StreamMessage) -> None:
            self.note(message)

    class Batch(Written):
        def on_messages(self, batch: list[hf.StreamMessage]) -> None:
            for each in batch:
                self.note(each)

    return Batch if is_batch else One


def objects_of(made: StreamGroup) -> list[Any]:
    return [each.execution for each in made.replicas.values()]


def until(made: StreamGroup, holds: Callable[[], bool]) -> None:
    """Let time pass until *holds*, as long as that may take."""
    for _ in range(100):
        if holds():
            return
        made.run(5)
    raise AssertionError("it does not come to that")


def settle(made: StreamGroup) -> None:
    """Let time pass until every member has applied all that was ordered."""
    made.run(20)
    until(made, lambda: None in objects_of(made) or len({each.position for each in objects_of(made)}) == 1)


def follow(made: StreamGroup) -> set[str]:
    """Do what the sequence does: the group is led by the server that it was handed to, and one without its
    object takes the leader's state. Returns who had none."""
    while made.handed_over:
        _, to, _ = made.handed_over.pop()
        made.fail_over(to, is_crash=False)
        until(made, lambda: None in objects_of(made))
    suspended = {name for name, each in made.replicas.items() if each.execution is None}
    for name in sorted(suspended):
        state = made.replicas[made.primary].capture()
        assert state is not None
        made.replicas[name].install(state)
    made.run(10)
    return suspended


def numbers_of(name: str, made: StreamGroup, stream: str = "gold") -> list[int]:
    words = [each.split() for each in made.object(name).seen]
    return [int(number) for of, number in words if of == stream]


def assert_equal(made: StreamGroup) -> None:
    """All members have been given and told the same, and have the same state."""
    first = made.object(made.primary)
    for name in made.replicas:
        assert (made.object(name).seen, made.object(name).told) == (first.seen, first.told), name
    assert len(made.digests()) == 1
