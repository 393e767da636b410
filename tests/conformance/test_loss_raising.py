"""A class that raises at a message: what is delivered stays delivered, the same everywhere, and people see it
(LOSS-80, LOSS-91)."""

import pytest
from stream_group import StreamGroup, message

import holdfast as hf
from holdfast.streams.delivering import FAILED
from holdfast.streams.message import Origin
from holdfast.styles.replica import Replica

SILVER = Origin("exchange", "silver", 1)


class Single:
    """Raises at every fourth message."""

    streams = hf.StreamSettings(grace_ms=10)

    def __init__(self) -> None:
        self.numbers: list[int] = []

    def on_message(self, message: hf.StreamMessage) -> None:
        if message.number % 4 == 0:
            raise ValueError(f"not {message.number}")
        self.numbers.append(message.number)


class Batched:
    """Raises at message 3, with its batch half done, and takes its batch to pieces."""

    streams = hf.StreamSettings(grace_ms=10)
    numbers: list[int]

    def __init__(self) -> None:
        self.numbers = []

    def on_messages(self, batch: list[hf.StreamMessage]) -> None:
        while batch:
            message = batch.pop(0)
            if message.number == 3:
                raise ValueError("not three")
            self.numbers.append(message.number)


class Waiting(Batched):
    """The same, after it has waited for another group."""

    async def on_messages(self, batch: list[hf.StreamMessage]) -> None:  # type: ignore[override]
        Batched.on_messages(self, batch)


class Noticing(Single):
    def on_loss(self, info: hf.LossInfo) -> hf.Action:
        return hf.Drop()

    def on_action(self, notice: hf.Notice) -> None:
        raise LookupError(notice.kind)


class Notes:
    """What members note of methods that have not returned."""

    def __init__(self) -> None:
        self.taken: list[dict[str, object]] = []

    def note(self, kind: str, **fields: object) -> None:
        if kind == FAILED:
            self.taken.append(fields)


class Noted(StreamGroup):
    """One whose members' notes are kept."""

    def __init__(self, cls: type, notes: Notes) -> None:
        self.trace = notes
        super().__init__(cls)


def failed(made: StreamGroup, name: str, stream: str = "gold") -> int:
    mark = made.ledger(name).mark(stream)
    return 0 if mark is None else mark.failed


@pytest.mark.covers("LOSS-80")
def test_one_message_that_raises_costs_no_other() -> None:
    made = StreamGroup(Single)
    made.send("abc", *map(message, range(1, 10)))
    assert [each.numbers for each in made.objects()] == [[1, 2, 3, 5, 6, 7, 9]] * 3
    assert [failed(made, name) for name in "abc"] == [2] * 3
    assert len(made.digests()) == 1


@pytest.mark.covers("LOSS-80")
@pytest.mark.parametrize("cls", [Batched, Waiting])
def test_a_batch_that_raises_stays_delivered_and_its_messages_are_counted_by_stream(cls: type) -> None:
    """What came before the raise stays, nothing is delivered again, and the next batch is: whatever the
    method has done to its list."""
    made = StreamGroup(cls)
    made.streams["a"].on_messages(SILVER, [message(1), message(2)])
    made.send("abc", *map(message, range(1, 8)))
    made.send("bc", message(1), message(2), origin=SILVER)
    made.send("abc", message(8), message(9))
    numbers = made.object("a").numbers
    assert 3 not in numbers
    assert numbers[-2:] == [8, 9]
    assert [each.numbers for each in made.objects()] == [numbers] * 3
    assert {failed(made, name) for name in "abc"} == {7}, "all of its batch"
    assert len({failed(made, name, "silver") for name in "abc"}) == 1
    assert len(made.digests()) == 1
    mark = made.ledger().mark("gold")
    assert mark is not None
    assert (mark.mark, mark.delivered) == (9, 9)


def test_the_count_is_part_of_the_state_and_of_every_replay() -> None:
    made = StreamGroup(Batched)
    made.send("abc", *map(message, range(1, 8)))
    made.crash("c")
    made.restart("c")
    made.run(50)
    state = made.replicas["a"].capture()
    assert state is not None
    replica: Replica = made.replicas["c"]
    if replica.execution is None:
        replica.install(state)
    made.run(50)
    assert failed(made, "c") == failed(made, "a") == 7
    assert len(made.digests()) == 1


def test_a_member_notes_what_raised_for_people() -> None:
    notes = Notes()
    made = Noted(Batched, notes)
    made.send("abc", *map(message, range(1, 5)))
    assert notes.taken == [
        {"stream": "gold", "messages": "1 to 4", "method": "on_messages", "why": "ValueError: not three"}
    ] * len("abc")


def test_on_action_that_raises_is_noted_and_counts_no_message() -> None:
    notes = Notes()
    made = Noted(Noticing, notes)
    made.send("abc", message(1), message(3))
    made.run(100)
    assert [failed(made, name) for name in "abc"] == [0] * 3
    assert [each.numbers for each in made.objects()] == [[1, 3]] * 3
    assert notes.taken == [
        {"stream": "gold", "messages": "", "method": "on_action", "why": "LookupError: drop"}
    ] * len("abc")
