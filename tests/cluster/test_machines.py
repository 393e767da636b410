"""A domain on several machines: they renew certificates, move, leave and are given up while it is called.

The tests share one domain and run in the order of this file: machines that have left stay away.
"""

import asyncio
import contextlib
import json
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from domain import HOLDFAST, WAIT_S
from faults.machine import require_tun
from spread_domain import AUTHORITY, HOSTS, MACHINES, NAME, SpreadClient, SpreadDomain

from holdfast.calling.config import CallPolicy
from holdfast.cli import hosts, machine
from holdfast.cli.domain import status
from holdfast.cli.where import Where
from holdfast.client.domain import connect
from holdfast.client.proxy import Group
from holdfast.demo.network.internet import Internet
from holdfast.model.errors import InvalidRequest, Unavailable
from holdfast.model.ids import SECOND, HostId
from holdfast.net.certificates import create_domain, issue_machine

SPARE = "d"
GROUP = "moved"
BRIEF = CallPolicy(duration_ns=SECOND)

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def domain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SpreadDomain]:
    require_tun()
    directory = tmp_path_factory.mktemp("machines")
    with Internet((*MACHINES, SPARE), seed=1) as net, SpreadDomain(net, directory) as made:
        yield made


def test_who_is_not_of_the_domain_is_refused_with_the_reason(domain: SpreadDomain) -> None:
    """Plain TCP, and a machine with certificates that another authority signed for the same names."""

    async def plainly(client: SpreadClient) -> None:
        url = f"holdfast://{await client.address(HostId('a'))}/{NAME}"
        with pytest.raises(InvalidRequest, match="it needs TLS"):
            async with connect(url, policy=BRIEF):
                pass

    domain.call(plainly)
    forged = domain.directory / "forged"
    create_domain(forged, NAME, domain.now())
    certs = domain.certs(SPARE)
    issue_machine(forged, SPARE, domain.now(), to=certs, hosts=[SPARE], location=f"rack1/{SPARE}")
    with pytest.raises(Unavailable) as caught:
        domain.init(SPARE)
    said = str(caught.value)
    assert f"admin {SPARE} to {domain.net.address(AUTHORITY)}" in said
    assert "certificate" in said
    assert not domain.layout(SPARE).exists
    for file in certs.iterdir():
        file.unlink()


def test_certificates_are_renewed_under_load(domain: SpreadDomain) -> None:
    """All machines and the callers get new ones; every process uses them, and no call fails."""

    async def work(client: SpreadClient) -> None:
        ledger = await client.create(GROUP)
        async with Steadily(ledger) as calls:
            await calls.more(20)
            for each in (AUTHORITY, *HOSTS):
                domain.make_certificates(each, renew=True)
            domain.make_callers_certificates(renew=True)
            processes = [(AUTHORITY, "agent")]
            processes += [(host, process) for host in HOSTS for process in ("agent", host)]
            outputs = [domain.layout(each).output(process) for each, process in processes]
            said = "renewed certificates are in use"
            await _until(lambda: all(said in output.read_text(errors="replace") for output in outputs))
            await calls.more(50)

    domain.call(work)


def test_machines_move_to_other_addresses(domain: SpreadDomain, rounds: Callable[..., int]) -> None:
    """One after the other, while a client calls that knew none of the new addresses; then all at once, the
    authority's too, while everything is stopped."""

    async def work(client: SpreadClient) -> None:
        ledger = await client.group(GROUP)
        async with Steadily(ledger) as calls:
            for host in HOSTS[: rounds(short=1, long=3)]:
                await calls.more(10)
                _, port = (await client.address(HostId(host))).split(":")
                await asyncio.to_thread(_move, domain, host)
                await client.wait_in_sync(GROUP)
                assert await client.address(HostId(host)) == f"{domain.net.address(host)}:{port}"
            await calls.more(10)

    domain.call(work)
    domain.stop(*HOSTS)
    domain.stop(AUTHORITY)
    for each in (AUTHORITY, *HOSTS):
        domain.readdress(each)
    for host in HOSTS:
        domain.command(host, machine.set_, domain=domain.url)
    for each in (AUTHORITY, *HOSTS):
        domain.start(each)

    async def after(client: SpreadClient) -> None:
        ledger = await client.group(GROUP)
        assert await ledger.deposit("after", 1) == 1

    domain.call(after)


