"""A program that runs a host on a separate machine. Usage: ``spread_host.py DIR ID ADDRESS``.

The machines are namespaces of one test: nobody else can listen to their messages, so they send them without
TLS.
"""

import asyncio
import sys
from pathlib import Path

from holdfast.machine import log_to_stderr
from holdfast.model.ids import HostId
from holdfast.net import Address, tcp
from holdfast.node.host import Host
from holdfast.node.layout import Layout


async def main(directory: Path, host: str, address: str) -> None:
    layout = Layout(directory)
    await Host(layout, layout.read(), HostId(host), listen=Address(address, 0)).run()


if __name__ == "__main__":
    tcp.require_safe = lambda *_, **__: None
    log_to_stderr("info")
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
