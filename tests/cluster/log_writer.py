"""A process that appends to a real log and prints every record once it is durable, until it is killed.

    python log_writer.py DIRECTORY SEED [--no-sync]

Lines: ``ack GROUP FIRST COUNT SERIAL`` and ``floor GROUP POSITION`` (asked for, perhaps not yet durable).
A record's body follows from the seed and these numbers (:func:`body_of`), so a verifier needs nothing else.
With ``--no-sync`` every sync answers at once without being done: proof that a power-cut test can find a loss.
"""

import os
import random
import sys
from collections import deque
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from queue import SimpleQueue

from holdfast.model.errors import HoldfastError
from holdfast.model.ids import Epoch, GroupId, HostId, Nonce, Position, StoreId
from holdfast.model.ports import Token
from holdfast.storage.disk import FileDisk
from holdfast.storage.identity import StoreIdentity, load
from holdfast.storage.log import Log
from holdfast.storage.recovery import scan
from holdfast.storage.segments import LogConfig, salt_of

GROUPS = 3
CONFIG = LogConfig(
    file_bytes=128 << 10,
    batch_bytes_max=16 << 10,
    gather_bytes_max=1 << 20,
    group_bytes_max=256 << 10,
    files_max=6,
)
FLOOR_BEHIND = 300
"""Positions kept behind the tail: older ones count as checkpointed, so that files are pruned."""


def body_of(seed: int, group: int, first: int, serial: int) -> bytes:
    digest = blake2b(f"{seed}/{group}/{first}/{serial}".encode(), digest_size=16).digest()
    return f"{group} {first} {serial} ".encode() + digest * (serial % 9)


class LogWriter:
    """Runs on the main thread; the disk's thread passes its results through a queue."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.calls: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._seed = seed
        self._rng = random.Random()  # every life does something different
        self._serial = self._rng.randrange(1 << 48)
        self._disk = FileDisk(directory, self._on_synced, self.calls.put)
        self._log: Log | None = None
        self._waiting: deque[tuple[int, str]] = deque()
        self._ends: dict[GroupId, deque[Position]] = {}
        self._identity = StoreIdentity(self._disk, load(self._disk), self._stop)
        if self._identity.store is None:
            self._identity.found(StoreId("a store"), HostId("a"), self._begin)
        else:
            self._begin()

    def _begin(self) -> None:
        self._identity.begin_opening(Nonce("n"), lambda: self._identity.finish_opening(self._open))

    def _open(self) -> None:
        store = self._identity.store
        assert store is not None
        self._log = Log(
            self._disk,
            scan(self._disk, salt=salt_of(store.store), sector=CONFIG.sector_bytes),
            store=store.store,
            opening=store.opening,
            config=CONFIG,
            on_open=self._begin_turns,
            on_durable=self._on_durable,
            on_stopped=self._stop,
        )
        self._log.open()

    def _begin_turns(self) -> None:
        """Set the floors first: lives too short to set a floor themselves must not fill the log in the long
        run."""
        assert self._log is not None
        for group in self._log.groups():
            tail = self._log.tail(group).position
            if tail - self._log.floor(group).position > FLOOR_BEHIND:
                os.write(1, f"floor {group} {tail}\n".encode())
                self._log.set_floor(group, tail)
        self._turn()

    def _turn(self) -> None:
        assert self._log is not None
        for _ in range(self._rng.randrange(1, 20)):
            group = GroupId(self._rng.randrange(1, GROUPS + 1))
            first, count = self._log.tail(group).position + 1, self._rng.choice((1, 1, 4))
            self._serial += 1
            body = body_of(self._seed, group, first, self._serial)
            number = self._log.append(group, Epoch(1), body, count)
            self._waiting.append((number, f"ack {group} {first} {count} {self._serial}\n"))
            self._ends.setdefault(group, deque()).append(Position(first + count - 1))
            self._maybe_floor(group)
        self._log.flush()

    def _maybe_floor(self, group: GroupId) -> None:
        assert self._log is not None
        ends = self._ends[group]
        if ends[-1] - ends[0] > FLOOR_BEHIND:
            floor = ends.popleft()
            while ends[-1] - ends[0] > FLOOR_BEHIND // 2:
                floor = ends.popleft()
            os.write(1, f"floor {group} {floor}\n".encode())
            self._log.set_floor(group, floor)

    def _on_durable(self, number: int) -> None:
        lines = []
        while self._waiting and self._waiting[0][0] <= number:
            lines.append(self._waiting.popleft()[1])
        os.write(1, "".join(lines).encode())
        self._turn()

    def _on_synced(self, token: Token, ok: bool) -> None:
        for part in (self._log, self._identity):
            if part is not None and part.on_synced(token, ok):
                return

    def _stop(self, error: HoldfastError) -> None:
        os.write(1, f"stopped {(self._disk.failure or error).code}\n".encode())
        os._exit(1)


def main(arguments: list[str]) -> None:
    if "--no-sync" in arguments:
        arguments.remove("--no-sync")
        os.fdatasync = os.fsync = lambda descriptor: None  # type: ignore[assignment]  # the point of it
        os.RWF_DSYNC = 0  # type: ignore[misc]  # likewise
    try:
        writer = LogWriter(Path(arguments[0]), int(arguments[1]))
    except HoldfastError as error:  # the disk fails before anything is open
        os.write(1, f"stopped {error.code}\n".encode())
        raise
    while True:
        writer.calls.get()()


if __name__ == "__main__":
    main(sys.argv[1:])