def test_a_machine_joins_one_leaves_and_one_is_given_up(
    domain: SpreadDomain, capsys: pytest.CaptureFixture[str]
) -> None:
    """Members move before a machine leaves; what was acknowledged stays; neither machine comes back."""
    domain.make_certificates(SPARE)
    domain.init(SPARE)
    domain.start(SPARE)

    async def work(client: SpreadClient) -> None:
        ledger = await client.group(GROUP)
        async with Steadily(ledger) as calls:
            await calls.more(5)
            # An earlier attempt was interrupted after it had emptied and removed the host.
            target = Where(dir=domain.layout("c").directory)
            await asyncio.to_thread(domain.command, "c", hosts.drain, host="c", at=target)
            await asyncio.to_thread(domain.command, "a", hosts.remove, host="c", yes=True)
            await asyncio.to_thread(domain.command, "c", machine.leave, yes=True)
            # And once more, when all that is left is to stop processes.
            await asyncio.to_thread(domain.command, "c", machine.leave, yes=True)
            await calls.more(5)
        found = await client.wait_in_sync(GROUP)
        assert set(found.placed_on) == {"a", "b", SPARE}

    domain.call(work, hosts=("a", "b"))
    assert "c: it is empty" in capsys.readouterr().err
    domain.forget("c")
    again = domain.net.command("c", [*HOLDFAST, "up", "--detach", "--dir", str(domain.layout("c").directory)])
    refused = subprocess.run(again, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert refused.returncode == 1
    assert "machine c was removed from the domain" in refused.stderr

    with pytest.raises(InvalidRequest, match="b lives"):
        domain.command("a", machine.remove, machine="b", yes=True)
    domain.stop("b")
    capsys.readouterr()
    domain.command("a", machine.remove, machine="b", dry_run=True, output="json")
    loss = json.loads(capsys.readouterr().out)
    assert (loss["machine"], loss["hosts"], loss["removed"]) == ("b", ["b"], False)
    assert loss["members"] >= 1
    domain.command("a", machine.remove, machine="b", yes=True)
    capsys.readouterr()
    domain.command("a", machine.list_, output="json")
    listed = json.loads(capsys.readouterr().out)
    assert [each["machine"] for each in listed["machines"]] == ["a", AUTHORITY, SPARE]
    domain.command("a", status, at=Where(dir=domain.layout("a").directory))
    shown = capsys.readouterr().out
    assert f"{SPARE} at rack1/{SPARE}: 1 of 1 hosts live" in shown
    assert "if its disk is lost the domain is lost with it" in shown


def _move(domain: SpreadDomain, host: str) -> None:
    domain.stop(host)
    domain.readdress(host)
    domain.start(host)


class Steadily:
    """Deposits again and again, with pauses: machines are started meanwhile, and need the processor too."""

    def __init__(self, ledger: Group[Any]) -> None:
        self._ledger = ledger
        self.balance = 0

    async def __aenter__(self) -> "Steadily":
        self._task = asyncio.create_task(self._call())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task  # raises the error of a call that failed

    async def more(self, calls: int) -> None:
        goal = self.balance + calls
        await _until(lambda: self.balance >= goal or self._task.done())
        assert not self._task.done(), self._task.exception()

    async def _call(self) -> None:
        last = await self._ledger.balance("steady")
        while True:
            self.balance = await self._ledger.deposit("steady", 1)
            assert self.balance == last + 1, "a deposit was lost or made twice"
            last = self.balance
            await asyncio.sleep(0.02)


async def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.1)
