"""The faults of a domain as its clients receive and report them: ``domain.faults``.

:class:`Faults` reads events from the notifier after the last number that the client has. So a client that was
away, or saw a change of primaries, continues without a gap and without a repetition. The methods of the
specification (FTC 27.4.6) are here under their own names.

:class:`NotifierGroup` is the notifier's group: found when it is first needed, and asked again when it moves.
:class:`Push` delivers events in order to consumers that are objects of this process. Delivery is at least
once, with numbers: what a consumer has taken is acknowledged to the notifier after a while, and a resumed
consumer may receive the last few again. A slow consumer delays nobody: its events wait in the notifier's
ring, and if they are gone before it reads them, it is told of the gap and the loss is counted.
:class:`SubscriptionFilter` is a filter at the notifier, with the specification's methods
(CosNotifyFilter::Filter, FTC-270).
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Concatenate, Final, ParamSpec, Protocol, TypeVar, runtime_checkable

from holdfast.client.admin_client import Submit
from holdfast.client.proxy import Group
from holdfast.execution.interface import QUERY_MARK
from holdfast.faults.analyzer import Analyzer
from holdfast.faults.consumers import Consumer, Disconnected, TooManyConsumers
from holdfast.faults.events import InvalidEvent, StructuredEvent
from holdfast.faults.filters import (
    ConstraintExp,
    ConstraintId,
    ConstraintInfo,
    ConstraintNotFound,
    FilterDestroyed,
    InvalidGrammar,
    parse,
)
from holdfast.faults.filters.constraints import Compiled
from holdfast.faults.notifier import NoSuchNumber, Notifier
from holdfast.faults.reports import FaultReport
from holdfast.faults.told_events import Gap, Page, Told
from holdfast.machine.trace import LibraryLog
from holdfast.model.admin.objects import FaultNotifierShown, ShowFaultNotifier
from holdfast.model.conversion import ResultDoesNotFit
from holdfast.model.errors import HoldfastError, InvalidRequest, NoSuchGroup, OutcomeUnknown, Unavailable
from holdfast.model.outcome import MethodRaised

P = ParamSpec("P")
R = TypeVar("R")

RETRY_S: Final = 0.2


class OpenGroup(Protocol):
    """The signature of ``Domain.group``."""

    def __call__(self, name: str, cls: type[Notifier]) -> Awaitable[Group[Notifier]]: ...


class NotifierGroup:
    """Calls the fault notifier of a domain (FTC-245)."""

    def __init__(self, give: Submit, open_group: OpenGroup) -> None:
        self._give = give
        self._open_group = open_group
        self._group: Group[Notifier] | None = None

    async def ask(
        self, method: Callable[Concatenate[Notifier, P], R], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Call a method of the notifier; returns its result.

        A query is repeated until it is answered, however long the group takes to have a primary again. Raises
        what the method raises.
        """
        while True:
            try:
                group = await self._found()
                return await group.call(method, *args, **kwargs)
            except MethodRaised as error:
                raise _as_raised(error) from None
            except NoSuchGroup:
                self._group = None  # it was removed, or another was registered
            except (Unavailable, OutcomeUnknown):
                if not getattr(method, QUERY_MARK, False):
                    raise
            await asyncio.sleep(RETRY_S)

    async def tell(
        self, method: Callable[Concatenate[Notifier, P], Any], *args: P.args, **kwargs: P.kwargs
    ) -> None:
        """Call a method, as :meth:`ask` does, and ignore its result.

        A notifier that somebody else registered has the specification's methods, which return nothing.
        """
        with suppress(ResultDoesNotFit):
            await self.ask(method, *args, **kwargs)

    async def _found(self) -> Group[Notifier]:
        if self._group is None:
            shown = await self._give(ShowFaultNotifier(is_made=True), FaultNotifierShown)
            self._group = await self._open_group(shown.group, Notifier)
        return self._group


def _as_raised(error: MethodRaised) -> HoldfastError:
    """The notifier's own exception, as the type that a local caller would get."""
    make = _RAISED.get(error.type_name.rpartition(".")[2])
    return error if make is None else make(error.text)


def _not_found(text: str) -> ConstraintNotFound:
    digits = text.rpartition(" ")[2]
    return ConstraintNotFound(int(digits) if digits.isdigit() else 0)


_RAISED: Final[dict[str, Callable[[str], Any]]] = {
    "InvalidGrammar": InvalidGrammar,
    "FilterDestroyed": FilterDestroyed,
    "ConstraintNotFound": _not_found,
    "Disconnected": Disconnected,
    "TooManyConsumers": TooManyConsumers,
    "NoSuchNumber": NoSuchNumber,
    "InvalidEvent": InvalidEvent,
}


READ_S: Final = 0.25
"""The pause after a read that returned nothing new."""
BATCH: Final = 100
"""Events delivered at once."""

log = LibraryLog("holdfast.faults")


@runtime_checkable
class StructuredPushConsumer(Protocol):
    """Takes events one by one (CosNotifyComm::StructuredPushConsumer). May also have ``on_gap``."""

    def push_structured_event(self, told: Told) -> Awaitable[None] | None: ...


