"""The embedded authority on a disk that fails: what it applied is there; a failed sync ends it (A6)."""

import asyncio
import random
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from faults.disk import FaultyDisk
from faults.signals import Victim

from holdfast.authority.client import ClientConfig
from holdfast.authority.contract import Applied, Get, Got, Put, Txn
from holdfast.authority.remote import RemoteAuthority
from holdfast.net import Address, ConnectionSettings, DomainSecret, PeerIdentity, Role
from holdfast.net.credentials import SECRET_BYTES
from holdfast.net.secret_file import keep_secret

pytestmark = pytest.mark.cluster

WRITERS = 4
CHECKED_MAX = 200
"""Keys read back after each cut, newest first: older ones were read back after earlier cuts."""
CALL_NS = 1_000_000_000
SECRET = DomainSecret("holdfast", b"s" * SECRET_BYTES)


@contextmanager
def authority(directory: Path) -> Iterator[tuple[Victim, Address]]:
    # The secret is elsewhere: what fails is the authority's own disk.
    with tempfile.TemporaryDirectory() as secrets:
        keep_secret(Path(secrets), SECRET)
        command = ["authority", "serve", "--dir", str(directory), "--secret-dir", secrets]
        with Victim([sys.executable, "-m", "holdfast", *command]) as victim:
            assert victim.wait_for_lines(1, timeout_s=120), victim.errors
            found = re.search(r"listening on (\S+)", victim.lines[0])
            assert found is not None, victim.lines
            yield victim, Address.parse(found[1])


async def connected(address: Address) -> RemoteAuthority:
    endpoint = ConnectionSettings(PeerIdentity("holdfast", Role.HOST, "tester"), credentials=SECRET)
    return RemoteAuthority(address, endpoint, config=ClientConfig(deadline_ns=CALL_NS))


async def write_until_it_fails(address: Address, prefix: str, on_applied: Callable[[str], None]) -> None:
    """Let several writers put one key after the other until their authority has ended."""
    client = await connected(address)

    async def write(number: int) -> None:
        written = 0
        while True:
            key = f"{prefix}/{number}/{written}"
            written += 1
            if not isinstance(await client.ask(Txn((), (Put(key, b"value"),))), Applied):
                return
            on_applied(key)

    await asyncio.gather(*(write(number) for number in range(WRITERS)))
    await client.close()


async def absent(address: Address, keys: list[str]) -> list[str]:
    client = await connected(address)
    answers = [(key, await client.ask(Get(key))) for key in keys]
    await client.close()
    assert all(isinstance(answer, Got) for _, answer in answers)
    return [key for key, answer in answers if isinstance(answer, Got) and answer.item is None]


def test_no_applied_change_is_lost_to_power_cuts(faulty_disk: FaultyDisk, rounds: Callable[..., int]) -> None:
    """The power fails after any number of writes and syncs; everything answered "applied" is there."""
    directory = faulty_disk.path / "made" / "by" / "nobody"
    dice = random.Random(1)
    applied: list[str] = []
    cuts = rounds(short=3, long=100)
    for cut in range(cuts):
        with authority(directory) as (victim, address):
            faulty_disk.power_off_after(changes=dice.randint(1, 400))
            asyncio.run(write_until_it_fails(address, str(cut), applied.append))
            assert victim.wait(timeout_s=120) == 1
        faulty_disk.power_on(torn=dice.random() < 0.7)
        with authority(directory) as (_, address):
            assert asyncio.run(absent(address, applied[-CHECKED_MAX:])) == []
    assert len(applied) > cuts


def test_power_cuts_lose_changes_on_a_lying_disk(faulty_disk: FaultyDisk) -> None:
    """The same test sees the loss when the disk only pretends to sync, so it can fail."""
    directory = faulty_disk.path / "authority"
    applied: list[str] = []
    with authority(directory) as (_, address):
        faulty_disk.ignore_syncs()
        faulty_disk.power_off_after(changes=200)
        asyncio.run(write_until_it_fails(address, "lied", applied.append))
    faulty_disk.power_on()
    faulty_disk.ignore_syncs(False)
    with authority(directory) as (_, address):
        assert asyncio.run(absent(address, applied)) == applied != []


def test_a_failed_sync_ends_the_authority(faulty_disk: FaultyDisk) -> None:
    """It says why, answers nobody "applied" for that change, and what it applied before is there
    afterwards."""
    directory = faulty_disk.path / "authority"
    applied: list[str] = []
    with authority(directory) as (victim, address):
        faulty_disk.fail_syncs(1, after=20)
        asyncio.run(write_until_it_fails(address, "key", applied.append))
        assert victim.wait(timeout_s=120) == 1
        assert "the authority ends" in victim.errors
    faulty_disk.power_cut()
    with authority(directory) as (_, address):
        assert asyncio.run(absent(address, applied)) == []
    assert len(applied) >= 20
