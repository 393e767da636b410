"""The consumers of fault events and their filters, as the notifier knows them (FTC 27.4.6).

A consumer is a position in the sequence of events and, optionally, a filter. The consumer itself keeps track
of what it has received: it reads on after a number, and from time to time tells the notifier how far it is,
so that it can continue from there if it forgets. A consumer that is never heard of again loses its place when
another needs it.
"""

from enum import Enum
from typing import Final

from msgspec import Struct, structs

from holdfast.faults.filters import Filter, FilterDestroyed, FilterState, create_filter
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import HOUR

CONSUMERS_MAX: Final = 1_024
FILTERS_MAX: Final = 1_024
CONSUMER_SILENCE_NS: Final = 24 * HOUR
"""A consumer that was silent for this long may be forgotten when there are too many."""
PUSH_CONSUMER_LETTERS_MAX: Final = 1_024


class Disconnected(InvalidRequest):
    """Raised when a consumer is not connected, or not any more."""

    code = "disconnected"


class TooManyConsumers(InvalidRequest):
    """Raised when the notifier has the maximum number of consumers and none is silent."""

    code = "too_many_consumers"


class Form(Enum):
    """The form in which a consumer takes events. All consumers get all events: a batch is told one by one
    where that is wanted, and a single event is a batch of one (FTC-268)."""

    STRUCTURED = "structured"
    SEQUENCE = "sequence"


class Consumer(Struct, frozen=True, array_like=True):
    id: int
    push_consumer: str
    """The consumer's description of itself."""
    form: Form
    filter: int
    """The id of its filter; 0 if it wants everything (FTC-267)."""
    reached: int
    """The number up to which it has received everything, by its own account."""
    heard_ns: int
    """When it was last heard of."""
    missed: int = 0
    """How many events were gone before it asked for them."""


class ConsumersState(Struct, frozen=True, array_like=True):
    last_consumer: int = 0
    last_filter: int = 0
    consumers: tuple[Consumer, ...] = ()
    filters: tuple[tuple[int, FilterState], ...] = ()


NOBODY: Final = ConsumersState()


class Consumers:
    """All consumers and filters. Ids are never reused (FTC-266)."""

    def __init__(self, state: ConsumersState = NOBODY) -> None:
        self._last_consumer = state.last_consumer
        self._last_filter = state.last_filter
        self._consumers = {each.id: each for each in state.consumers}
        self._filters = {key: Filter.restored(each) for key, each in state.filters}

    def state(self) -> ConsumersState:
        return ConsumersState(
            self._last_consumer,
            self._last_filter,
            tuple(self._consumers.values()),
            tuple((key, each.state()) for key, each in self._filters.items()),
        )

    # --- filters

    def create_filter(self, constraint_grammar: str) -> int:
        """Create a filter and return its id. Raises ``InvalidGrammar``."""
        made = create_filter(constraint_grammar)
        if len(self._filters) >= FILTERS_MAX:
            self._forget_filter()
        self._last_filter += 1
        self._filters[self._last_filter] = made
        return self._last_filter

    def filter(self, key: int) -> Filter:
        """Return the filter. Raises ``FilterDestroyed``."""
        found = self._filters.get(key)
        if found is None:
            raise FilterDestroyed(f"there is no filter {key}, or it was destroyed; create another")
        return found

    def destroy_filter(self, key: int) -> None:
        self.filter(key).destroy()
        del self._filters[key]

    def _forget_filter(self) -> None:
        """Remove the oldest filter that no consumer uses."""
        used = dict.fromkeys(each.filter for each in self._consumers.values())
        unused = next((key for key in self._filters if key not in used), None)
        if unused is None:
            raise TooManyConsumers(f"there are {FILTERS_MAX} filters, and all are used")
        self.destroy_filter(unused)

    # --- consumers

    def connect(self, push_consumer: str, form: Form, filter: int, reached: int, now_ns: int) -> int:
        """Connect a consumer and return its id. Raises ``FilterDestroyed``, :class:`TooManyConsumers`."""
        if len(push_consumer) > PUSH_CONSUMER_LETTERS_MAX:
            raise InvalidRequest(f"a consumer is named by at most {PUSH_CONSUMER_LETTERS_MAX} letters")
        if filter:
            self.filter(filter)
        if len(self._consumers) >= CONSUMERS_MAX:
            self._forget_silent(now_ns)
        self._last_consumer += 1
        self._consumers[self._last_consumer] = Consumer(
            self._last_consumer, push_consumer, form, filter, reached, now_ns
        )
        return self._last_consumer

    def consumer(self, id: int) -> Consumer:
        """Return the consumer. Raises :class:`Disconnected`."""
        found = self._consumers.get(id)
        if found is None:
            raise Disconnected(f"no consumer {id} is connected")
        return found

    def reached(self, id: int, number: int, missed: int, now_ns: int) -> None:
        """Note that the consumer has received everything up to *number*, except for some events that it
        *missed*."""
        known = self.consumer(id)
        number, missed = max(known.reached, number), known.missed + missed
        self._consumers[id] = structs.replace(known, reached=number, missed=missed, heard_ns=now_ns)

    def disconnect(self, id: int) -> None:
        self.consumer(id)
        del self._consumers[id]

    def all(self) -> tuple[Consumer, ...]:
        return tuple(self._consumers.values())

    def _forget_silent(self, now_ns: int) -> None:
        silent = min(self._consumers.values(), key=lambda each: (each.heard_ns, each.id))
        if now_ns - silent.heard_ns < CONSUMER_SILENCE_NS:
            raise TooManyConsumers(f"there are {CONSUMERS_MAX} consumers already")
        del self._consumers[silent.id]
