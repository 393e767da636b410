"""Where a host listens: at first wherever there is room, from then on always there, if it can.

Nothing rests on it while one host is there to say where the others are. After all of them were gone at once,
clients know no more than where they were.
"""

import os
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

from holdfast.machine.privacy import open_private
from holdfast.model.errors import InvalidRequest, Unavailable
from holdfast.net import Address
from holdfast.storage.volume import translated

ADDRESS: Final = "address"
"""The file in the host's directory that says where it listened last."""
PORTS: Final = range(20_000, 32_000)
"""Below those that systems give to connections that go out: one of these would sit on the port of a host that
is down, and the host would have to go elsewhere."""
TRIES_MAX: Final = 20

Listening = TypeVar("Listening")


async def listen(
    at: Address, directory: Path, serve: Callable[[Address], Awaitable[Listening]], file: str = ADDRESS
) -> Listening:
    """Listen at *at*; if it leaves the port open, where the last process in *directory* did, or where there
    is room. *file* says where that was. Raises ``Unavailable``."""
    if at.port:
        return await serve(at)
    last = remembered(directory, file)
    if last is not None and last.host == at.host:
        with suppress(Unavailable):
            return await serve(last)
    for _ in range(TRIES_MAX):
        with suppress(Unavailable):
            return await serve(Address(at.host, secrets.choice(PORTS)))
    return await serve(at)


def remembered(directory: Path, file: str = ADDRESS) -> Address | None:
    """Where the host of *directory* listened last, or listens; None when nothing is known of it."""
    try:
        return Address.parse((directory / file).read_text(encoding="ascii").strip())
    except (OSError, UnicodeDecodeError, InvalidRequest):
        return None


def remember(address: Address, directory: Path, file: str = ADDRESS) -> None:
    """Keep *address* for the next process, through a power cut too. Raises ``NoSpace`` or ``DiskFailed``: a
    disk that fails its host once fails it for good, whatever for (D1)."""
    if remembered(directory, file) == address:
        return
    try:
        _replace(directory, file, str(address))
    except OSError as error:
        raise translated(error, str(directory / file)) from error


def _replace(directory: Path, file: str, text: str) -> None:
    aside = directory / f"{file}.new"
    with open_private(aside, os.O_WRONLY | os.O_TRUNC) as written:
        written.write(text.encode("ascii"))
        written.flush()
        os.fsync(written.fileno())
    aside.replace(directory / file)
    names = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(names)
    finally:
        os.close(names)