@runtime_checkable
class SequencePushConsumer(Protocol):
    """Takes batches (CosNotifyComm::SequencePushConsumer). May also have ``on_gap``."""

    def push_structured_events(self, told: list[Told]) -> Awaitable[None] | None: ...


@runtime_checkable
class HearsOfGaps(Protocol):
    """A consumer that wants to know what it missed."""

    def on_gap(self, gap: Gap) -> Awaitable[None] | None: ...


class Push:
    """Delivers one consumer's events, from its creation until it is stopped or the consumer fails."""

    def __init__(
        self,
        id: int,
        consumer: StructuredPushConsumer | SequencePushConsumer,
        notifier: NotifierGroup,
        after: int | None,
    ) -> None:
        self._id = id
        self._consumer = consumer
        self._notifier = notifier
        self._after = after
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        try:
            while True:
                page = await self._notifier.ask(Notifier.read_for, self._id, self._after, BATCH)
                await self._bring(page)
                if page.reached == page.newest:
                    await asyncio.sleep(READ_S)
        except InvalidRequest as error:
            log.warning("a consumer hears of faults no more", consumer=self._id, why=str(error))
        except Exception as error:
            # The consumer is the user's code and may fail in any way; events that it did not take stay
            # unacknowledged.
            log.error("a consumer of faults failed", consumer=self._id, why=repr(error))

    async def _bring(self, page: Page) -> None:
        missed = 0 if page.gap is None else page.gap.count
        if page.gap is not None and isinstance(self._consumer, HearsOfGaps):
            await _taken(self._consumer.on_gap(page.gap))
        if isinstance(self._consumer, StructuredPushConsumer):
            for told in page.events:
                await _taken(self._consumer.push_structured_event(told))
        elif page.events:
            await _taken(self._consumer.push_structured_events(list(page.events)))
        if page.events or missed:
            await self._acknowledge(page.reached, missed)
        self._after = page.reached

    async def _acknowledge(self, reached: int, missed: int) -> None:
        try:
            await self._notifier.ask(Notifier.acknowledge, self._id, reached, missed)
        except InvalidRequest:
            raise
        except HoldfastError:
            pass  # the next acknowledgement will do; only a resumed consumer would see these again


async def _taken(done: Awaitable[None] | None) -> None:
    if done is not None:
        await done


class SubscriptionFilter:
    """A filter made by ``create_subscription_filter``. It exists at the notifier until it is destroyed."""

    def __init__(self, number: int, notifier: NotifierGroup) -> None:
        self.number = number
        self._notifier = notifier

    async def constraint_grammar(self) -> str:
        return await self._notifier.ask(Notifier.constraint_grammar, self.number)

    async def add_constraints(self, expressions: Sequence[ConstraintExp]) -> list[ConstraintInfo]:
        """Add all of them or none. Raises ``InvalidConstraint``, which names the first invalid one."""
        _check(expressions)
        return await self._notifier.ask(Notifier.add_constraints, self.number, [*expressions])

    async def modify_constraints(
        self, delete: Sequence[ConstraintId], modify: Sequence[ConstraintInfo]
    ) -> None:
        """Apply all changes or none. Raises ``InvalidConstraint``, ``ConstraintNotFound``."""
        _check([each.constraint_expression for each in modify])
        await self._notifier.ask(Notifier.modify_constraints, self.number, [*delete], [*modify])

    async def get_constraints(self, ids: Sequence[ConstraintId]) -> list[ConstraintInfo]:
        """The constraints with these ids. Raises ``ConstraintNotFound``."""
        return await self._notifier.ask(Notifier.get_constraints, self.number, [*ids])

    async def get_all_constraints(self) -> list[ConstraintInfo]:
        return await self._notifier.ask(Notifier.get_all_constraints, self.number)

    async def remove_all_constraints(self) -> None:
        await self._notifier.ask(Notifier.remove_all_constraints, self.number)

    async def destroy(self) -> None:
        await self._notifier.ask(Notifier.destroy_filter, self.number)

    async def match_structured(self, event: StructuredEvent) -> bool:
        return await self._notifier.ask(Notifier.match_structured, self.number, event)


def _check(expressions: Sequence[ConstraintExp]) -> None:
    """Check the expressions before they are sent, so that the error points at the mistake."""
    for each in expressions:
        Compiled.of(each)


WATCH_S: Final = 0.25
"""The pause after a read that returned nothing new."""


