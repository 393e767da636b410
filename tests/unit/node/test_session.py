"""A host's session is kept through lost answers, ended leases and an authority that has forgotten it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine

import pytest

from holdfast.authority import driver
from holdfast.authority.contract import LeaseKeep, Request, Result, Txn, Unknown, WatchEvent
from holdfast.authority.recipe import Seen
from holdfast.authority.sessions import Session, read_session
from holdfast.model.code import Code
from holdfast.model.ids import HostId, LeaseId, Nonce, Revision
from holdfast.node import session as keeping
from holdfast.node.session import Replaced, SessionKeeper
from recipe_bench import Bench

A = HostId("a")


class Authority:
    """The bench's authority as a host sees it; *treat* handles each request in between."""

    def __init__(self, bench: Bench) -> None:
        self.treat: Callable[[Request], Result] = bench.ask
        self.asked: list[Request] = []

    async def ask(self, request: Request) -> Result:
        self.asked.append(request)
        return self.treat(request)

    def watch(self, prefix: str, revision: Revision) -> AsyncIterator[WatchEvent]:
        raise AssertionError("keeping a session watches nothing")

    async def close(self) -> None:
        return None


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "KEEP_ALIVE_S", 0.01)
    monkeypatch.setattr(driver, "RETRY_S", 0.001)


def nonces() -> Callable[[], Nonce]:
    numbers = iter(range(1, 1_000))
    return lambda: Nonce(f"nonce {next(numbers)}")


def opening(keeper: SessionKeeper) -> Coroutine[object, object, Session]:
    return keeper.open(A, address="a:1", heartbeat_address="a:2", agent_address="a:3")


def is_there(bench: Bench, session: Session) -> bool:
    return isinstance(bench.run(read_session(A, session.incarnation)), Seen)


def test_a_session_whose_opening_was_lost_and_whose_lease_ended_is_opened_again(bench: Bench) -> None:
    """The host was paused between asking and hearing: it must not ask for that same session for ever."""
    authority = Authority(bench)
    keeper = SessionKeeper(authority, nonces())

    def lose_answer_and_lease(request: Request) -> Result:
        result = bench.ask(request)
        if not isinstance(request, Txn):
            return result
        lost = bench.run(read_session(A, 1))
        assert isinstance(lost, Seen)
        bench.end(lost.value)
        authority.treat = bench.ask
        return Unknown("the answer was lost")

    authority.treat = lose_answer_and_lease
    session = asyncio.run(asyncio.wait_for(opening(keeper), 5))
    assert session.incarnation == 2
    assert is_there(bench, session)
    assert keeper.is_held


def test_trouble_with_the_authority_is_borne_until_it_answers(bench: Bench) -> None:
    authority = Authority(bench)
    silences = iter(range(5))

    def silent_at_first(request: Request) -> Result:
        return bench.ask(request) if next(silences, None) is None else Unknown("nobody answers")

    authority.treat = silent_at_first
    session = asyncio.run(asyncio.wait_for(opening(SessionKeeper(authority, nonces())), 5))
    assert is_there(bench, session)


async def keep_for(keeper: SessionKeeper, seconds: float, meanwhile: Callable[[], None]) -> None:
    keep = asyncio.ensure_future(keeper.keep())
    meanwhile()
    await asyncio.wait((keep,), timeout=seconds)
    if keep.done():
        keep.result()
    keep.cancel()
    await asyncio.gather(keep, return_exceptions=True)


def test_a_session_whose_lease_ended_is_put_back_as_it_was(bench: Bench) -> None:
    authority = Authority(bench)
    keeper = SessionKeeper(authority, nonces())

    async def live() -> Session:
        session = await opening(keeper)
        await keep_for(keeper, 0.2, lambda: bench.end(session))
        return session

    session = asyncio.run(live())
    assert is_there(bench, session)
    assert keeper.is_held


