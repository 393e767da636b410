"""A program that runs a host that hangs. Usage: ``hanging_host.py DIR loop|sync|none``.

``loop``: its event loop enters an endless call once it serves. ``sync``: no disk sync ever ends. ``none``:
nothing hangs. The limits are shorter than in production, so that a test can wait for them.
"""

import asyncio
import os
import sys
import time
from pathlib import Path

from holdfast.model.ids import SECOND, HostId
from holdfast.node.heartbeats import HeartbeatConfig
from holdfast.node.host import Host
from holdfast.node.host_config import HostConfig
from holdfast.node.layout import Layout

LIMIT_S = 4
"""Longer than a busy machine keeps a loop waiting for its turn."""
LIMITS = HeartbeatConfig(hang_limit_ns=LIMIT_S * SECOND, sync_limit_ns=LIMIT_S * SECOND)
FOR_EVER_S = 600


async def main(directory: Path, what: str) -> None:
    layout = Layout(directory)
    if what == "sync":
        os.fdatasync = lambda descriptor: time.sleep(FOR_EVER_S)
    elif what == "loop":
        asyncio.get_running_loop().call_later(1.0, time.sleep, FOR_EVER_S)
    await Host(layout, layout.read(), HostId("host1"), config=HostConfig(heartbeats=LIMITS)).run()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
