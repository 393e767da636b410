"""The fault notifier: takes reports of faults and passes them to consumers (FTC 27.4.6, T6).

It is an ordinary class of an ordinary, warm passive group. So the events it took and the numbers it gave them
survive failover like any group's state. It does not push by itself, because a slow consumer would hold up all
others. Consumers read on after the number they have. The client library and the HTTP door do that on behalf
of a remote consumer, so to the consumer it is a push. Its methods have the source's names. A filter is
identified by its number, where the source has an object.

:class:`Ring` keeps the newest events by number, within bounds. A consumer that was away, or is slow, reads on
from the number it has. Nothing waits for it: beyond the bounds the oldest events are dropped, and a reader
that still wanted them is told which numbers it missed.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from itertools import islice
from typing import Final

import msgspec
from msgspec import Struct

from holdfast.execution.context import context
from holdfast.execution.interface import query
from holdfast.faults.analyzer import NOTHING_KNOWN, Analysis, AnalysisState
from holdfast.faults.consumers import NOBODY, Consumer, Consumers, ConsumersState, Form
from holdfast.faults.events import EVENTS_MAX, InvalidEvent, StructuredEvent
from holdfast.faults.filters import ConstraintExp, ConstraintId, ConstraintInfo, matches, parse
from holdfast.faults.filters.tree import Node
from holdfast.faults.told_events import Gap, Page, Told
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import HOUR

EVENTS_KEPT: Final = 16_384
RING_BYTES_MAX: Final = 16 << 20
"""The most bytes of all kept events, as stored. Few events are longer than 500 bytes."""
KEPT_NS: Final = 7 * 24 * HOUR
"""The age in the group's time beyond which an event is dropped."""


class NoSuchNumber(InvalidRequest):
    """Raised when a reader names a number that was never given: its numbers come from another notifier."""

    code = "no_such_number"


class Ring:
    """The newest events, with consecutive numbers."""

    def __init__(self, *, events_max: int = EVENTS_KEPT, bytes_max: int = RING_BYTES_MAX) -> None:
        self._kept: dict[int, tuple[Told, int]] = {}
        """The kept events with their sizes, in the order of their numbers."""
        self._bytes = 0
        self._events_max = events_max
        self._bytes_max = bytes_max
        self.newest = 0
        """The last number given."""

    @property
    def oldest(self) -> int:
        """The first number that is kept; if none is, the next one to be given."""
        return next(iter(self._kept), self.newest + 1)

    def add(self, event: StructuredEvent, at_ns: int, part_of: int = 0) -> Told:
        """Keep *event* under the next number, and drop what no longer fits."""
        told = Told(self.newest + 1, at_ns, event, part_of)
        self._keep(told)
        while len(self._kept) > self._events_max or self._bytes > self._bytes_max:
            self._drop_oldest()
        while self._kept and self._kept[self.oldest][0].at_ns < at_ns - KEPT_NS:
            self._drop_oldest()
        return told

    def get(self, number: int) -> Told | None:
        found = self._kept.get(number)
        return None if found is None else found[0]

    def after(self, number: int) -> Iterator[Told]:
        """Yield the kept events after *number*."""
        for each in range(max(number + 1, self.oldest), self.newest + 1):
            yield self._kept[each][0]

    def gap_after(self, number: int) -> Gap | None:
        """Return which events after *number* are gone, if any. Raises :class:`NoSuchNumber`."""
        if not 0 <= number <= self.newest:
            raise NoSuchNumber(f"no event has the number {number}; the last one is {self.newest}")
        return Gap(number + 1, self.oldest - 1) if number + 1 < self.oldest else None

    def all(self) -> tuple[Told, ...]:
        return tuple(told for told, _ in self._kept.values())

    def restore(self, newest: int, events: tuple[Told, ...]) -> None:
        """Continue from the values of :meth:`all` and ``newest``."""
        self._kept, self._bytes = {}, 0
        for each in events:
            self._keep(each)
        self.newest = newest

    def _keep(self, told: Told) -> None:
        size = len(msgspec.msgpack.encode(told))
        self._kept[told.number] = (told, size)
        self._bytes += size
        self.newest = told.number

    def _drop_oldest(self) -> None:
        _, size = self._kept.pop(self.oldest)
        self._bytes -= size


