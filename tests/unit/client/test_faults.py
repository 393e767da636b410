"""``domain.faults``: receiving and reporting faults through failovers, without gap or repetition."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from itertools import count
from typing import Any, TypeVar

import pytest
from local_notifier import LocalNotifier

import holdfast as hf
from holdfast.client import faults
from holdfast.client import faults as faults_module
from holdfast.client.faults import Faults
from holdfast.execution.interface import BadCall, interface_of
from holdfast.faults.consumers import Disconnected
from holdfast.faults.events import EventHeader, EventType, FixedEventHeader, Location, StructuredEvent
from holdfast.faults.filters import ConstraintNotFound, InvalidConstraint
from holdfast.faults.notifier import NoSuchNumber, Notifier
from holdfast.faults.reports import FaultKind, FaultReport
from holdfast.faults.told_events import Gap, Told
from holdfast.model.calls import RequestId
from holdfast.model.errors import NoSuchGroup, Unavailable

T = TypeVar("T")
SIX = (
    "push_structured_fault",
    "push_sequence_fault",
    "create_subscription_filter",
    "connect_structured_fault_consumer",
    "connect_sequence_fault_consumer",
    "disconnect_consumer",
)


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the pauses, which are the only thing here that takes time."""
    monkeypatch.setattr(faults, "WATCH_S", 0.0)
    monkeypatch.setattr(faults_module, "READ_S", 0.0)
    monkeypatch.setattr(faults_module, "RETRY_S", 0.0)


def crash(location: str) -> StructuredEvent:
    return FaultReport(FaultKind.OBJECT_CRASH, "main", Location.parse(location)).to_event()


def run(work: Coroutine[Any, Any, T]) -> T:
    async def bounded() -> T:
        async with asyncio.timeout(60):
            return await work

    return asyncio.run(bounded())


async def first(news: AsyncGenerator[Told | Gap, None], wanted: int) -> list[Told | Gap]:
    found = [await anext(news) for _ in range(wanted)]
    await news.aclose()
    return found


