"""What a host's log must contain after a restart, derived from an independent record of all requests.

A log takes the changes of all groups in one order. After a crash it must contain exactly the result of some
prefix of those changes, and that prefix must include every change that was reported durable: nothing
acknowledged is lost, nothing is invented, and nothing is kept whose predecessor is gone.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class History:
    """The log of one group: the bodies after *floor*, in order."""

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
    """Split a record into the operations it contains: its body stands for the first of them."""
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
    """The record of all changes requested of one store's log."""

    def __init__(self) -> None:
        self.state: dict[int, History] = {}
        """What is durable."""
        self._accepted: dict[int, History] = {}  # what was durable when the log was opened
        self._reports: list[list[tuple[int, int, Change]]] = []  # what each report since then has added
        self._waiting: deque[tuple[int, int, Change]] = deque()

    def asked(self, number: int, group: int, change: Change) -> None:
        """Record that the log took a change under *number*."""
        self._waiting.append((number, group, change))

    def durable(self, number: int) -> int:
        """Record that the log reported everything up to *number* as durable.

        Return how many changes became durable.
        """
        waiting, state, added = self._waiting, self.state, list[tuple[int, int, Change]]()
        while waiting and waiting[0][0] <= number:
            change = waiting.popleft()
            added.append(change)
            _settle(state, *change)
        self._reports.append(added)
        return len(added)

    def acknowledged(self, group: int) -> int:
        """Return the position up to which the group's records are durable."""
        return self.state[group].tail if group in self.state else 0

    def has_waiting(self, group: int) -> bool:
        """Whether changes of the group are not yet durable."""
        return any(waiting == group for _, waiting, _ in self._waiting)

    def objection(self, found: dict[int, History], *, lost_reports: int = 0) -> str | None:
        """Return what is wrong with the log's content after a restart; None when it is correct.

        The log may lack what the last *lost_reports* reports added. The log reports batch by batch, and each
        of that many faults may have destroyed the last readable batch, and with it the mark that confirmed
        the batch before.
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
        """Record that the log is open again with *found*.

        That is durable now, whatever else was requested before.
        """
        self.state = copied(found)
        self._accepted = copied(found)
        self._reports.clear()
        self._waiting.clear()

    def _before(self, lost_reports: int) -> tuple[dict[int, History], list[tuple[int, int, Change]]]:
        """Return what was durable before the last *lost_reports* reports, and what those reports added."""
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
