"""What a host's log must hold after a restart: an independent account of everything that was asked of it.

A log takes changes in one order, over all groups. After a crash it must hold exactly what some prefix of
them amounts to, and that prefix must include every change that was reported durable: nothing acknowledged
is lost, nothing is invented, nothing is kept whose predecessor is gone.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class History:
    """One group: the bodies after *floor*, in order."""

    floor: int = 0
    bodies: list[bytes] = field(default_factory=list)

    @property
    def tail(self) -> int:
        return self.floor + len(self.bodies)


Change = Callable[[History], None]


def appended(body: bytes, count: int = 1) -> Change:
    if count == 1:
        return lambda history: history.bodies.append(body)
    return lambda history: history.bodies.extend(operations(body, count))


def operations(body: bytes, count: int) -> list[bytes]:
    """A record as the operations it holds: its body stands for the first of them."""
    return [body] + [b""] * (count - 1)


def dropped(after: int) -> Change:
    def drop(history: History) -> None:
        del history.bodies[after - history.floor :]

    return drop


def floored(position: int) -> Change:
    def raise_floor(history: History) -> None:
        del history.bodies[: position - history.floor]
        history.floor = position

    return raise_floor


class Ledger:
    """The account of one store."""

    def __init__(self) -> None:
        self.state: dict[int, History] = {}
        """What is durable."""
        self._accepted: dict[int, History] = {}  # what was durable when the log was opened
        self._reports: list[list[tuple[int, int, Change]]] = []  # what each report since then has added
        self._waiting: deque[tuple[int, int, Change]] = deque()

    def asked(self, number: int, group: int, change: Change) -> None:
        """The log took a change under *number*."""
        self._waiting.append((number, group, change))

    def durable(self, number: int) -> int:
        """The log said that everything up to *number* is durable; returns how many changes that settled."""
        waiting, state, added = self._waiting, self.state, list[tuple[int, int, Change]]()
        while waiting and waiting[0][0] <= number:
            change = waiting.popleft()
            added.append(change)
            _settle(state, *change)
        self._reports.append(added)
        return len(added)

    def acknowledged(self, group: int) -> int:
        """Up to which position the group's records are durable."""
        return self.state[group].tail if group in self.state else 0

    def has_waiting(self, group: int) -> bool:
        """Whether changes of the group are not yet durable."""
        return any(waiting == group for _, waiting, _ in self._waiting)

    def objection(self, found: dict[int, History], *, lost_reports: int = 0) -> str | None:
        """What is wrong with what the log holds after a restart; None when it is as it must be.

        It may lack what the last *lost_reports* added: the log reports batch by batch, and each of so many
        faults may have spoilt the batch that was the last one readable, and with it the mark that vouched
        for the one before.
        """
        state, last = self._before(lost_reports) if lost_reports else (copied(self.state), [])
        wrong = first_wrong = _difference(state, found)
        for change in (*last, *self._waiting):
            if wrong is None:
                return None
            _settle(state, *change)
            wrong = _difference(state, found)
        return wrong and first_wrong

    def accept(self, found: dict[int, History]) -> None:
        """The log is open again with *found*: that is durable now, whatever else was asked before."""
        self.state = copied(found)
        self._accepted = copied(found)
        self._reports.clear()
        self._waiting.clear()

    def _before(self, lost_reports: int) -> tuple[dict[int, History], list[tuple[int, int, Change]]]:
        """What was durable before the last reports, and what those added."""
        state = copied(self._accepted)
        for report in self._reports[:-lost_reports]:
            for change in report:
                _settle(state, *change)
        return state, [change for report in self._reports[-lost_reports:] for change in report]


def copied(state: dict[int, History]) -> dict[int, History]:
    return {group: History(history.floor, list(history.bodies)) for group, history in state.items()}


def _settle(state: dict[int, History], _: int, group: int, change: Change) -> None:
    history = state.get(group)
    if history is None:
        history = state[group] = History()
    change(history)


def _difference(durable: dict[int, History], found: dict[int, History]) -> str | None:
    for group in sorted(durable.keys() | found.keys()):
        mine = durable.get(group, History())
        its = found.get(group, History())
        if (mine.floor, mine.tail) != (its.floor, its.tail):
            return (
                f"group {group}: the log holds {its.floor + 1} to {its.tail},"
                f" durable was {mine.floor + 1} to {mine.tail}"
            )
        if mine.bodies != its.bodies:
            pairs = enumerate(zip(mine.bodies, its.bodies, strict=True))
            at = next(offset for offset, (body, other) in pairs if body != other)
            return f"group {group}: another body at position {mine.floor + 1 + at}"
    return None
