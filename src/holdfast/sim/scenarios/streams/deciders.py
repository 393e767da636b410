"""Groups elsewhere that decide about the losses of a run's groups (LOSS-10): they answer as a book of that
group's policy would, late, twice, or not at all, and note what they were told and what they said."""

import random
from dataclasses import dataclass, field
from typing import Final

import msgspec

from holdfast.model.ids import MILLISECOND, HostId
from holdfast.sim.engine.world import World
from holdfast.sim.scenarios.streams import books
from holdfast.streams.actions import BadAction, action_of, steps_of
from holdfast.streams.annex import Streams
from holdfast.streams.information import LossInfo
from holdfast.streams.records import Decided

GROUP: Final = "judge"
BY: Final = f"group {GROUP}"
_NOTHING: Final = msgspec.msgpack.encode(None)


@dataclass(slots=True)
class Judge:
    """The group that decides for one other."""

    world: World
    rng: random.Random
    policy: books.Policy
    book: books.Noted = field(default_factory=books.Noted)
    said: list[tuple[LossInfo, tuple[str, ...]]] = field(default_factory=list)
    """What it was told, and the alternatives of its answer."""
    is_healed: bool = False

    def decide(self, info: LossInfo) -> tuple[bytes, str]:
        """What it answers, encoded, or why it does not."""
        try:
            answer = books.answered(self.policy, self.book, info)
        except ValueError as error:
            return _NOTHING, f"on_loss: {error}"
        self.book.delivered.append((info.stream, info.incarnation, info.first))  # it has a state of its own
        encoded = msgspec.msgpack.encode(answer)
        try:
            steps = steps_of(action_of(msgspec.msgpack.decode(encoded)))
        except BadAction:
            return encoded, ""
        self.said.append((info, tuple(map(str, steps))))
        return encoded, ""

    def has_said(self, decided: Decided) -> bool:
        """Whether it was asked about all of this, and that is what it answered."""
        return any(
            (info.stream, info.incarnation) == (decided.origin.stream, decided.origin.incarnation)
            and info.first <= decided.first
            and decided.last <= info.last
            and decided.action in steps
            for info, steps in self.said
        )


@dataclass(slots=True)
class JudgeAtHost:
    """The judge as one member asks it: a :class:`holdfast.streams.ports.DeciderGroup`."""

    host: HostId
    judge: Judge
    streams: Streams

    def ask(self, number: int, info: LossInfo, within_ms: int) -> bool:
        judge, rng = self.judge, self.judge.rng
        chance = 1.0 if judge.is_healed else rng.random()
        if chance < 0.1:
            return False
        if chance < 0.25:
            judge.world.sometimes("a group that decides was silent")
            return True
        action, why_not = judge.decide(info)
        for _ in range(2 if rng.random() < 0.2 else 1):
            # Sometimes later than anybody waits.
            delay_ns = rng.randrange(within_ms // 2 if chance < 0.9 or judge.is_healed else 2 * within_ms)
            self._answer(delay_ns * MILLISECOND, number, action, why_not)
        return True

    def _answer(self, delay_ns: int, number: int, action: bytes, why_not: str) -> None:
        node = self.judge.world.nodes[self.host]
        self.judge.world.after(
            delay_ns, node.run, node.life, self.streams.on_decided, number, action, why_not
        )