class Faults:
    """The faults of one domain. Closed with it."""

    def __init__(self, give: Submit, open_group: OpenGroup) -> None:
        self._notifier = NotifierGroup(give, open_group)
        self._pushes: dict[int, Push] = {}

    # --- receiving

    async def watch(
        self, where: str = "", *, after: int | None = None, parts: bool = False
    ) -> AsyncGenerator[Told | Gap, None]:
        """Yield events as they come, for ever: those after number *after*, or from now on.

        *where* is a filter (docs/filters.md). *parts* includes events that are part of another one that
        passes, such as the members of a host that crashed. A :class:`Gap` stands for events that are gone.
        Raises ``InvalidConstraint`` for an invalid filter, ``NoSuchNumber`` for a number that was never
        assigned.
        """
        parse(where)
        if after is None:
            after = (await self.page(None, where, parts=parts)).reached
        while True:
            page = await self.page(after, where, parts=parts)
            if page.gap is not None:
                yield page.gap
            for told in page.events:
                yield told
            after = page.reached
            if after == page.newest:
                await asyncio.sleep(WATCH_S)

    async def list(self, where: str = "", *, after: int = 0, parts: bool = False) -> list[Told]:
        """The events that the notifier still has, oldest first. Raises as :meth:`watch` does."""
        parse(where)
        found: list[Told] = []
        page = await self.page(after, where, parts=parts)
        newest = page.newest
        while True:
            found += page.events
            if page.reached >= newest:
                return found
            page = await self.page(page.reached, where, parts=parts)

    async def page(self, after: int | None, where: str = "", *, parts: bool = False) -> Page:
        """Some events after that number, and where to continue; without a number, only where they end."""
        return await self._notifier.ask(Notifier.read, after, where=where, parts=parts)

    # --- reporting

    async def push(self, fault: FaultReport | StructuredEvent, *, once: str = "") -> int:
        """Report a fault that this program has found; returns the number of its event.

        With *once* it counts once, however many programs report it under the same key.
        """
        event = fault.to_event() if isinstance(fault, FaultReport) else fault
        return await self._notifier.ask(Notifier.push_structured_fault, event, once)

    async def analyze(self, analyzer: Analyzer, *, name: str, after: int | None = None) -> None:
        """Pass all events to *analyzer*, and report what it concludes, until cancelled (FTC-241).

        Its results for an event are reported once, under *name* and the event's number. So several programs
        can run the same analyzer, and one that failed can start again from an earlier number.
        """
        async for news in self.watch(after=after, parts=True):
            if isinstance(news, Told):
                for index, condensed in enumerate(analyzer.take(news)):
                    await self.push(condensed, once=f"{name}/{news.number}/{index}")

    # --- the specification's own methods

    async def push_structured_fault(self, event: StructuredEvent) -> None:
        await self._notifier.tell(Notifier.push_structured_fault, event)

    async def push_sequence_fault(self, events: Sequence[StructuredEvent]) -> None:
        await self._notifier.tell(Notifier.push_sequence_fault, [*events])

    async def create_subscription_filter(self, constraint_grammar: str) -> SubscriptionFilter:
        """A filter at the notifier. Raises ``InvalidGrammar``."""
        made = await self._notifier.ask(Notifier.create_subscription_filter, constraint_grammar)
        return SubscriptionFilter(made, self._notifier)

    async def connect_structured_fault_consumer(
        self, push_consumer: StructuredPushConsumer, filter: SubscriptionFilter | None = None
    ) -> int:
        """Push every event that passes *filter* to *push_consumer*, one by one and in order.

        This goes on until it is disconnected or the domain closed. Returns its id, by which it can be resumed
        (:meth:`resume`).
        """
        connect = Notifier.connect_structured_fault_consumer
        id = await self._notifier.ask(connect, _name(push_consumer), _number(filter))
        self._start(id, push_consumer)
        return id

    async def connect_sequence_fault_consumer(
        self, push_consumer: SequencePushConsumer, filter: SubscriptionFilter | None = None
    ) -> int:
        """As :meth:`connect_structured_fault_consumer`, but push events in batches."""
        connect = Notifier.connect_sequence_fault_consumer
        id = await self._notifier.ask(connect, _name(push_consumer), _number(filter))
        self._start(id, push_consumer)
        return id

    async def resume(
        self,
        connection: int,
        push_consumer: StructuredPushConsumer | SequencePushConsumer,
        *,
        after: int | None = None,
    ) -> None:
        """Continue to push to a consumer that was connected before, by this program or another.

        It starts after the last acknowledged event, or after *after*. Raises ``Disconnected``.
        """
        await self._notifier.ask(Notifier.read_for, connection, after, 1)
        await self._stop([connection])
        self._start(connection, push_consumer, after)

    async def disconnect_consumer(self, connection: int) -> None:
        """Disconnect a consumer. Raises ``Disconnected`` if there is none of that id."""
        await self._stop([connection])
        await self._notifier.ask(Notifier.disconnect_consumer, connection)

    async def consumers(self) -> tuple[Consumer, ...]:
        """The connected consumers, how far each has come, and how many events it missed."""
        return await self._notifier.ask(Notifier.consumers)

    # --- upkeep

    async def close(self) -> None:
        """Stop all pushes. Consumers stay connected, and can be resumed."""
        await self._stop(list(self._pushes))

    def _start(
        self, id: int, consumer: StructuredPushConsumer | SequencePushConsumer, after: int | None = None
    ) -> None:
        self._pushes[id] = Push(id, consumer, self._notifier, after)

    async def _stop(self, ids: Iterable[int]) -> None:
        for each in ids:
            if each in self._pushes:
                await self._pushes.pop(each).stop()


def _name(push_consumer: object) -> str:
    return type(push_consumer).__qualname__


def _number(filter: SubscriptionFilter | None) -> int:
    return 0 if filter is None else filter.number
