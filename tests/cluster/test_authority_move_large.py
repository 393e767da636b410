"""A domain of a thousand hosts and five thousand keys moves between real authorities, and ends there (A8)."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from authority_backends import DEADLINE_S, EtcdBackend, SqliteBackend

from holdfast.authority.client import ClientConfig
from holdfast.authority.contract import (
    Applied,
    Compacted,
    LeaseGrant,
    LeaseGranted,
    List,
    Listed,
    Put,
    Txn,
)
from holdfast.authority.move.copying import Items, list_all
from holdfast.authority.move.finding import Serving, find_serving
from holdfast.authority.move.following import Backend, FollowingAuthority, Places, perform_at
from holdfast.authority.move.mover import Moved, Mover, Progress
from holdfast.authority.move.place import EtcdSettings, Place, etcd_at, sqlite_at
from holdfast.authority.recipe import Authority
from holdfast.authority.remote import RemoteAuthority
from holdfast.machine import MachineClock
from holdfast.model.ids import SECOND, Nonce, Revision
from holdfast.net import Address, ConnectionSettings, PeerIdentity, Role
from holdfast.net.secret_file import read_secret

pytestmark = pytest.mark.cluster

LEASES, KEYS = 1_000, 5_000
WAIT_S = 240.0
TOGETHER = 100
GRANTED_TOGETHER = 10
"""Each lease is synced by itself; on a busy disk a hundred at once take longer than a request may."""


@pytest.fixture
def two_files(tmp_path: Path) -> Iterator[dict[Place, Path]]:
    """Two embedded authorities, each a process of its own."""
    started: list[SqliteBackend] = []
    found: dict[Place, Path] = {}
    try:
        for name in ("a", "b"):
            backend = SqliteBackend(tmp_path / name)
            started.append(backend)
            backend.start()
            found[sqlite_at(str(backend.address))] = tmp_path / name
        yield found
    finally:
        for backend in started:
            backend.stop()


def connector(files: dict[Place, Path], etcd: EtcdBackend | None = None) -> Callable[[Place], Backend]:
    def connect(place: Place) -> Backend:
        if place.etcd is not None:
            assert etcd is not None
            return etcd.connect_to(list(place.etcd.endpoints), place.etcd.prefix)
        endpoint = ConnectionSettings(
            PeerIdentity("holdfast", Role.HOST, "tester"), credentials=read_secret(files[place])
        )
        config = ClientConfig(deadline_ns=int(DEADLINE_S * SECOND))
        return RemoteAuthority(Address.parse(place.address), endpoint, config=config)

    return connect


async def fill(authority: Authority, leases: int, keys: int) -> None:
    for start in range(0, keys, TOGETHER):
        put = tuple(Put(f"k/{start + each:05}", b"v" * 50) for each in range(TOGETHER))
        assert isinstance(await authority.ask(Txn((), put)), Applied)
    for start in range(0, leases, GRANTED_TOGETHER):
        granted = await asyncio.gather(*(authority.ask(LeaseGrant(600)) for _ in range(GRANTED_TOGETHER)))
        sessions = []
        for number, each in enumerate(granted, start=start):
            assert isinstance(each, LeaseGranted), each
            sessions.append(Put(f"sessions/{number:05}", b"s", each.lease))
        assert isinstance(await authority.ask(Txn((), tuple(sessions))), Applied)


async def move(places: Places, source: Place, target: Place) -> tuple[Moved, list[Progress]]:
    told: list[Progress] = []
    mover = Mover(
        source,
        target,
        id=secrets.token_hex(4),
        nonce=lambda: Nonce(secrets.token_hex(8)),
        now=MachineClock().now,
        tell=told.append,
    )
    async with asyncio.timeout(WAIT_S):
        ended = await perform_at(places, mover.run())
    assert isinstance(ended, Moved), ended
    return ended, told


@asynccontextmanager
async def bystander(start: Place, connect: Callable[[Place], Backend]) -> AsyncIterator[FollowingAuthority]:
    """A process that follows, and would give up a move without a sign of life."""
    following = FollowingAuthority(start, connect)
    try:
        yield following
    finally:
        await following.close()


def test_a_thousand_leases_and_five_thousand_keys_move_and_come_back(two_files: dict[Place, Path]) -> None:
    """Processes look on that would give up a move which shows no life."""
    here, there = two_files
    connect = connector(two_files)

    async def work() -> None:
        places = Places(connect)
        async with bystander(here, connect) as looks_on:
            await fill(places.at(here), LEASES, KEYS)
            before = {key: item.value for key, item in (await _contents(places, here)).items()}
            for source, target in ((here, there), (there, here)):
                _, told = await move(places, source, target)
                steps = {each.step: each for each in told}
                assert (steps["continued"].done, steps["continued"].of) == (LEASES, LEASES)
                after = await _contents(places, target)
                assert {key: item.value for key, item in after.items()} == before
                assert sum(1 for item in after.values() if item.lease) == LEASES
                async with asyncio.timeout(WAIT_S):
                    while looks_on.place != target:
                        await asyncio.sleep(0.1)
        await places.leave_all_but(None)

    asyncio.run(work())


@pytest.mark.etcd
def test_leases_and_keys_move_to_an_etcd_and_back_and_watchers_follow(
    two_files: dict[Place, Path], etcd_backend: EtcdBackend, rounds: Callable[..., int]
) -> None:
    """A process that only watches leaves the etcd too, though an etcd ends no watch at a move."""
    here, back = two_files
    prefix = f"large-{secrets.token_hex(4)}/"
    there = etcd_at(EtcdSettings(endpoints=tuple(etcd_backend.cluster.endpoints), prefix=prefix))
    connect = connector(two_files, etcd_backend)
    leases = rounds(short=2, long=10) * TOGETHER

    async def work() -> None:
        places = Places(connect)
        await fill(places.at(here), leases, leases * 5)
        await move(places, here, there)
        async with bystander(there, connect) as watches:
            listed = await watches.ask(List("sessions/"))
            assert isinstance(listed, Listed)
            assert sum(1 for item in listed.items if item.lease) == leases
            ended = asyncio.create_task(_end_of_watch(watches, listed.revision))
            await move(places, there, back)
            async with asyncio.timeout(WAIT_S):
                await ended
            assert watches.place == back
        await places.leave_all_but(None)

    asyncio.run(work())


async def _end_of_watch(authority: FollowingAuthority, seen: Revision) -> None:
    async for event in authority.watch("sessions/", Revision(seen + 1)):
        if isinstance(event, Compacted):
            return


async def _contents(places: Places, place: Place) -> Items:
    found = await perform_at(places, find_serving(place))
    assert isinstance(found, Serving)
    return await perform_at(places, list_all(found.seen))
