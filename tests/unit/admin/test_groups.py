"""Creating a group while answers are lost: it is created once, and not again after it was deleted."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from holdfast.admin.groups import Numbers, made, too_few
from holdfast.authority import driver
from holdfast.authority.contract import Applied, Request, Result, Txn, Unknown
from holdfast.authority.groups import (
    UNRESERVED,
    GroupRecord,
    NameTaken,
    RemovedSince,
    Reserved,
    create_group,
    find_group,
)
from holdfast.authority.identity import ensure_identity
from holdfast.authority.recipe import Guard, Recipe, Seen
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
        self.round_trips = 0

    async def ask(self, request: Request) -> Result:
        self.round_trips += 1
        return self.treat(request)

    def make(self) -> object:
        return asyncio.run(asyncio.wait_for(self.making(RECORD, UNRESERVED), 30))

    async def making(self, record: GroupRecord, known: Reserved) -> object:
        def make(guard: Seen[Guard | None]) -> Recipe[object]:
            return create_group(record, A, (member(A),), as_of=guard, known=known)

        return await made(self, known.guard, make)  # type: ignore[arg-type]  # it watches nothing

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
        if not isinstance(result, Applied):
            return result
        authority.remove(RECORD.group)
        authority.treat = authority.bench.ask
        return Unknown("the answer was lost")

    authority.treat = cut_off
    assert isinstance(authority.make(), RemovedSince)
    assert not isinstance(authority.bench.run(find_group("bank")), Seen)


def test_a_group_whose_making_is_in_doubt_is_found(authority: Authority) -> None:
    def lose_once(request: Request) -> Result:
        result = authority.bench.lose_answer(request)
        if isinstance(result, Unknown):
            authority.treat = authority.bench.ask
        return result

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


def test_a_group_is_created_in_three_round_trips_to_the_authority(authority: Authority) -> None:
    """Two, where nothing has changed since the last creation here; names and numbers are compared, not
    read."""
    authority.bench.run(ensure_identity("domain", nonce=authority.bench.nonce()))
    numbers = Numbers(authority, authority.bench.nonce)  # type: ignore[arg-type]  # it watches nothing

    def create(name: str) -> tuple[object, GroupId, int]:
        async def work() -> tuple[object, GroupId]:
            group = await numbers.take()
            nonce = authority.bench.nonce()
            record = msgspec.structs.replace(RECORD, group=group, name=name, nonce=nonce)
            return await authority.making(record, numbers.known), group

        before = authority.round_trips
        found, group = asyncio.run(asyncio.wait_for(work(), 30))
        return found, group, authority.round_trips - before

    first, one, in_first = create("first")
    second, two, in_second = create("second")
    assert isinstance(first, Seen)
    assert isinstance(second, Seen)
    assert (one, two) == (1, 2)
    assert (in_first, in_second) == (3, 2)
    authority.remove(one)
    elsewhere = authority.bench.group_on([A])
    third, three, in_third = create("first")
    assert isinstance(third, Seen)
    assert three > elsewhere
    assert in_third == 3
    taken, _, in_taken = create("second")
    assert taken == NameTaken("second", two)
    assert in_taken == 2


def test_a_group_that_is_not_made_for_want_of_locations_says_so() -> None:
    """Three hosts in two racks are not two hosts."""
    needs = "3 replicas need as many hosts for groups, each in a location of its own; "
    assert too_few(3, 2, 2) == needs + "2 live now"
    assert too_few(3, 3, 2) == needs + "of the 3 that live now, 2 can have one"
