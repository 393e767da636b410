"""Fills a new master from LDIF in a process of its own: ``python -m ...loading DIRECTORY SUFFIX FILE``.

Entries go the way of clients' adds: each is judged, gets its CSN and its place in the changelog. Nobody waits
for each sync: the store commits together what has gathered.
"""

import asyncio
import sys
from pathlib import Path
from typing import Final

import uvloop

from holdfast.bench.directories import ADMIN, PASSWORD
from holdfast.directory.ldif import EntryRecord, read_ldif
from holdfast.directory.master import Master
from holdfast.directory.operations import AddRequest
from holdfast.model.csn import Csn
from holdfast.model.errors import DiskFailed

PENDING_MAX: Final = 1_000
"""How many entries may be on their way to the disk."""
PASSWORD_ROUNDS: Final = 10_000


async def load(directory: Path, suffix: str, file: Path) -> int:
    """Return how many entries were added; the suffix's own is made with the master."""
    master = await Master.open(directory, suffix)
    replica, room, added = master.replica, asyncio.Event(), 0

    def on_disk(csn: Csn) -> None:
        room.set()

    async def until_pending_is(most: int) -> None:
        while replica.pending > most:
            if master.failed.done():
                raise DiskFailed(master.failed.result())
            room.clear()
            await asyncio.wait(
                (asyncio.ensure_future(room.wait()), master.failed), return_when="FIRST_COMPLETED"
            )

    try:
        await master.plant(PASSWORD.encode(), rounds=PASSWORD_ROUNDS)
        with file.open("rb") as data:
            for record in read_ldif(iter(lambda: data.read(1 << 16), b"")):
                if not isinstance(record, EntryRecord) or record.dn == replica.suffix:
                    continue
                replica.execute(AddRequest(record.dn, record.attributes), ADMIN, on_disk)
                added += 1
                await until_pending_is(PENDING_MAX)
        await until_pending_is(0)
    finally:
        master.close()
    return added


if __name__ == "__main__":
    print(uvloop.run(load(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))))
