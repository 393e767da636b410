"""Fast checks for workloads whose written values are unique: n log n, for any number of clients.

When each value is written once, every answer names the write it saw, so no search for an order is needed:

- *register*: the operations on one value form a zone, from the first return to the last invocation among them
  (Gibbons and Korach). Two values that are certainly held at the same time are a contradiction.
- *list* and *counter*: an answer gives the operation's rank, so its place in the order is known. It remains
  to compare ranks with real time, and to see that operations of unknown outcome can fill the gaps.

The checks never reject a correct history. The register and list checks miss nothing. The counter check misses
a bad history only when unknown additions of different amounts cannot sum up to the gaps. The caller must
ensure that values are unique: otherwise the checks would mean nothing, and raise ``ValueError``.

Measured once (CPython 3.11): 100,000 operations of 100 clients in 0.3 s (register) and 0.7 s (appends alone;
counter). Compared with brute force on 75,000 random histories, no correct history was rejected; the checks
missed 0 of 3,895 bad registers, 0 of 10,791 bad lists, and 167 of 12,195 bad counters.
"""

from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from holdfast.sim.checkers.history import (
    NEVER,
    Add,
    Append,
    Operation,
    Outcome,
    Read,
    Violation,
    Write,
    by_key,
)

_BEFORE_ALL: Final = -NEVER


def check_register(operations: Iterable[Operation], *, initial: Hashable = None) -> list[Violation]:
    """Check ``Read`` and ``Write`` of registers, each key separately; at most one violation per key."""
    return _each_key(operations, "register", lambda own: _register_flaw(own, initial))


def check_list(operations: Iterable[Operation]) -> list[Violation]:
    """Check ``Append``, which answers its position, and ``Read``, which answers the whole list.

    Each key is checked separately.
    """
    return _each_key(operations, "list", _list_flaw)


def check_counter(operations: Iterable[Operation]) -> list[Violation]:
    """Check ``Add`` of positive amounts and ``Read`` of counters that start at 0; each key separately."""
    return _each_key(operations, "counter", _counter_flaw)


def _each_key(
    operations: Iterable[Operation], kind: str, flaw: Callable[[list[Operation]], str | None]
) -> list[Violation]:
    happened = (operation for operation in operations if operation.outcome is not Outcome.FAILED)
    found = ((key, flaw(own)) for key, own in by_key(happened).items())
    return [Violation(f"linearizable.{kind}", f"{key}: {text}") for key, text in found if text is not None]


# --- registers, by zones


@dataclass(slots=True)
class _Zone:
    """Everything that was seen of one value: its write and its reads."""

    value: Hashable
    write: Operation | None
    first_return: int
    last_call: int
    last: Operation | None = None
    """The operation that was invoked last of those that saw the value."""

    def add(self, operation: Operation) -> None:
        self.first_return = min(self.first_return, operation.returned)
        if operation.invoked >= self.last_call:
            self.last_call, self.last = operation.invoked, operation

    @property
    def is_forward(self) -> bool:
        """Whether the value was certainly held from the first return to the last call."""
        return self.first_return < self.last_call


def _register_flaw(operations: Sequence[Operation], initial: Hashable) -> str | None:
    zones = {initial: _Zone(initial, None, _BEFORE_ALL, _BEFORE_ALL)}
    for operation in operations:
        if isinstance(operation.request, Write):
            value = operation.request.value
            if value in zones:
                raise ValueError(f"{value!r} is written twice or is the initial value: {operation}")
            zones[value] = _Zone(value, operation, operation.returned, operation.invoked, operation)
    for operation in operations:
        if isinstance(operation.request, Read) and operation.outcome is Outcome.OK:
            zone = zones.get(operation.result)
            if zone is None:
                return f"a value that nobody wrote\n    {operation}"
            if zone.write is not None and operation.precedes(zone.write):
                return f"a value from the future\n    {operation}\n    {zone.write}"
            zone.add(operation)
    return _clashing_zones(list(zones.values()))


def _clashing_zones(zones: Sequence[_Zone]) -> str | None:
    forward = sorted((zone for zone in zones if zone.is_forward), key=lambda zone: zone.first_return)
    for earlier, later in pairwise(forward):
        if later.first_return < earlier.last_call:
            return _clash(earlier, later)
    starts = [zone.first_return for zone in forward]
    for zone in zones:
        # A value has no place in the order if all its operations ran while another value was certainly held.
        # This does not apply to a value that nobody read and whose write may not have happened.
        if not zone.is_forward and zone.first_return != NEVER:
            around = bisect_right(starts, zone.last_call - 1) - 1
            if around >= 0 and zone.first_return < forward[around].last_call:
                return _clash(forward[around], zone)
    return None


def _clash(held: _Zone, other: _Zone) -> str:
    since = held.first_return if held.write else "the beginning"
    lines = [
        f"{held.value!r} was surely held from {since} to {held.last_call}; {other.value!r} has no place",
        *(str(each) for zone in (held, other) for each in dict.fromkeys((zone.write, zone.last)) if each),
    ]
    return "\n    ".join(lines)


# --- lists and counters, by rank


@dataclass(frozen=True, slots=True)
class _Ranked:
    """An operation whose place is known: it changed the total from *before* to *after*.

    The two are equal for a read.
    """

    before: int
    after: int
    operation: Operation

    @property
    def is_change(self) -> bool:
        return self.after > self.before


