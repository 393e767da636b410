"""Measures a host that becomes unreachable: it is in its own network namespace, whose link goes down.

Two namespaces are joined by a pair of virtual links. One has the authority, two hosts and the callers, the
other has the third host. They talk over addresses of the loopback net, which these namespaces carry to each
other, so nothing can be heard outside and no certificates are needed. There are no agents, so nobody can
prove a death: the only sign is silence.

``python -m holdfast.bench.measuring.cut_host measure DIRECTORY ROUNDS`` measures, within the first namespace,
and prints JSON; ``... host DIRECTORY ID ADDRESS`` runs a host.
"""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import msgspec
import uvloop

from holdfast.bench import Progress
from holdfast.bench.measuring.access import started
from holdfast.bench.measuring.harm import Subject, Times, connected
from holdfast.bench.objects import CLASSES
from holdfast.machine import MachineClock
from holdfast.machine.process_end import end_with
from holdfast.model.errors import Unavailable
from holdfast.model.ids import HostId
from holdfast.net import Address
from holdfast.node.host import Host
from holdfast.node.layout import Description, Layout
from holdfast.node.links import remembered

NEAR, FAR = "near", "far"
ADDRESSES: Final = {NEAR: "127.77.0.1", FAR: "127.77.0.2"}
PREFIX_BITS: Final = 24
AUTHORITY_PORT: Final = 7400
HOSTS: Final = {HostId("near1"): NEAR, HostId("near2"): NEAR, HostId("far"): FAR}
VICTIM: Final = HostId("far")
NOBODY: Final = "127.0.0.1:1"
START_S: Final = 60.0
POLL_S: Final = 0.02

_clock = MachineClock()


