"""A program that starts one host over and over and kills each at a random moment of its start.

Usage: ``host_lives.py DIR LIVES SEED``: DIR is a described domain whose authority runs. After each life it
prints one line of JSON: what the store's own record says, and the incarnation that the host recorded. It
imports once and forks, so that the kills hit the start of the host and not that of Python.
"""

import asyncio
import os
import random
import signal
import sys
import time
from pathlib import Path

import msgspec
import uvloop

from holdfast.model.ids import HostId
from holdfast.node.host import Host
from holdfast.node.layout import Layout
from holdfast.node.links import ADDRESS
from holdfast.node.store import STORE
from holdfast.storage.disk import Directory
from holdfast.storage.identity import load
from holdfast.storage.lock import DirectoryLock

HOST = HostId("host1")
LATEST_S = 0.25
"""By then a host serves, on a machine that is not busy."""
PATIENT = 3
"""Every third host is killed only once its store is open, however long that takes."""


def live(layout: Layout, output: int) -> None:
    os.dup2(output, 1)
    os.dup2(output, 2)

    async def main() -> None:
        await Host(layout, layout.read(), HOST).run()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


def main(directory: Path, lives: int, seed: int) -> None:
    layout = Layout(directory)
    moments = random.Random(seed)
    output = os.open(layout.output(HOST), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for life in range(lives):
        (layout.host(HOST) / ADDRESS).unlink(missing_ok=True)
        child = os.fork()
        if child == 0:
            try:
                live(layout, output)
            finally:
                os._exit(1)
        while life % PATIENT == 0 and not (layout.host(HOST) / ADDRESS).exists():
            time.sleep(0.001)
        time.sleep(moments.random() * LATEST_S)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        print(msgspec.json.encode(_found(layout.host(HOST), child)).decode(), flush=True)


def _found(directory: Path, child: int) -> dict[str, object]:
    lock = DirectoryLock.take(directory)
    last = lock.last_holder
    lock.release()
    store = load(Directory(directory / STORE)) if (directory / STORE).is_dir() else None
    return {
        "incarnation": last.incarnation if last is not None and last.pid == child else None,
        "store": store.store if store is not None else None,
        "opening": store.opening if store is not None else None,
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