def test_a_session_that_the_authority_does_not_list_is_put_back_though_the_lease_lives(bench: Bench) -> None:
    """In an authority whose file was replaced, the lease's number may be another host's."""
    authority = Authority(bench)
    keeper = SessionKeeper(authority, nonces())

    def forget_the_session_only(session: Session) -> None:
        def every_lease_lives(request: Request) -> Result:
            return bench.ask(LeaseKeep(bench.lease()) if isinstance(request, LeaseKeep) else request)

        bench.end(session)
        authority.treat = every_lease_lives

    async def live() -> Session:
        session = await opening(keeper)
        await keep_for(keeper, 0.1, lambda: forget_the_session_only(session))
        assert not is_there(bench, session)
        await keep_for(keeper, 0.2, lambda: keeper.check({}))
        return session

    session = asyncio.run(live())
    assert is_there(bench, session)


def test_a_keep_alive_that_was_not_answered_is_sent_again_at_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The timeout took over a third of the lease; waiting for the next turn would cost the session."""
    authority = Authority(bench)
    keeper = SessionKeeper(authority, nonces())
    kept = asyncio.Event()

    def hear_the_second(request: Request) -> Result:
        kept.set()
        return bench.ask(request)

    def miss_the_first(request: Request) -> Result:
        monkeypatch.setattr(keeping, "KEEP_ALIVE_S", 600.0)
        authority.treat = hear_the_second
        return Unknown("nobody answers")

    async def live() -> None:
        await opening(keeper)
        authority.treat = miss_the_first
        keep = asyncio.ensure_future(keeper.keep())
        async with asyncio.timeout(30):
            await kept.wait()
        keep.cancel()
        await asyncio.gather(keep, return_exceptions=True)

    asyncio.run(live())


def test_a_session_that_is_listed_is_left_alone(bench: Bench) -> None:
    authority = Authority(bench)
    keeper = SessionKeeper(authority, nonces())

    async def live() -> None:
        session = await opening(keeper)
        authority.asked.clear()
        await keep_for(keeper, 0.1, lambda: keeper.check({A: session}))

    asyncio.run(live())
    assert authority.asked
    assert all(isinstance(request, LeaseKeep) for request in authority.asked)


def test_a_host_that_was_replaced_ends(bench: Bench) -> None:
    """V2: a later process of the host has begun; this one must not come back beside it."""
    authority = Authority(bench)
    keeper = SessionKeeper(authority, nonces())

    def replace() -> None:
        bench.session("a")
        authority.treat = lambda request: (
            bench.ask(LeaseKeep(LeaseId(10**6))) if isinstance(request, LeaseKeep) else bench.ask(request)
        )

    async def live() -> None:
        await opening(keeper)
        await keep_for(keeper, 5, replace)

    with pytest.raises(Replaced, match="later process of a"):
        asyncio.run(live())


def test_closing_takes_the_session_away_and_needs_none_to_be_open(bench: Bench) -> None:
    keeper = SessionKeeper(Authority(bench), nonces())

    async def live() -> Session:
        await keeper.close()
        session = await opening(keeper)
        await keeper.close()
        return session

    session = asyncio.run(live())
    assert not is_there(bench, session)
    assert not keeper.is_held


def test_what_a_session_says_of_its_classes_is_told_under_its_lease(bench: Bench) -> None:
    """The session is held all the while; a watch that still shows older contents is no sign of a loss
    (E7).
    """
    keeper, code = SessionKeeper(Authority(bench), nonces()), Code("2", "abcd")

    async def told() -> None:
        session = await opening(keeper)
        keep = asyncio.create_task(keeper.keep())
        before = bench.run(read_session(A, session.incarnation))
        keeper.announce({"app:Counter": code})
        keeper.check({A: session})  # as it was
        while (found := bench.run(read_session(A, session.incarnation))).value.codes != {"app:Counter": code}:
            assert keeper.is_held
            await asyncio.sleep(0.001)
        assert found.lease == before.lease
        keep.cancel()

    asyncio.run(asyncio.wait_for(told(), 5))
    assert keeper.is_held
