"""Creating a group while answers are lost: it is created once, and not again after it was deleted."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.admin.groups import made
from holdfast.authority import driver
from holdfast.authority.contract import Request, Result, Txn, Unknown
from holdfast.authority.groups import GroupRecord, RemovedSince, create_group, find_group
from holdfast.authority.recipe import Seen
from holdfast.authority.removal import remove_group
from holdfast.model.ids import GroupId, HostId, Nonce
from recipe_bench import Bench, member

A = HostId("a")
RECORD = GroupRecord(
    group=GroupId(7),
    class_name="bank:Ledger",
    style="warm_passive",
    members=(),
    nonce=Nonce("x"),
    name="bank",
)


class Authority:
    """The bench's authority as a host sees it; *treat* handles each request in between."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.treat: Callable[[Request], Result] = bench.ask

    async def ask(self, request: Request) -> Result:
        return self.treat(request)

    def make(self) -> object:
        recipe = made(self, lambda guard: create_group(RECORD, A, (member(A),), as_of=guard))  # type: ignore[arg-type]  # it watches nothing
        return asyncio.run(asyncio.wait_for(recipe, 30))

    def remove(self, group: GroupId) -> None:
        self.bench.run(remove_group(group, nonce=self.bench.nonce()))


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Authority]:
    monkeypatch.setattr(driver, "RETRY_S", 0.001)
    bench = Bench(tmp_path)
    yield Authority(bench)
    bench.close()


def test_a_group_that_was_deleted_while_its_making_was_in_doubt_stays_deleted(authority: Authority) -> None:
    """The group's creator was cut off at its creation, and returns after others have used and deleted it."""

    def cut_off(request: Request) -> Result:
        result = authority.bench.ask(request)
        if not isinstance(request, Txn):
            return result
        authority.remove(RECORD.group)
        authority.treat = authority.bench.ask
        return Unknown("the answer was lost")

    authority.treat = cut_off
    assert isinstance(authority.make(), RemovedSince)
    assert not isinstance(authority.bench.run(find_group("bank")), Seen)


def test_a_group_whose_making_is_in_doubt_is_found(authority: Authority) -> None:
    def lose_once(request: Request) -> Result:
        if isinstance(request, Txn):
            authority.treat = authority.bench.ask
        return authority.bench.lose_answer(request)

    authority.treat = lose_once
    assert isinstance(authority.make(), Seen)


def test_a_group_is_made_while_others_are_deleted(authority: Authority) -> None:
    """Nothing is in doubt: the deletion of others does not prevent the creation."""
    other = authority.bench.group_on([A])

    def meanwhile(request: Request) -> Result:
        if isinstance(request, Txn):
            authority.treat = authority.bench.ask
            authority.remove(other)
        return authority.bench.ask(request)

    authority.treat = meanwhile
    assert isinstance(authority.make(), Seen)
