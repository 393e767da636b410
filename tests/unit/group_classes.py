"""Classes that tests run as groups, and the records that call them."""

from typing import Any, ClassVar

import msgspec

import holdfast as hf
from holdfast.execution.definition import Definition
from holdfast.execution.execution import Execution
from holdfast.execution.records import Call, Calls, Sent, Stamp, encode_arguments, encode_calls
from holdfast.model.csn import Csn
from holdfast.model.ids import ClientId, Position, ReplicaId
from holdfast.model.outcome import Outcome, decode_outcome

A, B = ClientId("a"), ClientId("b")
LATER_S = 200_000


class Spy:
    """Leaves a trace outside of its state whenever a method really runs."""

    runs: ClassVar[list[str]] = []

    def __init__(self) -> None:
        self.lines: list[str] = []

    def write(self, line: str) -> int:
        self.runs.append(line)
        self.lines.append(line)
        return len(self.lines)

    async def ask(self, line: str) -> int:
        await hf.context.group("other").get(line)
        return self.write(line)

    @hf.query
    def read(self) -> list[str]:
        return list(self.lines)


class TellsUpdates:
    """Says what was added to its lines since it was last asked; to be mixed into a class that has some."""

    lines: list[str]
    _told = 0

    def get_state(self) -> bytes:
        self._told = len(self.lines)
        return msgspec.msgpack.encode(self.lines)

    def set_state(self, state: bytes) -> None:
        self.lines = msgspec.msgpack.decode(state)

    def get_update(self) -> bytes:
        told, self._told = self._told, len(self.lines)
        return msgspec.msgpack.encode(self.lines[told:])

    def set_update(self, update: bytes) -> None:
        self.lines += msgspec.msgpack.decode(update)


class Counter:
    """Does one of everything."""

    seen: list[str]

    def __init__(self) -> None:
        self.total = 0
        self.seen = []

    def add(self, amount: int = 1) -> int:
        self.total += amount
        return self.total

    def spoil(self, amount: int) -> None:
        self.total += amount
        raise ValueError(f"spoilt by {amount}")

    def note(self, text: str) -> None:
        self.seen.append(text)

    def roll(self) -> list[Any]:
        found = [hf.context.time(), hf.context.random.random(), str(hf.context.uuid4())]
        self.seen.append(repr(found))
        return [*found, list(hf.context.request_id), hf.context.this_group]

    def remind(self, delay_s: float, text: str) -> int:
        return hf.context.call_later(delay_s, self.note, text)

    def repeat(self, schedule: str, text: str) -> int:
        return hf.context.cron(schedule, "note", text)

    def forget(self, timer: int) -> bool:
        return hf.context.cancel(timer)

    async def fetch(self, group: str, *names: str) -> list[Any]:
        """Calls another group once for each name; the total grows before and after each."""
        found = []
        for name in names:
            self.total += 1
            found.append(await hf.context.group(group).get(name))
            self.total += 1
        return found

    async def at_once(self, amount: int) -> int:
        return self.add(amount)

    @hf.query
    def get(self) -> int:
        return self.total


def definition(cls: type = Counter, group: str = "g") -> Definition:
    return Definition(group, cls, cls)


def call(number: int, method: str, *args: object, expiration_s: int = LATER_S, **kwargs: object) -> Call:
    return Call(number, method, encode_arguments(args, kwargs), expiration_s)


def sent(*calls: Call, client: ClientId = A, floor: int = 1) -> Sent:
    return Sent(client, floor, max((each.expiration_s for each in calls), default=0), encode_calls([*calls]))


def stamp(time_s: int = 10, nanos: int = 0, sequence: int = 0) -> Stamp:
    return Stamp(Csn(time_s, sequence, ReplicaId(1)), nanos)


def following(execution: Execution) -> Position:
    return Position(execution.position + 1)


def run(execution: Execution, *calls: Call, time_s: int = 10, client: ClientId = A) -> list[Outcome | None]:
    """The outcomes of calls ordered as one batch."""
    effects = execution.apply(following(execution), Calls(stamp(time_s), sent(*calls, client=client)))
    return [outcome if outcome is None else decode_outcome(outcome) for outcome in effects.outcomes]
