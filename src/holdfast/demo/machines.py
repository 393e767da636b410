"""The demo on three machines: network namespaces of this one, each with a host, by TLS, joined by a network
that delays, loses and cuts.

The callers are in a namespace of their own, and so is, while the demo runs, the thread that runs it. The
authority is SQLite on the first machine, or an etcd with a member on each.
"""

import asyncio
import datetime
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from holdfast.agent.machine_setup import found_or_join, new_machine
from holdfast.agent.status_client import signal_holder, status_of
from holdfast.client.domain import Domain, connect
from holdfast.demo.domain import START_S, LocalDomain
from holdfast.demo.faults import Kind, PrimaryFaults
from holdfast.demo.network.control import FaultProcessFailed
from holdfast.demo.network.internet import Internet
from holdfast.demo.network.tun import entered
from holdfast.model.errors import Unavailable
from holdfast.model.ids import HostId
from holdfast.net import Role
from holdfast.net.certificates import create_domain, issue, issue_machine
from holdfast.node.layout import Layout

MACHINES: Final = ("m1", "m2", "m3")
CALLERS: Final = "callers"
DOMAIN: Final = "demo"
AUTHORITY_PORT, ETCD_PORT, ETCD_PEER_PORT = 7401, 2379, 2380
DELAY_MS: Final = 20.0
"""The delay of every packet, each way: machines in two cities."""
LOSS: Final = 0.01
"""The share of packets that is lost while a cut lasts and after it, until the next fault."""
CUT_S: Final = 2.0
"""Past leases and graces."""
STOP_S: Final = 60.0
POLL_S: Final = 0.1
KINDS: Final[tuple[Kind, ...]] = ("kill", "cut", "kill", "cut_one_way")
"""The faults, in turn."""


class MachinesDomain(LocalDomain):
    """A domain on the ``MACHINES`` of *net*, with its files below *directory*."""

    def __init__(self, directory: Path, net: Internet) -> None:
        super().__init__(directory / MACHINES[0])
        self.net = net
        self._directory = directory
        self._certs = directory / "certs"
        self._agents: dict[str, subprocess.Popen[Any]] = {}

    def files(self, host: HostId) -> Path:
        return self._layout(host).host(host)

    async def client(self) -> Domain:
        return connect(await self.url(), certs=self._certs, name=CALLERS)

    def signal(self, host: HostId, number: Any) -> bool:
        return signal_holder(self.files(host), number)

    async def start(self, app: Path, *, with_etcd: bool, on_stage: Callable[[str], None]) -> None:
        """Make the machines, let them join, and wait until their hosts live. Raises ``Unavailable``."""
        now = datetime.datetime.now(datetime.UTC)
        create_domain(self._certs, DOMAIN, now)
        issue(self._certs, Role.CLIENT, CALLERS, now)
        if with_etcd:
            on_stage("starting an etcd on three machines")
            self._start_etcd()
        url = self._url(with_etcd=with_etcd)
        for machine in MACHINES:
            on_stage(f"{machine} joins")
            certs = self._directory / f"certs-{machine}"
            issue_machine(
                self._certs,
                machine,
                now,
                to=certs,
                hosts=[machine],
                location=f"demo/{machine}",
                with_authority=machine == MACHINES[0] and not with_etcd,
            )
            description = new_machine(
                url, listen=self.net.address(machine), location=f"demo/{machine}", certs=certs, app=app
            )
            joining = found_or_join(self._layout(machine), description)
            await asyncio.to_thread(self.net.inside, machine, lambda work=joining: asyncio.run(work))
            self._start_agent(machine)
        await self._wait_alive(on_stage)

    async def stop(self) -> None:
        # The first machine is the last: hosts close their sessions with the authority there.
        for machines in (MACHINES[1:], MACHINES[:1]):
            agents = [self._agents.pop(each) for each in machines if each in self._agents]
            for agent in agents:
                agent.terminate()
            for agent in agents:
                await asyncio.to_thread(agent.wait, STOP_S)

    def set_weather(self, loss: float) -> None:
        """Mend every cut; from now on packets are delayed, and that share of them is lost."""
        self.net.heal()
        self.net.set(delay_ms=DELAY_MS, loss=loss)

    def _layout(self, machine: str) -> Layout:
        return Layout(self._directory / machine)

    def _url(self, *, with_etcd: bool) -> str:
        if not with_etcd:
            return f"holdfast://{self.net.address(MACHINES[0])}:{AUTHORITY_PORT}/{DOMAIN}"
        endpoints = ",".join(f"{self.net.address(each)}:{ETCD_PORT}" for each in MACHINES)
        return f"etcd://{endpoints}/{DOMAIN}"

    def _start_agent(self, machine: str) -> None:
        layout = self._layout(machine)
        command = [sys.executable, "-P", "-m", "holdfast", "agent", "--dir", str(layout.directory)]
        with layout.output("agent").open("ab") as output:
            self._agents[machine] = self.net.run(
                machine, [*command, "--with-parent", str(os.getpid())], stdout=output, stderr=output
            )

    def _start_etcd(self) -> None:
        program = shutil.which("etcd")
        if program is None:
            raise Unavailable("there is no etcd on this machine to use with --etcd")
        at = {each: f"http://{self.net.address(each)}" for each in MACHINES}
        cluster = ",".join(f"{each}={url}:{ETCD_PEER_PORT}" for each, url in at.items())
        for machine, url in at.items():
            options = {
                "name": machine,
                "data-dir": str(self._directory / f"etcd-{machine}"),
                "listen-client-urls": f"{url}:{ETCD_PORT}",
                "advertise-client-urls": f"{url}:{ETCD_PORT}",
                "listen-peer-urls": f"{url}:{ETCD_PEER_PORT}",
                "initial-advertise-peer-urls": f"{url}:{ETCD_PEER_PORT}",
                "initial-cluster": cluster,
                # Before 3.5 this is off, and a member that does not hear the leader stops the others for as
                # long, by one election after the other.
                "pre-vote": "true",
            }
            command = [program, *(f"--{name}={value}" for name, value in options.items())]
            with (self._directory / f"etcd-{machine}.log").open("wb") as output:
                self.net.run(machine, command, stdout=output, stderr=output)

    async def _wait_alive(self, on_stage: Callable[[str], None]) -> None:
        alive, said = 0, -1
        try:
            async with asyncio.timeout(START_S):
                while alive < len(MACHINES):
                    status = await status_of(self.layout, self.layout.read())
                    alive = sum(host.alive for machine in status.machines for host in machine.hosts)
                    if alive != said:
                        said = alive
                        on_stage(f"starting three machines: {alive} of {len(MACHINES)} hosts live")
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            raise Unavailable(f"only {alive} of {len(MACHINES)} hosts lived after {START_S:g} s") from None


