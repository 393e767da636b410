"""A source that nobody will ever hear again says so, instead of waiting for credit."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.client import source as source_module
from holdfast.client.source import Source, SourceRefused
from holdfast.model.admin.groups import Order
from holdfast.model.admin.streams import ListStreams, OpenSource, SourceOpened, StreamInfo, StreamList
from holdfast.model.errors import InvalidRequest, Unavailable
from holdfast.model.ids import GroupId
from holdfast.net import ConnectionSettings
from holdfast.streams.datagram import Refusal

INFO = StreamInfo(
    name="orders",
    number=7,
    group=GroupId(3),
    group_name="book",
    source="orders",
    levels=2,
    exact=True,
    cumulative=False,
    created=True,
    back=False,
    before=False,
    is_open=True,
    is_paced=False,
    multicast="",
    sources=(),
)
Look = Callable[[], StreamInfo]


class Told:
    """A domain without a member; *looks* are what it says of the stream, the last one again and again."""

    def __init__(self, *looks: Look) -> None:
        self.looks = list(looks)
        self.looked = 0

    @property
    def endpoint(self) -> ConnectionSettings:
        raise NotImplementedError

    async def submit(self, wanted: Order, kind: type[Any]) -> Any:
        if isinstance(wanted, OpenSource):
            return SourceOpened(stream=INFO, incarnation=1)
        assert isinstance(wanted, ListStreams)
        self.looked += 1
        look = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        return StreamList(streams=(look(),))


def unbound() -> StreamInfo:
    raise InvalidRequest("there is no stream 'orders'")


def unheard() -> StreamInfo:
    raise Unavailable("no host answers")


def bound_anew() -> StreamInfo:
    return replace(INFO, number=8)


def without_group() -> StreamInfo:
    return replace(INFO, group_name="")


def as_it_was() -> StreamInfo:
    return INFO


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_module, "LOOK_S", 0.02)


@pytest.mark.parametrize(
    ("look", "said"),
    [(unbound, "no stream"), (bound_anew, "bound anew"), (without_group, "was deleted")],
)
def test_whoever_waits_for_a_stream_that_is_gone_is_told(look: Look, said: str) -> None:
    """Who waits already, and who sends next."""

    async def work() -> None:
        async with Source(Told(as_it_was, look), stream="orders", group="book") as source:
            source.post(b"x")
            with pytest.raises(SourceRefused, match=said):
                await source.delivered(timeout_s=20)
            with pytest.raises(SourceRefused, match=said):
                source.post(b"y")

    asyncio.run(work())


def test_who_waits_for_too_long_is_told_how_far_it_is() -> None:
    async def work() -> None:
        async with Source(Told(as_it_was), stream="orders", group="book") as source:
            source.post(b"x")
            with pytest.raises(TimeoutError, match="has delivered 0 of 1 messages"):
                await source.delivered(timeout_s=0.05)

    asyncio.run(work())


def test_every_refusal_that_ends_a_source_says_what_to_do() -> None:
    """The two others pass: a source that went too far waits, and asks again where its group is."""
    assert set(Refusal) - set(source_module.WHY) == {Refusal.BEYOND_CREDIT, Refusal.NOT_HERE}


def test_a_host_that_is_slow_to_hear_of_the_group_ends_no_source() -> None:
    """Nor does one that does not answer."""

    async def work() -> None:
        told = Told(without_group, without_group, as_it_was, unheard, without_group, without_group, as_it_was)
        async with Source(told, stream="orders", group="book") as source:
            async with asyncio.timeout(20):
                while told.looked < 10:
                    await asyncio.sleep(0.01)
            assert source.post(b"x") == 1

    asyncio.run(work())
