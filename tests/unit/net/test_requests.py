"""Questions and answers on one connection: numbers, deadlines, and the end of the connection."""

import asyncio

import pytest
from msgspec import DecodeError
from net_world import World, run

from holdfast.model.errors import OutcomeUnknown, Overloaded
from holdfast.net import (
    Connection,
    Kind,
    NotConnected,
    Reason,
    Requests,
    split_number,
    with_number,
)
from holdfast.net.requests import NotHeard


class Answering:
    """Answers in reverse order, once *batch* questions have come; ``never`` gets no answer."""

    def __init__(self, batch: int) -> None:
        self.batch = batch
        self.asked: list[tuple[int, bytes]] = []

    def on_frame(self, connection: Connection, kind: Kind, payload: bytes) -> None:
        number, body = split_number(payload)
        if body == b"hang up":
            connection.close()
        elif body != b"never":
            self.asked.append((number, body))
        if len(self.asked) == self.batch:
            for number, body in reversed(self.asked):
                connection.send(Kind.AUTHORITY_ANSWER, with_number(number, body.upper()))
            self.asked.clear()

    def on_closed(self, connection: Connection, reason: Reason) -> None:
        return None


class Asking:
    def __init__(self, connection: Connection, pending_max: int = 1000) -> None:
        self.requests = Requests(connection, pending_max=pending_max)

    def on_frame(self, connection: Connection, kind: Kind, payload: bytes) -> None:
        self.requests.on_answer(payload)

    def on_closed(self, connection: Connection, reason: Reason) -> None:
        self.requests.on_closed(reason)


async def asking(world: World, batch: int, pending_max: int = 1000) -> tuple[Connection, Requests]:
    server = await world.serve(lambda _: Answering(batch))
    receivers: list[Asking] = []

    def on_connection(connection: Connection) -> Asking:
        receivers.append(Asking(connection, pending_max))
        return receivers[0]

    return await world.connect(server, on_connection), receivers[0].requests


def test_answers_find_their_questions_in_any_order() -> None:
    """Every question gets its own answer, though answers come in another order."""

    async def main(world: World) -> list[bytes]:
        _, requests = await asking(world, batch=300)
        asks = (requests.ask(Kind.AUTHORITY_ASK, b"q%d" % n, deadline_s=10) for n in range(300))
        answers = await asyncio.gather(*asks)
        assert requests.pending == 0
        return answers

    assert run(main) == [b"Q%d" % n for n in range(300)]


def test_a_question_without_answer_ends_at_its_own_deadline() -> None:
    """Each question has its own deadline although one timer serves all: a later, shorter one ends first."""

    async def main(world: World) -> None:
        _, requests = await asking(world, batch=1)
        started = asyncio.get_running_loop().time()

        async def waited(deadline_s: float) -> float:
            with pytest.raises(OutcomeUnknown):
                await requests.ask(Kind.AUTHORITY_ASK, b"never", deadline_s=deadline_s)
            return asyncio.get_running_loop().time() - started

        long, short = await asyncio.gather(waited(0.5), waited(0.1))
        assert 0.099 <= short < long
        assert long >= 0.499
        assert requests.pending == 0
        assert await requests.ask(Kind.AUTHORITY_ASK, b"still", deadline_s=10) == b"STILL"

    run(main)


def test_the_end_of_the_connection_leaves_the_outcome_unknown() -> None:
    """When the connection ends, a pending question ends as unknown; a later one is refused as not sent."""

    async def main(world: World) -> None:
        connection, requests = await asking(world, batch=2)
        with pytest.raises(NotHeard) as caught:
            await requests.ask(Kind.AUTHORITY_ASK, b"hang up", deadline_s=10)
        assert caught.value.reason == connection.reason
        with pytest.raises(NotConnected):
            await requests.ask(Kind.AUTHORITY_ASK, b"too late", deadline_s=10)

    run(main)


def test_pending_questions_are_bounded() -> None:
    """Beyond the bound a caller is told to come back later, and a cancelled caller makes room."""

    async def main(world: World) -> None:
        _, requests = await asking(world, batch=1, pending_max=2)
        never = [
            asyncio.create_task(requests.ask(Kind.AUTHORITY_ASK, b"never", deadline_s=60)) for _ in range(2)
        ]
        await asyncio.sleep(0)
        with pytest.raises(Overloaded):
            await requests.ask(Kind.AUTHORITY_ASK, b"one more", deadline_s=60)
        never[0].cancel()
        await asyncio.wait(never[:1])
        assert await requests.ask(Kind.AUTHORITY_ASK, b"now", deadline_s=10) == b"NOW"
        never[1].cancel()

    run(main)


def test_a_payload_too_short_for_a_number_is_malformed() -> None:
    """Three bytes cannot hold a number."""
    with pytest.raises(DecodeError):
        split_number(b"abc")
    assert split_number(with_number(7, b"body")) == (7, b"body")
