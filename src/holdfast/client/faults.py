"""The faults of a domain, as its clients hear and tell of them: ``domain.faults``.

Events are read from the notifier after the number one has, so whoever was away, or lived through a change of
primaries, reads on without a gap and without a repetition. The methods of the source (FTC 27.4.6) are here
under their own names; consumers that are objects of this process are pushed to from here.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import Final

from holdfast.client.fault_consumers import Push, SequencePushConsumer, StructuredPushConsumer
from holdfast.client.fault_filters import SubscriptionFilter
from holdfast.client.notifier import NotifierGroup, OpenGroup
from holdfast.client.ordering import Give
from holdfast.faults.analyzer import Analyzer
from holdfast.faults.consumers import Consumer
from holdfast.faults.events import StructuredEvent
from holdfast.faults.filters import parse
from holdfast.faults.notifier import Notifier
from holdfast.faults.reports import FaultReport
from holdfast.faults.told import Gap, Page, Told

WATCH_S: Final = 0.25
"""Between two questions, when there was nothing new."""


class Faults:
    """Of one domain. Closed with it."""

    def __init__(self, give: Give, open_group: OpenGroup) -> None:
        self._notifier = NotifierGroup(give, open_group)
        self._pushes: dict[int, Push] = {}

    # --- hearing

    async def watch(
        self, where: str = "", *, after: int | None = None, parts: bool = False
    ) -> AsyncGenerator[Told | Gap, None]:
        """Events as they come, for ever: those after number *after*, or from now on.

        *where*: a filter (docs/filters.md). *parts*: also what is part of an event that passes itself, such
        as the members of a host that crashed. A :class:`Gap` stands for events that are gone. Raises
        ``InvalidConstraint`` for a filter that is not right, ``NoSuchNumber`` for a number never given.
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
        """The events that the notifier still has, oldest first. Raises as :meth:`watch`."""
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
        """Some events after that number, and where to read on; without a number, where the events stand."""
        return await self._notifier.ask(Notifier.read, after, where=where, parts=parts)

    # --- telling

    async def push(self, fault: FaultReport | StructuredEvent, *, once: str = "") -> int:
        """Report a fault that this program has found; the number of its event. With *once* it is told once,
        however many programs report it under the same words."""
        event = fault.to_event() if isinstance(fault, FaultReport) else fault
        return await self._notifier.ask(Notifier.push_structured_fault, event, once)

    async def analyze(self, analyzer: Analyzer, *, name: str, after: int | None = None) -> None:
        """Let *analyzer* hear everything, and tell what it makes of it, until cancelled (FTC-241).

        What it returns for an event is told once under *name* and the event's number, so that several
        programs can run the same analyzer, and one that failed can start again from an earlier number.
        """
        async for news in self.watch(after=after, parts=True):
            if isinstance(news, Told):
                for index, condensed in enumerate(analyzer.take(news)):
                    await self.push(condensed, once=f"{name}/{news.number}/{index}")

    # --- the source's own methods

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
        """Push every event that passes *filter* to *push_consumer*, one by one and in order, until it is
        disconnected or the domain closed; its id, by which it can be resumed (:meth:`resume`)."""
        connect = Notifier.connect_structured_fault_consumer
        id = await self._notifier.ask(connect, _name(push_consumer), _number(filter))
        self._start(id, push_consumer)
        return id

    async def connect_sequence_fault_consumer(
        self, push_consumer: SequencePushConsumer, filter: SubscriptionFilter | None = None
    ) -> int:
        """The same in batches."""
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
        """Push on to a consumer that was connected before, by this program or another: from where it had
        acknowledged, or after that number. Raises ``Disconnected``."""
        await self._notifier.ask(Notifier.read_for, connection, after, 1)
        await self._stop([connection])
        self._start(connection, push_consumer, after)

    async def disconnect_consumer(self, connection: int) -> None:
        """Raises ``Disconnected`` when there is no such consumer."""
        await self._stop([connection])
        await self._notifier.ask(Notifier.disconnect_consumer, connection)

    async def consumers(self) -> tuple[Consumer, ...]:
        """Who is connected, how far each has come, and how many events it missed."""
        return await self._notifier.ask(Notifier.consumers)

    # --- keeping

    async def close(self) -> None:
        """Push nothing any more. Consumers stay connected, and can be resumed."""
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
