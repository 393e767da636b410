"""A running domain moves from SQLite to etcd and back, under load, with kill -9 at the steps (A8)."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from authority_backends import EtcdBackend
from domain import WAIT_S, Domain, is_whole
from group_client import EXAMPLES, Client, run
from workload import Workload, check_members

from holdfast.storage.lock import holder_of

pytestmark = [pytest.mark.cluster, pytest.mark.etcd, pytest.mark.timeout(900)]

STEPS = ("reserved", "sealed", "copied", "verified", "renewed", "released")
UNDECIDED = STEPS[1:-1]


@pytest.fixture(scope="module")
def domain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Domain]:
    with Domain(tmp_path_factory.mktemp("moves") / "d", "--app", str(EXAMPLES)) as made:
        made.wait("every host hears every other", is_whole)
        yield made


async def command(directory: Path, *words: str) -> dict[str, Any]:
    """Run ``holdfast authority …`` to its end and return what it printed."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "holdfast", "authority", *words, "--dir", str(directory), "--output", "json"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out, said = await asyncio.wait_for(process.communicate(), WAIT_S)
    assert out, said.decode()
    found: dict[str, Any] = {"exit": process.returncode, **json.loads(out)}
    return found


async def move_and_fall(directory: Path, to: str, step: str, fall: Callable[[int], object]) -> None:
    """Begin a move and call *fall* with the mover's pid when it says that it has taken *step*."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "holdfast", "authority", "move", "--to", to, "--dir", str(directory)),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    async with asyncio.timeout(WAIT_S):
        while line := await process.stderr.readline():
            if line.decode().startswith(step):
                fall(process.pid)
                break
        await process.stderr.read()
        await process.wait()


def pid_of(directory: Path) -> int:
    holder = holder_of(directory)
    assert holder is not None
    return holder.pid


async def settled(directory: Path) -> str:
    """Wait until the domain is at one authority, and return its kind."""
    async with asyncio.timeout(WAIT_S):
        while True:
            found = await command(directory, "where")
            if found["kind"] is not None:
                return str(found["kind"])
            await asyncio.sleep(0.2)


def test_a_domain_moves_to_and_fro_under_load_and_kills(
    domain: Domain, etcd_backend: EtcdBackend, rounds: Callable[..., int]
) -> None:
    """The mover, a host or the embedded authority is killed at a step; the domain ends at the old or the new
    authority, no acknowledged call is lost and none is executed twice; an undisturbed move ends where it
    should."""
    etcd = "etcd://" + ",".join(each.partition("://")[2] for each in etcd_backend.cluster.endpoints)
    directory = domain.directory

    async def work(client: Client) -> None:
        calls = {"ledger": Workload(await client.create("ledger"), callers=4)}
        kind = "sqlite"

        def kill_mover(pid: int) -> None:
            os.kill(pid, signal.SIGKILL)

        def kill_host(pid: int) -> None:
            os.kill(pid_of(directory / "hosts" / "host1"), signal.SIGKILL)

        def kill_authority(pid: int) -> None:
            os.kill(pid_of(directory / "authority"), signal.SIGKILL)

        falls = {"mover": kill_mover, "host": kill_host, "authority": kill_authority}
        all_falls = [(step, who) for step in STEPS for who in falls]
        chosen = all_falls if rounds(short=0, long=1) else [("verified", "mover")]
        async with calls["ledger"]:
            await calls["ledger"].more(20)
            for step, who in chosen:
                to = etcd if kind == "sqlite" else "sqlite"
                await move_and_fall(directory, to, step, falls[who])
                kind = await settled(directory)
                await calls["ledger"].more(20)
                if who == "mover" and step in UNDECIDED:
                    # Nobody finished it, so the hosts gave it up.
                    assert kind == ("sqlite" if to == etcd else "etcd")
            for to, expected in ((etcd, "etcd"), ("sqlite", "sqlite")):
                ended = await command(directory, "move", "--to", to)
                assert ended["exit"] == 0, ended
                assert await settled(directory) == expected
                await calls["ledger"].more(20)
            await client.kill_primary("ledger")
            await calls["ledger"].more(20)
        assert not calls["ledger"].unknown + calls["ledger"].refused
        status = await asyncio.to_thread(domain.wait, "whole again", is_whole)
        assert status["authority"]["kind"] == "sqlite"
        await check_members(client, calls)

    run(domain, work)
