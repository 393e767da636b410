"""What a group notices of a directory on its machine that is searched as fast as it answers.

A directory host and the load generator take what processors they get, and everybody beside them has less.
So calls of a group are timed beside the searches, and then beside two processes that have nothing to do with
Holdfast and burn as much of the processors: what the directory costs beyond that is its own doing.
"""

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import uvloop
from msgspec import Struct

from holdfast.bench import Progress
from holdfast.bench.directories import ADMIN, PASSWORD, PEOPLE, SUFFIX, stop
from holdfast.bench.directories.lag import running_masters
from holdfast.bench.directories.ldclt import SEARCH_BY_UID, Shape, command
from holdfast.bench.directories.people import DIGITS
from holdfast.bench.measuring.access import client_of
from holdfast.bench.measuring.callers import drive
from holdfast.bench.measuring.usage import cpu_s
from holdfast.bench.objects import Counter
from holdfast.bench.systems.ours import started_domain
from holdfast.client.proxy import Group
from holdfast.directory.operations import AddRequest, Attribute
from holdfast.ldap.client import LdapClient

PERSONS: Final = 1_000
SHAPE: Final = Shape(8, 16)
SETTLE_S: Final = 2.0
"""How long the searches go on, or the burning, before calls are timed: connections are made, and bound."""
PERIOD_S: Final = 0.01
_BURNS: Final = """
import sys, time
share, period = float(sys.argv[1]), float(sys.argv[2])
used = time.process_time() - share * time.monotonic()
while True:
    if time.process_time() - share * time.monotonic() < used:
        until = time.monotonic() + period
        while time.monotonic() < until:
            pass
    else:
        time.sleep(period)
"""
"""Burns a share of a processor, in slices, for as long as it lives."""


class Beside(Struct, frozen=True, kw_only=True):
    """The slowest call in a hundred of one round, in milliseconds."""

    searches_p99_ms: float
    strangers_p99_ms: float
    shares: tuple[float, ...]
    """What of a processor the directory host took, and the load generator."""


def measure_neighbours(directory: Path, *, rounds: int, seconds: float, progress: Progress) -> list[Beside]:
    """Time a group's calls in so many rounds, for *seconds* beside each. Raises :class:`.Absent`."""
    secret = directory / "password"
    secret.write_text(f"{PASSWORD}\n")
    with running_masters(
        directory / "masters", masters=1, options=("--admin-password-file", str(secret))
    ) as told:
        (master,) = told["masters"]
        _fill(f"ldap://{master['ldap']}")
        port = int(master["ldap"].rpartition(":")[2])
        return uvloop.run(_measured(directory / "domain", port, master["pid"], rounds, seconds, progress))


def _fill(url: str) -> None:
    with LdapClient(url) as client:
        client.bind(ADMIN, PASSWORD.encode())
        unit = Attribute("objectClass", (b"organizationalUnit",))
        client.change(AddRequest(f"ou=people,{SUFFIX}", (unit, Attribute("ou", (b"people",)))))
        for number in range(PERSONS):
            uid = f"person{number:0{DIGITS}d}".encode()
            named = [Attribute(each, (uid,)) for each in ("uid", "cn", "sn")]
            kind = Attribute("objectClass", (b"inetOrgPerson",))
            client.change(AddRequest(f"uid={uid.decode()},{PEOPLE}", (kind, *named)))


async def _measured(
    directory: Path, port: int, pid: int, rounds: int, seconds: float, progress: Progress
) -> list[Beside]:
    found = []
    directory.mkdir()
    async with (
        started_domain(directory, hosts=3) as (description, status),
        client_of(description, status) as domain,
    ):
        group = await domain.create(Counter, name="beside")
        for number in range(1, rounds + 1):
            with _searches(port) as generator:
                await asyncio.sleep(SETTLE_S)
                pids, began = (pid, generator), time.monotonic()
                before = [cpu_s(each) for each in pids]
                searched = await _p99_ms(group, seconds)
                took_s = time.monotonic() - began
                shares = tuple((cpu_s(each) - used) / took_s for each, used in zip(pids, before, strict=True))
            with _strangers(shares):
                await asyncio.sleep(SETTLE_S)
                burned = await _p99_ms(group, seconds)
            found.append(Beside(searches_p99_ms=searched, strangers_p99_ms=burned, shares=shares))
            told = " and ".join(f"{each:.0%}" for each in shares)
            progress(
                f"round {number} of {rounds}: p99 {searched:.2f} ms, beside strangers {burned:.2f} ({told})"
            )
    return found


async def _p99_ms(group: Group[Counter], seconds: float) -> float:
    load = await drive(lambda: group.call(Counter.add, 1), in_flight=1, seconds=seconds, pids={})
    return load.p99_ms


@contextmanager
def _searches(port: int) -> Iterator[int]:
    """Searches without a pause; the process that makes them."""
    asked = command(SEARCH_BY_UID, SHAPE, PERSONS, port)
    process = subprocess.Popen(asked, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


@contextmanager
def _strangers(shares: Sequence[float]) -> Iterator[None]:
    processes = [
        subprocess.Popen([sys.executable, "-c", _BURNS, str(share), str(PERIOD_S)]) for share in shares
    ]
    try:
        yield
    finally:
        for each in processes:
            stop(each)
