"""A process that asks for nothing, or that nobody answers, finds the domain after a move as well (A8)."""

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Iterator
from pathlib import Path

import pytest
from store_pair import A, B, Pair

from holdfast.authority.contract import (
    Get,
    LeaseGrant,
    LeaseGranted,
    LeaseKeep,
    Request,
    Result,
    Under,
    Unknown,
    WatchEvent,
)
from holdfast.authority.move.finding import Unmoved, look_around
from holdfast.authority.move.follower import Follower, FollowerConfig
from holdfast.authority.move.following import FollowingAuthority
from holdfast.authority.move.mover import Moved
from holdfast.authority.move.place import Place
from holdfast.authority.move.seat import SeenSeat
from holdfast.model.ids import SECOND, Nonce

CONFIG = FollowerConfig()


class Notes:
    def note(self, event: str, **fields: object) -> None:
        """A trace that nobody reads."""


class Process:
    """One process with its follower, on a clock that the test moves."""

    def __init__(self, pair: Pair, others: Iterable[Place] = ()) -> None:
        self._pair = pair
        self.now_ns = 0
        self.silent: set[Place] = set()
        self.asked: list[tuple[Place, Request]] = []
        self.moved: list[Place] = []
        self.answers: dict[Hashable, Result] = {}
        self._timers: dict[Hashable, int] = {}
        self._waiting: list[tuple[Place, Request, Hashable]] = []
        self._on_timer: Callable[[Hashable], None]
        self.follower = Follower(
            A,
            clock=self,
            timers=self._made_timers,
            trace=Notes(),
            nonces=lambda: Nonce("n"),
            ask=lambda place, request, token: self._waiting.append((place, request, token)),
            on_authority=self.answers.__setitem__,
            on_moved=lambda seen: self.moved.append(seen.place),
            others=lambda: others,
            config=CONFIG,
        )

    def now(self) -> int:
        return self.now_ns

    def set(self, delay_ns: int, tag: Hashable) -> None:
        self._timers[tag] = self.now_ns + delay_ns

    def cancel(self, tag: Hashable) -> None:
        self._timers.pop(tag, None)

    def pass_time(self, nanoseconds: int) -> None:
        """Let every timer and every answer within so long arrive."""
        end = self.now_ns + nanoseconds
        self._answer()
        while due := [(at, str(tag), tag) for tag, at in self._timers.items() if at <= end]:
            self.now_ns, _, tag = min(due)
            del self._timers[tag]
            self._on_timer(tag)
            self._answer()
        self.now_ns = end

    def _answer(self) -> None:
        while self._waiting:
            place, request, token = self._waiting.pop(0)
            self.asked.append((place, request))
            silent = place in self.silent
            self.follower.on_result(token, Unknown("silent") if silent else self._pair.ask(place, request))

    def _made_timers(self, on_timer: Callable[[Hashable], None]) -> "Process":
        self._on_timer = on_timer
        return self


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path)
    yield made
    made.close()


def test_who_asks_for_nothing_learns_of_a_move(pair: Pair) -> None:
    """An agent only watches, and an etcd does not end its watches."""
    process = Process(pair)
    process.pass_time(CONFIG.look_ns)
    assert isinstance(pair.run(pair.mover("m").run()), Moved)
    process.pass_time(2 * CONFIG.look_ns)
    assert process.moved == [B]


def test_who_asks_does_not_look_as_well(pair: Pair) -> None:
    """A host renews its lease all the time: its answers show that nothing has moved."""
    process = Process(pair)
    for _ in range(20):
        process.follower.request(LeaseGrant(5), "t")
        process.pass_time(CONFIG.look_ns // 4)
    assert all(
        isinstance(request, Under) and isinstance(request.request, LeaseGrant) for _, request in process.asked
    )


def test_who_hears_nothing_looks_elsewhere(pair: Pair) -> None:
    """The old authority was switched off after the move; another process of the machine knows the new one."""
    process = Process(pair, others=(A, B))
    assert isinstance(pair.run(pair.mover("m").run()), Moved)
    process.silent = {A}
    process.pass_time(2 * CONFIG.look_ns)
    assert process.moved == [B]


def test_an_earlier_stay_is_not_gone_back_to(pair: Pair) -> None:
    """A file from before the move was put back and serves again: nobody who knows better follows it."""
    ended = pair.run(pair.mover("m").run())
    assert isinstance(ended, Moved)
    stale = pair.run(look_around(SeenSeat(B, ended.seen.seat, ended.seen.revision), (A,)))
    assert isinstance(stale, Unmoved)
    # B does not answer, and A says that it serves its first stay.
    process = Process(pair, others=(A,))
    process.follower.seen = ended.seen
    process.silent = {B}
    pair.stores[A].close()
    Path(pair.directory / "a").unlink()
    pair.open(A)
    process.pass_time(10 * SECOND)
    assert process.moved == []
    assert any(place == A for place, _ in process.asked)


def test_a_lease_of_the_first_authority_is_not_one_of_the_second(pair: Pair) -> None:
    """Both are held by one process, under numbers of two files."""
    process = Process(pair)
    process.follower.request(LeaseGrant(6), "first")
    process.pass_time(0)
    assert isinstance(pair.run(pair.mover("m").run()), Moved)
    process.follower.request(LeaseGrant(7), "second")
    process.pass_time(SECOND)
    first, second = process.answers["first"], process.answers["second"]
    assert isinstance(first, LeaseGranted)
    assert isinstance(second, LeaseGranted)
    assert first.lease != second.lease
    process.follower.request(LeaseKeep(second.lease), "kept")
    process.pass_time(0)
    assert process.answers["kept"] == LeaseGranted(second.lease, 7)


class Broken:
    """A connection to a place that was left: it was closed while a question was on its way."""

    async def ask(self, request: Request) -> Result:
        raise AttributeError("'NoneType' object has no attribute 'send'")

    def watch(self, *asked: object) -> AsyncIterator[WatchEvent]:
        raise AssertionError

    async def close(self) -> None:
        return None


def test_a_question_to_a_place_that_was_left_is_answered() -> None:
    """Whoever asked would otherwise wait for ever, and the group with it (A2)."""

    async def work() -> Result:
        following = FollowingAuthority(A, lambda place: Broken())
        try:
            async with asyncio.timeout(60):
                return await following.ask(Get("k"))
        finally:
            await following.close()

    answer = asyncio.run(work())
    assert isinstance(answer, Unknown)
    assert "could not be asked" in answer.reason


def test_a_question_that_waits_when_its_client_closes_is_answered() -> None:
    class Silent(Broken):
        async def ask(self, request: Request) -> Result:
            await asyncio.Event().wait()
            raise AssertionError

    async def work() -> Result:
        following = FollowingAuthority(A, lambda place: Silent())
        asked = asyncio.ensure_future(following.ask(Get("k")))
        await asyncio.sleep(0)
        await following.close()
        async with asyncio.timeout(60):
            return await asked

    assert isinstance(asyncio.run(work()), Unknown)


def test_a_place_that_calls_back_is_asked_without_a_task() -> None:
    """Each question of a failover would otherwise take two tasks and five turns of the loop."""

    class Direct(Broken):
        def request(self, request: Request, then: Callable[[Result], None]) -> None:
            then(Unknown("at once"))

    async def work() -> list[Result]:
        following = FollowingAuthority(A, lambda place: Direct())
        told: list[Result] = []
        before = asyncio.all_tasks()
        following.request(Get("k"), told.append)
        assert asyncio.all_tasks() == before
        await following.close()
        return told

    assert asyncio.run(work()) == [Unknown("at once")]
