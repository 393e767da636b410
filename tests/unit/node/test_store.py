"""Opening a host's store: real files and a real authority (V5, decision 0002)."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from holdfast.authority import driver
from holdfast.authority.contract import Request, Result, Txn, Unknown, WatchEvent
from holdfast.authority.identity import AuthorityBehind
from holdfast.clock.errors import ClockConfig
from holdfast.model.errors import Corruption
from holdfast.model.ids import HostId, Nonce, Revision
from holdfast.node.store import STORE, HostStore
from holdfast.storage.segments import LogConfig
from recipe_bench import Bench

A, B = HostId("a"), HostId("b")


class Died(Exception):
    """The process ended here."""


class World:
    """A host's directory and an authority; *treat* handles each request in between."""

    def __init__(self, directory: Path) -> None:
        self.host = directory / "host"
        self.bench = Bench(directory)
        self.treat: Callable[[Request], Result] = self.bench.ask
        self._nonces = 0

    async def ask(self, request: Request) -> Result:
        return self.treat(request)

    def watch(self, prefix: str, revision: Revision) -> AsyncIterator[WatchEvent]:
        raise AssertionError("opening a store watches nothing")

    async def close(self) -> None:
        return None

    def open(self, host: HostId = A) -> tuple[str, int]:
        """Open and close the store once; returns its id and the number of this opening."""

        async def once() -> tuple[str, int]:
            store = HostStore(
                self.host, host, self, self._nonce, LogConfig(file_bytes=2 << 20), ClockConfig()
            )
            try:
                await asyncio.wait_for(store.open(), 10)
                return store.id, store.opening
            finally:
                await store.close()

        return asyncio.run(once())

    def keep_copy(self) -> Path:
        copy = self.host.with_name("copy")
        shutil.copytree(self.host, copy)
        return copy

    def put_back(self, copy: Path) -> None:
        shutil.rmtree(self.host)
        copy.rename(self.host)

    def _nonce(self) -> Nonce:
        self._nonces += 1
        return Nonce(f"nonce {self._nonces}")


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(driver, "RETRY_S", 0.001)
    made = World(tmp_path)
    yield made
    made.bench.close()


def test_each_opening_of_a_store_is_numbered(world: World) -> None:
    name, _ = world.open()
    assert [world.open() for _ in range(3)] == [(name, 2), (name, 3), (name, 4)]


def test_a_store_put_back_from_a_copy_joins_as_new(world: World) -> None:
    """Without it: a day's acknowledged operations are gone, and the host claims as if it had them (V5)."""
    name, _ = world.open()
    copy = world.keep_copy()
    world.open()
    world.put_back(copy)
    other, opening = world.open()
    assert other != name
    assert opening == 1


def test_a_copy_of_another_hosts_store_joins_as_new(world: World) -> None:
    name, _ = world.open()
    assert world.open(B)[0] != name


def test_an_opening_whose_answer_was_lost_is_the_same_opening(world: World) -> None:
    """The number was raised but the store does not know: its intent shows that it was not rolled back."""
    name, _ = world.open()

    def lose_one_answer(request: Request) -> Result:
        result = world.bench.ask(request)
        if isinstance(request, Txn):
            world.treat = world.bench.ask
            return Unknown("the answer was lost")
        return result

    world.treat = lose_one_answer
    assert world.open() == (name, 2)
    assert world.open() == (name, 3)


def test_an_opening_cut_off_before_it_was_written_down_is_taken_up_again(world: World) -> None:
    name, _ = world.open()

    def die_after_raising(request: Request) -> Result:
        result = world.bench.ask(request)
        if isinstance(request, Txn):
            raise Died
        return result

    world.treat = die_after_raising
    with pytest.raises(Died):
        world.open()
    world.treat = world.bench.ask
    assert world.open() == (name, 3)


def test_two_copies_cut_off_in_the_same_opening_never_share_a_number(world: World) -> None:
    """Each settles what was begun and takes a number of its own; the second to do so is not recognized."""
    name, _ = world.open()

    def die_after_raising(request: Request) -> Result:
        if isinstance(request, Txn):
            world.bench.ask(request)
            raise Died
        return world.bench.ask(request)

    world.treat = die_after_raising
    with pytest.raises(Died):
        world.open()
    world.treat = world.bench.ask
    copy = world.keep_copy()
    assert world.open() == (name, 3)
    world.put_back(copy)
    assert world.open()[0] != name


def test_an_authority_that_knows_of_fewer_openings_is_refused(world: World, tmp_path: Path) -> None:
    """A5: it was restored to an older state. The store is left as it is, for people to decide."""
    name, _ = world.open()
    (tmp_path / "empty").mkdir()
    forgetful = Bench(tmp_path / "empty")
    world.treat = forgetful.ask
    for _ in range(2):
        with pytest.raises(AuthorityBehind, match="holdfast authority restore"):
            world.open()
    forgetful.close()
    world.treat = world.bench.ask
    assert world.open() == (name, 3), "the second, begun by a process that gave up, is settled and not used"


def test_a_damaged_record_is_named_and_never_replaced(world: World) -> None:
    world.open()
    record = world.host / STORE / "store"
    damaged = record.read_bytes()[:-1] + b"?"
    record.write_bytes(damaged)
    with pytest.raises(Corruption, match="store's record is damaged"):
        world.open()
    assert record.read_bytes() == damaged


def test_a_damaged_log_is_what_a_host_says_at_its_end(world: World) -> None:
    """D2: closing a log that never opened must not hide the cause."""
    for _ in range(3):
        world.open()
    log = min(file for file in (world.host / STORE).iterdir() if file.name.startswith("log"))
    data = bytearray(log.read_bytes())
    data[LogConfig().sector_bytes + 8] ^= 1  # in the first batch; later ones say that it was synced
    log.write_bytes(data)
    with pytest.raises(Corruption, match=log.name):
        world.open()
    assert log.read_bytes() == data