class MachineFaults(PrimaryFaults):
    """Kills the primary, cuts it off from one backup, or lets one of the two not hear the other."""

    def __init__(self, domain: MachinesDomain, *args: Any, **kwargs: Any) -> None:
        super().__init__(domain, *args, **kwargs)
        self._machines = domain

    def _kind(self, number: int) -> Kind:
        return KINDS[(number - 1) % len(KINDS)]

    async def _inflict(self, kind: Kind, host: HostId) -> bool:
        if kind not in ("cut", "cut_one_way"):
            self._machines.set_weather(0.0)  # so that the time of a failover is that of the failover
            return await super()._inflict(kind, host)
        other = next(each for each in MACHINES if each != host)
        self._machines.set_weather(LOSS)
        self._machines.net.cut(host, other, one_way=kind == "cut_one_way")
        return True

    async def _relieve(self, kind: Kind, host: HostId) -> None:
        if kind not in ("cut", "cut_one_way"):
            await super()._relieve(kind, host)
            return
        try:
            await asyncio.sleep(CUT_S)
        finally:
            self._machines.set_weather(LOSS)


@asynccontextmanager
async def machines_domain(
    app: Path, *, with_etcd: bool, on_stage: Callable[[str], None]
) -> AsyncIterator[MachinesDomain]:
    """Make three machines and a domain on them, which are gone afterwards.

    Raises ``Unavailable`` where this machine may not make network namespaces.
    """
    directory = Path(tempfile.mkdtemp(prefix="holdfast-machines-"))
    try:
        try:
            net = Internet((*MACHINES, CALLERS), seed=1).__enter__()
        except (FaultProcessFailed, OSError) as error:
            raise Unavailable(
                f"this machine cannot make network namespaces, which takes root and /dev/net/tun: {error}"
            ) from None
        domain = MachinesDomain(directory, net)
        try:
            with entered(net.namespace(CALLERS)):
                domain.set_weather(0.0)
                await domain.start(app, with_etcd=with_etcd, on_stage=on_stage)
                try:
                    yield domain
                finally:
                    await asyncio.shield(domain.stop())
        finally:
            net.__exit__(None, None, None)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