ONCE_MAX: Final = 16_384
"""How many reports are remembered so that they are not told twice."""
ONCE_LETTERS_MAX: Final = 256
PAGE_EVENTS_MAX: Final = 250
PAGE_LOOKED_AT_MAX: Final = 1_000
"""How many events one read looks at, which takes some 10 ms. A filter that passes nothing must not hold up
others."""
PAGE_LETTERS_MAX: Final = 100_000
"""The same bound for longer filters: their letters, times the number of events. It takes some 20 ms."""
FILTERS_READ_MAX: Final = 256
"""How many filters of readers that are not connected are kept as parsed trees."""


class NotifierState(Struct, frozen=True, array_like=True, tag=1):
    """The whole state of a notifier. It grows by fields with defaults at the end."""

    newest: int = 0
    events: tuple[Told, ...] = ()
    once: dict[str, int] = {}
    consumers: ConsumersState = NOBODY
    analysis: AnalysisState = NOTHING_KNOWN


class Notifier:
    """The object of the notifier's group."""

    version = "1"
    """The version of what its methods do and of what its state means. It changes whenever a replay of older
    calls would have another result (E7). The digest of its sources is not compared."""

    def __init__(self, events_kept: int = EVENTS_KEPT) -> None:
        self._ring = Ring(events_max=events_kept)
        self._once: dict[str, int] = {}
        """The numbers of reports that must not be told twice, oldest first."""
        self._consumers = Consumers()
        self._analysis = Analysis()

    def get_state(self) -> bytes:
        return msgspec.msgpack.encode(
            NotifierState(
                self._ring.newest,
                self._ring.all(),
                self._once,
                self._consumers.state(),
                self._analysis.state(),
            )
        )

    def set_state(self, state: bytes) -> None:
        found = msgspec.msgpack.decode(state, type=NotifierState)
        self._ring.restore(found.newest, found.events)
        self._once = dict(found.once)
        self._consumers = Consumers(found.consumers)
        self._analysis = Analysis(found.analysis)

    # --- reports

    def push_structured_fault(self, event: StructuredEvent, once: str = "") -> int:
        """Add *event* and return its number. With *once*, it is added once, however often it is pushed."""
        return self._push(event, once)

    def push_sequence_fault(self, events: list[StructuredEvent], once: list[str] | None = None) -> list[int]:
        """Add events in their order and return their numbers. Either all are added or none."""
        if len(events) > EVENTS_MAX:
            raise InvalidEvent(f"{len(events)} events in one batch; at most {EVENTS_MAX} are taken")
        keys = [""] * len(events) if once is None else once
        if len(keys) != len(events):
            raise InvalidEvent("there is not one key for each event")
        for each in keys:
            _check_key(each)
        return [self._push(event, key) for event, key in zip(events, keys, strict=True)]

    def _push(self, event: StructuredEvent, once: str) -> int:
        _check_key(once)
        if once in self._once:
            return self._once[once]  # a duplicate report is no news (FTC-240)
        told = self._tell(event)
        if once:
            self._once[once] = told.number
            if len(self._once) > ONCE_MAX:
                del self._once[next(iter(self._once))]
        correlated = self._analysis.correlated(told)
        if correlated is not None:
            self._tell(correlated.to_event())
        return told.number

    def _tell(self, event: StructuredEvent) -> Told:
        now_ns = context.time_ns()
        judged = self._analysis.judge(event, self._ring.newest + 1, now_ns)
        return self._ring.add(judged.event, now_ns, judged.part_of)

    # --- filters

    def create_subscription_filter(self, constraint_grammar: str) -> int:
        """Create a filter without constraints, which passes nothing yet, and return its number. Raises
        ``InvalidGrammar`` unless the language is EXTENDED_TCL."""
        return self._consumers.create_filter(constraint_grammar)

    @query
    def constraint_grammar(self, filter: int) -> str:
        return self._consumers.filter(filter).constraint_grammar

    def add_constraints(self, filter: int, expressions: list[ConstraintExp]) -> list[ConstraintInfo]:
        return self._consumers.filter(filter).add_constraints(expressions)

    def modify_constraints(
        self, filter: int, delete: list[ConstraintId], modify: list[ConstraintInfo]
    ) -> None:
        self._consumers.filter(filter).modify_constraints(delete, modify)

    @query
    def get_constraints(self, filter: int, ids: list[ConstraintId]) -> list[ConstraintInfo]:
        return self._consumers.filter(filter).get_constraints(ids)

    @query
    def get_all_constraints(self, filter: int) -> list[ConstraintInfo]:
        return self._consumers.filter(filter).get_all_constraints()

    def remove_all_constraints(self, filter: int) -> None:
        self._consumers.filter(filter).remove_all_constraints()

    def destroy_filter(self, filter: int) -> None:
        self._consumers.destroy_filter(filter)

    @query
    def match_structured(self, filter: int, event: StructuredEvent) -> bool:
        return self._consumers.filter(filter).match_structured(event)

    # --- consumers

    def connect_structured_fault_consumer(self, push_consumer: str, filter: int = 0) -> int:
        """Connect a consumer that takes events one by one from now on, and return its id. Without a filter it
        gets all events."""
        return self._connect(push_consumer, Form.STRUCTURED, filter)

    def connect_sequence_fault_consumer(self, push_consumer: str, filter: int = 0) -> int:
        """Connect a consumer that takes batches, and return its id."""
        return self._connect(push_consumer, Form.SEQUENCE, filter)

    def _connect(self, push_consumer: str, form: Form, filter: int) -> int:
        return self._consumers.connect(push_consumer, form, filter, self._ring.newest, context.time_ns())

    def disconnect_consumer(self, connection: int) -> None:
        """Disconnect a consumer. Raises ``Disconnected`` if there is no such consumer."""
        self._consumers.disconnect(connection)

    def acknowledge(self, connection: int, reached: int, missed: int = 0) -> None:
        """Note that a consumer has received everything up to *reached*, except for *missed* events that were
        gone."""
        if not 0 <= reached <= self._ring.newest or missed < 0:
            raise InvalidEvent(f"no event has the number {reached}; the last one is {self._ring.newest}")
        self._consumers.reached(connection, reached, missed, context.time_ns())

    @query
    def consumers(self) -> tuple[Consumer, ...]:
        return self._consumers.all()

    # --- reading

    @query
    def read_for(self, connection: int, after: int | None = None, limit: int = PAGE_EVENTS_MAX) -> Page:
        """Return what a connected consumer gets next: after the number it names, or else after the last one
        that it acknowledged."""
        consumer = self._consumers.consumer(connection)
        if after is None:
            after = consumer.reached
        if not consumer.filter:
            return self._read(after, limit, _everything, 0, is_whole_only=True)
        filter = self._consumers.filter(consumer.filter)
        return self._read(after, limit, filter.match_structured, filter.letters, is_whole_only=True)

    @query
    def read(
        self, after: int | None = None, limit: int = PAGE_EVENTS_MAX, where: str = "", parts: bool = False
    ) -> Page:
        """Return the events after that number; without one, only the current numbers. *where* is a
        constraint. With *parts*, events are included that are parts of another event that passes."""
        tree = _tree(where)
        if after is None:
            return Page((), self._ring.newest, self._ring.newest)
        wants = partial(matches, tree)
        return self._read(after, limit, wants, len(where), is_whole_only=not parts)

    def _read(
        self,
        after: int,
        limit: int,
        wants: Callable[[StructuredEvent], bool],
        letters: int,
        *,
        is_whole_only: bool,
    ) -> Page:
        """Read events that the filter *wants*; *letters* is the length of the filter."""
        gap = self._ring.gap_after(after)
        reached = after if gap is None else gap.last
        found: list[Told] = []
        most = min(PAGE_LOOKED_AT_MAX, max(PAGE_LETTERS_MAX // max(letters, 1), 1))
        for told in islice(self._ring.after(after), most):
            if len(found) >= min(max(limit, 1), PAGE_EVENTS_MAX):
                break
            reached = told.number
            if wants(told.event) and not (is_whole_only and self._is_heard_of_whole(told, wants)):
                found.append(told)
        return Page(tuple(found), reached, self._ring.newest, gap)

    def _is_heard_of_whole(self, told: Told, wants: Callable[[StructuredEvent], bool]) -> bool:
        """Whether *wants* also passes an event that *told* is a part of, so that the reader was told of the
        whole."""
        whole = self._ring.get(told.part_of)
        while whole is not None:
            if wants(whole.event):
                return True
            whole = self._ring.get(whole.part_of)
        return False


def _everything(event: StructuredEvent) -> bool:
    return True


def _check_key(once: str) -> None:
    if len(once) > ONCE_LETTERS_MAX:
        raise InvalidEvent(f"what makes a report the same has at most {ONCE_LETTERS_MAX} letters")


@lru_cache(maxsize=FILTERS_READ_MAX)
def _tree(where: str) -> Node:
    """Parse a constraint. Raises ``InvalidConstraint``."""
    return parse(where)
