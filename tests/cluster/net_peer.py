"""A process at the other end of a connection, for tests that stop, kill or starve it.

``python net_peer.py MODE``: prints its port, then serves. Modes: ``echo`` answers every frame with itself;
``deaf`` keeps the first frames in an inbox that nobody empties.
"""

import asyncio
import sys

import structlog
import uvloop

from holdfast.net import (
    Address,
    Connection,
    ConnectionSettings,
    DomainSecret,
    Inbox,
    Kind,
    Limits,
    PeerIdentity,
    Reason,
    Receiver,
    Role,
    serve,
)
from holdfast.net.credentials import SECRET_BYTES

IDLE_S = 1.0
SECRET = DomainSecret("test", b"s" * SECRET_BYTES)
PEER = ConnectionSettings(
    PeerIdentity("test", Role.HOST, "peer"), limits=Limits(idle_s=IDLE_S), credentials=SECRET
)

ADMITS = {kind: frozenset(Role) for kind in Kind}


class Echo:
    def on_frame(self, connection: Connection, kind: Kind, payload: bytes) -> None:
        connection.send(kind, payload)

    def on_closed(self, connection: Connection, reason: Reason) -> None:
        print(f"closed {reason.why}", flush=True)


def receiver(mode: str) -> Receiver:
    return Echo() if mode == "echo" else Inbox(frames_max=10)


async def main(mode: str) -> None:
    server = await serve(Address("127.0.0.1", 0), lambda _: receiver(mode), PEER, admits=ADMITS)
    print(server.address.port, flush=True)
    await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    uvloop.run(main(sys.argv[1]))
