"""One host acts for the domain: the one that was elected, as long as its process is in session."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from holdfast.authority.contract import Request, Result, Unknown, WatchEvent
from holdfast.model.ids import Revision
from holdfast.node.leading import Leading
from recipe_bench import Bench


class Asked:
    """An authority of one file (:class:`holdfast.authority.recipe.Authority`), which may be away."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self.is_away = False

    async def ask(self, request: Request) -> Result:
        return Unknown("away") if self.is_away else self._bench.ask(request)

    def watch(self, prefix: str, revision: Revision) -> AsyncIterator[WatchEvent]:
        raise AssertionError("nothing is watched here")

    async def close(self) -> None: ...


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.close()


def looks(*hosts: Leading, times: int = 3) -> list[bool]:
    """Whether each leads, after everybody has looked a few times."""

    async def look() -> list[bool]:
        for _ in range(times):
            found = [await each.look() for each in hosts]
        return found

    return asyncio.run(look())


def test_one_host_leads_until_its_session_ends_and_then_another(bench: Bench) -> None:
    """Also the next process of the first host is another: nobody resumes a role."""
    authority = Asked(bench)
    sessions = [bench.session(name) for name in "abc"]
    a, b, c = (Leading(authority, each, bench.nonce) for each in sessions)
    assert looks(a, b, c) == [True, False, False]
    assert {each.leader for each in (a, b, c)} == {"a"}
    bench.end(sessions[0])
    again = Leading(authority, bench.session("a"), bench.nonce)
    assert looks(b, c, again) == [True, False, False]
    assert again.leader == "b"


def test_nobody_leads_without_the_authority(bench: Bench) -> None:
    authority = Asked(bench)
    only = Leading(authority, bench.session("a"), bench.nonce)
    assert looks(only) == [True]
    authority.is_away = True
    assert looks(only, times=1) == [False]
    assert only.leader is None
    authority.is_away = False
    assert looks(only, times=1) == [True]
