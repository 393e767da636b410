"""Writes numbered transactions to a directory's store on LMDB, and says which are committed. Run by a test.

``directory_store_writer.py DIRECTORY``: each transaction has one row in each of two maps. Says ``N`` when the
store says that transaction N is on the disk, and ends when a commit fails.
"""

import queue
import sys
from pathlib import Path

from holdfast.directory.lmdb_store import LmdbStore
from holdfast.directory.store import Batch

MAPS = ("entries", "changes")
IN_FLIGHT = 8
"""Transactions that wait at once, so that several are committed as one."""


def key(number: int) -> bytes:
    return number.to_bytes(8, "big")


def value(number: int) -> bytes:
    return key(number) * (1 + number % 700)


def main() -> int:
    posted: queue.SimpleQueue = queue.SimpleQueue()
    told: list[tuple[int, bool]] = []
    store = LmdbStore(Path(sys.argv[1]), MAPS, lambda token, ok: told.append((token, ok)), posted.put)
    with store.read() as reader:
        last = next(reader.rows("entries", is_reversed=True), None)
    first = number = 1 if last is None else int.from_bytes(last[0], "big") + 1
    while True:
        while number - first - len(told) < IN_FLIGHT:
            batch = Batch()
            for name in MAPS:
                batch.put(name, key(number), value(number))
            store.write(batch, number)
            number += 1
        heard = len(told)
        posted.get()()
        for token, ok in told[heard:]:
            if not ok:
                return 1
            print(token, flush=True)


if __name__ == "__main__":
    sys.exit(main())