def _counter_flaw(operations: Sequence[Operation]) -> str | None:
    ranked, unknown = [], []
    for operation in operations:
        amount = operation.request.amount if isinstance(operation.request, Add) else 0
        if isinstance(operation.request, Add) and amount <= 0:
            raise ValueError(f"ranks need positive amounts: {operation}")
        if operation.outcome is Outcome.OK:
            assert isinstance(operation.result, int), operation
            ranked.append(_Ranked(operation.result - amount, operation.result, operation))
        elif amount:
            unknown.append((operation.invoked, amount))
    return _rank_flaw(ranked, unknown)


def _list_flaw(operations: Sequence[Operation]) -> str | None:
    appends: dict[Hashable, Operation] = {}
    for operation in operations:
        if isinstance(operation.request, Append):
            if operation.request.token in appends:
                raise ValueError(f"this token is appended twice: {operation}")
            appends[operation.request.token] = operation
    reads = [each for each in operations if isinstance(each.request, Read) and each.outcome is Outcome.OK]
    places, flaw = _places(reads, appends)
    if flaw is not None:
        return flaw
    ranked = [_Ranked(len(_tokens(read)), len(_tokens(read)), read) for read in reads]
    unknown = []
    for token, append in appends.items():
        place = places.get(token)
        if append.outcome is Outcome.OK:
            assert isinstance(append.result, int), append
            if place is not None and place != append.result:
                return f"answered position {append.result}, but reads show it at {place}\n    {append}"
            place = append.result
        if place is None:
            unknown.append((append.invoked, 1))
        else:
            ranked.append(_Ranked(place - 1, place, append))
    return _rank_flaw(ranked, unknown)


def _tokens(read: Operation) -> tuple[Hashable, ...]:
    assert isinstance(read.result, tuple), read
    return read.result


def _places(
    reads: Sequence[Operation], appends: dict[Hashable, Operation]
) -> tuple[dict[Hashable, int], str | None]:
    """Return the position of each token as the reads show it, or how the reads contradict each other."""
    if not reads:
        return {}, None
    longest = max(reads, key=lambda read: len(_tokens(read)))
    for read in reads:
        if _tokens(read) != _tokens(longest)[: len(_tokens(read))]:
            return {}, f"neither list is the beginning of the other\n    {read}\n    {longest}"
    places: dict[Hashable, int] = {}
    for place, token in enumerate(_tokens(longest), start=1):
        if token not in appends:
            return {}, f"{token!r} was never appended\n    {longest}"
        if places.setdefault(token, place) != place:
            return {}, f"{token!r} is there twice\n    {longest}"
    return places, None


def _rank_flaw(ranked: list[_Ranked], unknown: list[tuple[int, int]]) -> str | None:
    """Describe what is wrong with the ranks, if anything.

    *unknown*: (invoked, amount) of changes that may have happened.
    """
    # A read comes after the change that produced the total it saw, and before the next change.
    ranked.sort(key=lambda each: (each.after, not each.is_change))
    return _overlap(ranked) or _against_time(ranked) or _unfilled_gap(ranked, unknown)


def _overlap(ranked: Sequence[_Ranked]) -> str | None:
    total = 0
    reached_by: Operation | None = None
    for each in ranked:
        if each.before < total or each.after < 0:
            other = f"\n    {reached_by}" if reached_by else ""
            return f"two totals that exclude each other\n    {each.operation}{other}"
        total, reached_by = each.after, each.operation
    return None


def _against_time(ranked: Sequence[_Ranked]) -> str | None:
    """Require that no operation was invoked after one of higher rank returned.

    Equal reads may come in any order.
    """
    latest: Operation | None = None
    group: list[Operation] = []
    rank: tuple[int, bool] | None = None
    for each in ranked:
        if (each.after, each.is_change) != rank:
            latest = max([*group, *([latest] if latest else [])], key=lambda one: one.invoked, default=None)
            group, rank = [], (each.after, each.is_change)
        if latest is not None and each.operation.precedes(latest):
            return (
                f"the first returned before the second began, yet saw it\n    {each.operation}\n    {latest}"
            )
        group.append(each.operation)
    return None


def _unfilled_gap(ranked: Sequence[_Ranked], unknown: list[tuple[int, int]]) -> str | None:
    """Require an unknown change for every total that no known change produced.

    That change must have been invoked before any answer beyond the total.
    """
    needed = _needed_by(ranked)
    fillers = sorted(unknown)
    gaps = available = used = 0
    for deadline, amount, witness in needed:
        gaps += amount
        while used < len(fillers) and fillers[used][0] <= deadline:
            available += fillers[used][1]
            used += 1
        if available < gaps:
            return f"{gaps - available} of the total before this answer was added by nobody\n    {witness}"
    return None


def _needed_by(ranked: Sequence[_Ranked]) -> list[tuple[int, int, Operation]]:
    """Return every gap as (deadline, amount, operation whose answer sets the deadline).

    The gaps are ordered by rank, and so by deadline.
    """
    gaps: list[tuple[int, int]] = []
    total = 0
    for index, each in enumerate(ranked):
        if each.before > total:
            gaps.append((index, each.before - total))
        total = max(total, each.after)
    needed = []
    index, first = len(ranked) - 1, ranked[-1].operation if ranked else None
    for gap_index, amount in reversed(gaps):
        while index >= gap_index:
            operation = ranked[index].operation
            first = operation if first is None or operation.returned < first.returned else first
            index -= 1
        assert first is not None
        needed.append((first.returned, amount, first))
    return needed[::-1]
