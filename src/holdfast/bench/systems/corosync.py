"""The peer corosync: three daemons of one machine, and C clients of its closed process groups (CPG).

Each daemon has a mount and a UTS namespace of its own, so that its IPC sockets and files are its own, and is
found in the list of nodes by its name; they talk over loopback addresses with knet, without encryption. The
client (``cpg_client.c``) only counts, or unpacks each record and calls a function with it. That takes root.
"""

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from holdfast.bench.systems import Absent

NODES: Final = 3
START_S: Final = 30.0
RUN_S: Final = 150.0
CLIENT: Final = Path(__file__).with_name("cpg_client.c")
WINDOW: Final = 64
"""How many messages of a sender are under way at once."""

CONFIG: Final = """totem {
  version: 2
  cluster_name: bench
  transport: knet
  crypto_cipher: none
  crypto_hash: none
}
nodelist {
%s}
logging {
  to_stderr: yes
  to_syslog: no
}
"""
NODE: Final = "  node {\n    ring0_addr: 127.0.0.%d\n    nodeid: %d\n    name: n%d\n  }\n"
START: Final = """set -e
hostname "$2"
mount -t tmpfs none /run
cp "$1/corosync.conf" "$1/cpg_client" /run/
mkdir -p /run/libqb /run/lib /etc/libqb /var/lib/corosync
touch /run/libqb/force-filesystem-sockets
mount --bind /run/libqb /etc/libqb
mount --bind /run/lib /var/lib/corosync
mount -t tmpfs none /dev/shm
mount -t tmpfs none /tmp
exec corosync -f -c /run/corosync.conf
"""


@dataclass(frozen=True, slots=True)
class Delivered:
    """One run: how fast every member had everything, and what it cost."""

    rate: float
    """Records per second delivered at every member, by the slowest."""
    per_cpu_s: float
    """Deliveries, at all members, for each CPU second of daemons and clients."""
    p50_us: float = 0.0
    p99_us: float = 0.0
    """From sending a message until it is delivered, at the member where that takes longest."""


@asynccontextmanager
async def running(directory: Path) -> AsyncIterator["Corosync"]:
    """Three daemons that have found each other. Raises :class:`Absent`."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if shutil.which("corosync") is None or compiler is None:
        raise Absent("no corosync or no C compiler here (Debian: apt-get install corosync libcpg-dev gcc)")
    if os.geteuid() != 0:
        raise Absent("three corosync daemons of one machine need root, for namespaces of their own")
    client = directory / "cpg_client"
    made = await asyncio.create_subprocess_exec(
        compiler, "-O2", "-o", str(client), str(CLIENT), "-lcpg", stderr=asyncio.subprocess.PIPE
    )
    _, said = await made.communicate()
    if made.returncode:
        raise Absent(
            f"the client does not compile (Debian: apt-get install libcpg-dev): {said.decode()[-200:]}"
        )
    nodes = "".join(NODE % (each, each, each) for each in range(1, NODES + 1))
    (directory / "corosync.conf").write_text(CONFIG % nodes)
    (directory / "start.sh").write_text(START)
    daemons = []
    try:
        for node in [f"n{number}" for number in range(1, NODES + 1)]:
            words = ("unshare", "-m", "-u", "sh", str(directory / "start.sh"), str(directory), node)
            with (directory / f"{node}.log").open("wb") as log:
                daemons.append(await asyncio.create_subprocess_exec(*words, stdout=log, stderr=log))
        await _joined(directory)
        yield Corosync([each.pid for each in daemons])
    finally:
        for each in daemons:
            with suppress(ProcessLookupError):
                each.send_signal(signal.SIGKILL)
            await each.wait()


async def _joined(directory: Path) -> None:
    """Wait until each daemon knows all of them."""
    wanted = "Sync members[3]: 1 2 3"
    try:
        async with asyncio.timeout(START_S):
            logs = [directory / f"n{each}.log" for each in range(1, NODES + 1)]
            while not all(wanted in each.read_text(errors="replace") for each in logs):
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise Absent(f"the daemons did not find each other within {START_S:g} s") from None


class Corosync:
    """Three daemons that run."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._pids = pids

    async def run(
        self,
        group: str,
        *,
        records: int,
        record_bytes: int,
        batch: int,
        unpacks: bool,
        senders: int = 1,
        rate: int = 0,
    ) -> Delivered:
        """Let clients at every node take *records* of each sender, who sends *rate* messages a second, or as
        fast as it goes. Raises ``OSError`` if one does not."""
        before = sum(map(cpu_s, self._pids))
        words = [group, NODES, records, record_bytes, batch, WINDOW, int(unpacks), senders, rate]
        clients = [
            await asyncio.create_subprocess_exec(
                *("nsenter", "-t", str(pid), "-m", "-u", "/run/cpg_client", *map(str, words), str(index)),
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            for index, pid in enumerate(self._pids)
        ]
        async with asyncio.timeout(RUN_S):
            told = [await each.communicate() for each in clients]
        if any(each.returncode for each in clients):
            raise OSError(f"a client failed: {[each[1].decode()[-100:] for each in told]}")
        rows = [[float(word) for word in out.split()] for out, _ in told]
        spent = sum(map(cpu_s, self._pids)) - before + sum(row[2] for row in rows)
        return Delivered(
            rate=records * senders / max(max(row[1] for row in rows), 1e-6),
            per_cpu_s=sum(row[0] for row in rows) / max(spent, 1e-6),
            p50_us=max(row[3] for row in rows),
            p99_us=max(row[4] for row in rows),
        )


def cpu_s(pid: int) -> float:
    """The CPU time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