class Namespaces:
    """Two network namespaces of this process, joined by a link.

    Raises ``Unavailable`` where they cannot be made.
    """

    def __init__(self) -> None:
        if shutil.which("ip") is None:
            raise Unavailable("there is no `ip` to make network namespaces with")
        self.names = {side: f"holdfast-{os.getpid()}-{side}" for side in (NEAR, FAR)}

    @contextmanager
    def made(self) -> Iterator[None]:
        try:
            for side, name in self.names.items():
                _ip("netns", "add", name)
                # One address and not the whole net: the rest of it is on the other side of the link.
                _ip("-n", name, "addr", "add", "127.0.0.1/32", "dev", "lo")
                _ip("-n", name, "link", "set", "lo", "up")
                _ip("-n", name, "addr", "del", "127.0.0.1/8", "dev", "lo", may_fail=True)
                self.run(side, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/conf/all/route_localnet")
            near, far = (self.names[side] for side in (NEAR, FAR))
            _ip("link", "add", _link(NEAR), "netns", near, "type", "veth", "peer", _link(FAR), "netns", far)
            for side, name in self.names.items():
                _ip("-n", name, "addr", "add", f"{ADDRESSES[side]}/{PREFIX_BITS}", "dev", _link(side))
                _ip("-n", name, "link", "set", _link(side), "up")
            yield
        finally:
            for name in self.names.values():
                _ip("netns", "del", name, may_fail=True)

    def run(self, side: str, *command: str) -> None:
        _ip("netns", "exec", self.names[side], *command)

    def inside(self, side: str, command: Sequence[str]) -> list[str]:
        """Return *command* in the form that runs it on that side."""
        return ["ip", "netns", "exec", self.names[side], *command]


def measure_unreachable(directory: Path, rounds: int, progress: Progress) -> list[Times]:
    """Take the third host's link down, *rounds* times. Raises ``Unavailable`` where that cannot be done."""
    spaces = Namespaces()
    with ExitStack() as stack:
        stack.enter_context(spaces.made())
        description = _described(directory)
        for name, side, command in _processes(directory, description):
            stack.enter_context(_running(spaces.inside(side, command), directory / f"{name}.out"))
        measuring = [sys.executable, "-m", __spec__.name, "measure", str(directory), str(rounds)]
        return _told(spaces.inside(NEAR, measuring), progress)


def _described(directory: Path) -> Description:
    layout = Layout(directory / "domain")
    description = Description(
        domain=f"apart-{os.getpid()}",
        hosts=tuple(HOSTS),
        agent_address=NOBODY,
        authority_address=f"{ADDRESSES[NEAR]}:{AUTHORITY_PORT}",
        app=str(directory),
        allowed_classes=CLASSES,
    )
    layout.directory.mkdir(parents=True, exist_ok=True)
    layout.write(description)
    layout.prepare(description)
    return description


def _processes(directory: Path, description: Description) -> Iterator[tuple[str, str, list[str]]]:
    """Yield the processes to run: the name, the side, and the command of each."""
    layout = Layout(directory / "domain")
    authority = [*(sys.executable, "-m", "holdfast", "authority", "serve"), "--dir", str(layout.authority)]
    options = ["--listen", str(description.authority_address), "--domain", description.domain]
    options += ["--secret-dir", str(layout.directory)]
    yield "authority", NEAR, [*authority, *options]
    for host, side in HOSTS.items():
        run = [sys.executable, "-m", __spec__.name, "host", str(directory), host, ADDRESSES[side]]
        yield host, side, run


@contextmanager
def _running(command: Sequence[str], output: Path) -> Iterator[None]:
    with output.open("wb") as out:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _told(command: Sequence[str], progress: Progress) -> list[Times]:
    """Return what the process within the namespace found; what it writes to stderr is progress."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        said = []
        for line in process.stderr:
            said.append(line.rstrip())
            progress(said[-1])
        found = process.stdout.read()
    if process.returncode != 0:
        raise Unavailable(f"the measurement in the namespace failed: {' '.join(said[-3:])}")
    return msgspec.json.decode(found, type=list[Times])


def _link(side: str) -> str:
    return f"hf-{side}"


def _ip(*words: str, may_fail: bool = False) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode != 0 and not may_fail:
        raise Unavailable(f"`ip {' '.join(words)}` failed: {done.stderr.strip()}")


# --- within the namespaces


async def _measure(directory: Path, rounds: int) -> list[Times]:
    layout = Layout(directory / "domain")
    description = started(layout.read(), layout)
    addresses = [await _address(layout, host) for host in HOSTS]
    url = f"holdfast://{','.join(map(str, addresses))}/{description.domain}"
    near = [address for address, side in zip(addresses, HOSTS.values(), strict=True) if side == NEAR]
    found = []
    async with connected(url, description, near, directory) as made:
        for number in range(rounds):
            found.append(await _cut(made))
            print(f"link down {number + 1} of {rounds}: {found[-1].detected_ms:.0f} ms", file=sys.stderr)
            sys.stderr.flush()
    return found


async def _cut(made: Subject) -> Times:
    await made.whole()
    if (await made.info()).primary != VICTIM:
        await made.group.set_primary(VICTIM)
    before = await made.whole()
    harmed_ns = _clock.now()
    _ip("link", "set", _link(NEAR), "down")
    try:
        return await made.times(harmed_ns, await made.superseded_ns(before))
    finally:
        _ip("link", "set", _link(NEAR), "up")


async def _address(layout: Layout, host: HostId) -> Address:
    async with asyncio.timeout(START_S):
        while (address := remembered(layout.host(host))) is None:
            await asyncio.sleep(POLL_S)
        return address


async def _host(layout: Layout, host: HostId, listen: str) -> None:
    await Host(layout, msgspec.structs.replace(layout.read(), listen=listen), host).run()


def main(what: str, directory: str, *rest: str) -> None:
    if what == "measure":
        found = uvloop.run(_measure(Path(directory), int(rest[0])))
        sys.stdout.buffer.write(msgspec.json.encode(found))
        return
    end_with(os.getppid(), signal.SIGKILL)
    uvloop.run(_host(Layout(Path(directory) / "domain"), HostId(rest[0]), rest[1]))


if __name__ == "__main__":
    main(*sys.argv[1:])