async def until(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(0)


class Consumer:
    def __init__(self) -> None:
        self.heard: list[int] = []
        self.gaps: list[Gap] = []

    def push_structured_event(self, told: Told) -> None:
        self.heard.append(told.number)

    async def on_gap(self, gap: Gap) -> None:
        self.gaps.append(gap)


def test_a_watch_goes_on_through_failover() -> None:
    """Members that cannot be reached, and a new primary, cause no more than a pause."""

    async def work() -> None:
        group = LocalNotifier()
        told = group.faults()
        news = told.watch(after=0)
        await told.push(crash("h1"))
        assert (await anext(news)).number == 1  # type: ignore[union-attr]  # nothing is gone
        group.fail_over()
        await told.push(crash("h2"))
        group.fails = [Unavailable("no primary"), NoSuchGroup("it was made anew")]
        assert (await anext(news)).number == 2  # type: ignore[union-attr]  # nothing is gone
        await news.aclose()
        assert group.found == 2

    run(work())


def test_a_watch_begins_now_or_where_one_was() -> None:
    async def work() -> None:
        told = LocalNotifier().faults()
        for host in ("h1", "h2", "h3"):
            await told.push(crash(host))
        fresh = told.watch()
        coming = asyncio.ensure_future(anext(fresh))
        await asyncio.sleep(0.01)
        await told.push(crash("h4"))
        assert (await coming).number == 4  # type: ignore[union-attr]  # nothing is gone
        await fresh.aclose()
        again = await first(told.watch("$Location[0].id != 'h3'", after=1), 2)
        assert [each.number for each in again if isinstance(each, Told)] == [2, 4]
        with pytest.raises(NoSuchNumber):
            await first(told.watch(after=9), 1)
        with pytest.raises(InvalidConstraint):
            await first(told.watch("$a ="), 1)

    run(work())


def test_what_is_gone_is_told() -> None:
    """Watchers and consumers are told, and for consumers it is counted."""

    async def work() -> None:
        group, consumer = LocalNotifier(events_kept=2), Consumer()
        told = group.faults()
        id = await told.connect_structured_fault_consumer(consumer)
        await told.close()  # it is away
        for number in range(5):
            await told.push(crash(f"h{number}"))
        assert (await first(told.watch(after=0), 3))[0] == Gap(1, 3)
        await told.resume(id, consumer)
        await until(lambda: len(consumer.heard) == 2)
        assert (consumer.gaps, consumer.heard) == ([Gap(1, 3)], [4, 5])
        while not (await told.consumers())[0].missed:
            await asyncio.sleep(0)
        assert [(each.reached, each.missed) for each in await told.consumers()] == [(5, 3)]
        await told.disconnect_consumer(id)
        with pytest.raises(Disconnected):
            await told.resume(id, consumer)

    run(work())


def test_a_consumer_that_fails_stops_nobody_else() -> None:
    """The consumer's events stay unacknowledged, and it can be resumed from there."""

    class Broken:
        def push_structured_event(self, told: Told) -> None:
            raise OSError("the pager is gone")

    async def work() -> None:
        told, consumer = LocalNotifier().faults(), Consumer()
        broken = await told.connect_structured_fault_consumer(Broken())
        await told.connect_structured_fault_consumer(consumer)
        await told.push(crash("h1"))
        await until(lambda: consumer.heard == [1])
        again = Consumer()
        await told.resume(broken, again)
        await until(lambda: again.heard == [1])
        await told.close()

    run(work())


@pytest.mark.covers("FTC-241", "FTC-244")
def test_an_applications_analyzer_pushes_back() -> None:
    """The analyzer receives everything, including reports of its application's own detectors, and its
    conclusions are reported once, however many programs run it."""
    hot = StructuredEvent(EventHeader(FixedEventHeader(EventType("acme", "Hot"))))

    class Overheating:
        def __init__(self) -> None:
            self.seen = count(1)

        def take(self, told: Told) -> Iterable[FaultReport]:
            if told.event == hot and next(self.seen) == 2:
                yield FaultReport(FaultKind.HANG, "main", Location.parse("rack1"), why="it is hot in there")

    async def work(told: Faults) -> None:
        running = [asyncio.ensure_future(told.analyze(Overheating(), name="heat", after=0)) for _ in range(2)]
        for _ in range(3):
            await told.push(hot)
        assert [each async for each in _until_hang(told)] == [1, 2, 3, 4]
        await asyncio.sleep(0.02)
        for each in running:
            each.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        assert len(await told.list("$type_name == 'Hang'")) == 1

    async def _until_hang(told: Faults) -> AsyncGenerator[int, None]:
        news = told.watch(after=0)
        async for each in news:
            assert isinstance(each, Told)
            yield each.number
            if each.event.header.fixed_header.event_type.type_name == "Hang":
                break
        await news.aclose()

    run(work(LocalNotifier().faults()))


@pytest.mark.covers("FTC-269", "FTC-271")
def test_the_interface_is_the_sources() -> None:
    """The six methods, without push_structured_event, which consumers have; filters' mandatory ones."""
    offered = interface_of(Notifier).operations
    assert [name for name in SIX if name not in offered] == []
    for name in ("push_structured_event", "match", "match_typed", "attach_callback", "get_callbacks"):
        with pytest.raises(BadCall):
            interface_of(Notifier).operation(name)
    assert all(callable(getattr(Faults, name)) for name in SIX)


@pytest.mark.covers("FTC-249", "FTC-261")
def test_nothing_but_structured_events_is_told() -> None:
    """This holds from the reporter to the consumer, for single events and in a batch."""

    async def work() -> None:
        group = LocalNotifier()
        told, operation = group.faults(), interface_of(Notifier).operation
        for wrong in ("crashed", {"host": "h1"}, [1, 2, 3], None):
            with pytest.raises(BadCall):
                operation("push_structured_fault").arguments([wrong], {})
            with pytest.raises(BadCall):
                operation("push_sequence_fault").arguments([[wrong]], {})
        await told.push_sequence_fault([crash("h1"), crash("h2")])
        found = [each.event for each in await told.list()]
        assert [type(each) for each in found] == [StructuredEvent, StructuredEvent]
        assert found == [crash("h1"), crash("h2")]

    run(work())


def test_a_filters_mistakes_are_those_of_a_filter_here() -> None:
    async def work() -> None:
        told = LocalNotifier().faults()
        made = await told.create_subscription_filter("EXTENDED_TCL")
        with pytest.raises(ConstraintNotFound) as found:
            await made.get_constraints([7])  # type: ignore[list-item]  # as a program without types would
        assert found.value.id == 7

    run(work())


def test_a_notifier_of_somebody_else_may_return_nothing_from_the_sources_methods() -> None:
    """The specification's methods return none; a caller that wants an event's number is told so."""

    async def work() -> None:
        other = LocalNotifier()
        unfit = hf.ResultDoesNotFit("push_structured_fault", None, int, "", RequestId.parse("1/c/1/1"))
        other.fails = [unfit, unfit, unfit]
        told = other.faults()
        await told.push_structured_fault(crash("rack1/host1"))
        await told.push_sequence_fault([crash("rack1/host1")])
        with pytest.raises(hf.ResultDoesNotFit):
            await told.push(crash("rack1/host1"))
        assert other.fails == []

    run(work())
