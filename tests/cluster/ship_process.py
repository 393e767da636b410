"""A process that offers files, or one that fetches them, until it is done or killed.

    python ship_process.py offer DIRECTORY MANIFEST PORT BYTES_PER_S
    python ship_process.py fetch SHELF MANIFEST PORT

The first prints ``listening PORT`` and then ``sent BYTES`` whenever it has sent more; the second prints
``received BYTES`` likewise, ``damage FILE-AND-OFFSET`` when it finds some, and at last ``done`` or ``failed``
with the reason.
"""

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import uvloop

from holdfast.model.errors import HoldfastError
from holdfast.model.ids import HostId
from holdfast.net import Address, ConnectionSettings, DomainSecret, PeerIdentity, Role, serve
from holdfast.net.credentials import SECRET_BYTES
from holdfast.shipping.fetch import ShippingConfig
from holdfast.shipping.manifest import decode_manifest
from holdfast.shipping.service import SHIPPING_ADMITS, Fetcher, OfferServer

LOOK_S = 0.002
CONFIG = ShippingConfig(window_bytes=256 << 10, attempts_max=40, pause_most_ns=200_000_000)
SOURCE = HostId("source")
SECRET = DomainSecret("test", b"s" * SECRET_BYTES)


def say(line: str) -> None:
    os.write(1, f"{line}\n".encode())


async def tell(word: str, count: Callable[[], int]) -> None:
    """Print a count whenever it has changed."""
    said = 0
    while True:
        await asyncio.sleep(LOOK_S)
        if count() != said:
            said = count()
            say(f"{word} {said}")


def settings(host: str) -> ConnectionSettings:
    return ConnectionSettings(PeerIdentity("test", Role.HOST, host, 1), credentials=SECRET)


class Say:
    """A trace that prints damage."""

    def note(self, kind: str, **fields: object) -> None:
        if kind == "shipping-damage":
            say(f"damage {fields['damage']}")


async def offer(directory: Path, manifest: Path, port: int, bytes_per_s: int) -> None:
    offers = OfferServer(Say(), bytes_per_s=bytes_per_s)
    offers.offer(decode_manifest(manifest.read_bytes()), directory)
    server = await serve(
        Address("127.0.0.1", port), lambda _: offers, settings(SOURCE), admits=SHIPPING_ADMITS
    )
    say(f"listening {server.address.port}")
    await tell("sent", lambda: offers.bytes_sent)


async def fetch(shelf: Path, manifest: Path, port: int) -> None:
    fetcher = Fetcher(
        shelf,
        settings("fetcher"),
        lambda _: Address("127.0.0.1", port),
        Say(),
        lambda error: say(f"failed {error.code}"),
        random=Random(1),
        config=CONFIG,
        free_bytes_min=0,
    )
    telling = asyncio.ensure_future(
        tell("received", lambda: fetcher.progress[1].received if fetcher.progress is not None else 0)
    )
    try:
        progress = await fetcher.fetch(decode_manifest(manifest.read_bytes()), [SOURCE])
        say(f"done received {progress.received} found {progress.found}")
    except HoldfastError as error:
        say(f"failed {error}")
    finally:
        telling.cancel()
        await fetcher.close()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["offer", directory, manifest, port, rate]:
            uvloop.run(offer(Path(directory), Path(manifest), int(port), int(rate)))
        case ["fetch", shelf, manifest, port]:
            uvloop.run(fetch(Path(shelf), Path(manifest), int(port)))
