"""Giving a full copy: all rows of one snapshot of the store, in bounded pieces.

The replica that will have the copy is counted first, durably (G5): from then on nothing is trimmed or purged
that it lacks. Only then is the snapshot taken, so the copy has at least all that this replica ever said it
had before anybody counted the new one (G7).
"""

import hashlib
from collections.abc import Callable, Iterator
from typing import Final

from holdfast.directory.replication.messages import (
    FORMAT,
    ROWS_MAX,
    CopyAsk,
    CopyBegins,
    CopyEnds,
    CopyPiece,
    CopyTaken,
    Reason,
    Refused,
    Row,
    shortened,
)
from holdfast.directory.replication.ports import ReplicationConfig, ReplicationPorts
from holdfast.directory.store import MapName, Reader
from holdfast.model.ids import ReplicaId

ROW_OVERHEAD: Final = 16
"""What a row costs on the wire beside its key and value."""


def piece_digest(running: "hashlib._Hash", rows: tuple[Row, ...]) -> None:
    """Take the rows of a piece into a running digest, each with its lengths: no two lists look alike."""
    for number, row_key, value in rows:
        running.update(b"%d %d %d " % (number, len(row_key), len(value)))
        running.update(row_key)
        running.update(value)


class Giver:
    """One copy on its way to one peer."""

    def __init__(
        self, peer: str, copy: str, window: int, ports: ReplicationPorts, config: ReplicationConfig
    ) -> None:
        self.copy = copy
        self._peer = peer
        self._ports = ports
        self._config = config
        self._window = window
        self._reader: Reader | None = None
        self._pieces: Iterator[tuple[Row, ...]] = iter(())
        self._digest = hashlib.sha256()
        self._sent = 0
        self._taken = 0

    def begin(self, maps: tuple[MapName, ...]) -> None:
        vector = self._ports.replica.vector
        self._reader = self._ports.replica.read()
        self._pieces = self._cut(self._reader, maps)
        self._ports.links.send(self._peer, CopyBegins(self.copy, vector.text()))
        self._pump()

    def on_taken(self, number: int) -> None:
        self._taken = max(self._taken, min(number, self._sent))
        self._pump()

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    @property
    def is_over(self) -> bool:
        return self._reader is None

    def _pump(self) -> None:
        while self._reader is not None and self._sent - self._taken < self._window:
            rows = next(self._pieces, None)
            if rows is None:
                self.close()
                end = CopyEnds(self.copy, self._sent, self._digest.digest())
                self._ports.links.send(self._peer, end)
                return
            self._sent += 1
            piece_digest(self._digest, rows)
            self._ports.links.send(self._peer, CopyPiece(self.copy, self._sent, rows))

    def _cut(self, reader: Reader, maps: tuple[MapName, ...]) -> Iterator[tuple[Row, ...]]:
        rows: list[Row] = []
        length = 0
        for number, name in enumerate(maps):
            for row_key, value in reader.rows(name):
                size = len(row_key) + len(value) + ROW_OVERHEAD
                if rows and (length + size > self._config.piece_bytes or len(rows) >= ROWS_MAX):
                    yield tuple(rows)
                    rows, length = [], 0
                rows.append((number, bytes(row_key), bytes(value)))
                length += size
        if rows:
            yield tuple(rows)


class Givers:
    """All copies that this replica gives."""

    def __init__(
        self,
        ports: ReplicationPorts,
        config: ReplicationConfig,
        maps: tuple[MapName, ...],
        count: Callable[[ReplicaId, Callable[[], None]], None],
    ) -> None:
        self._ports = ports
        self._config = config
        self._maps = maps
        self._count = count
        self._givers: dict[str, Giver] = {}
        self._begun = 0

    def on_ask(self, peer: str, ask: CopyAsk, suffix: str) -> None:
        refused = None
        if ask.format != FORMAT:
            refused = Refused(Reason.FORMAT, f"this replica speaks format {FORMAT}, not {ask.format}")
        elif ask.suffix != suffix:
            refused = Refused(Reason.SUFFIX, shortened(f"this is {suffix}, not {ask.suffix}"))
        elif peer not in self._givers and len(self._givers) >= self._config.copies_max:
            refused = Refused(Reason.NOT_READY, f"{len(self._givers)} copies are being given; ask later")
        if refused is not None:
            self._ports.links.send(peer, refused)
            self._ports.links.close(peer)
            return
        self.drop(peer)
        self._begun += 1
        copy = f"{self._ports.replica.id}-{self._ports.clock.wall()}-{self._begun}"
        giver = self._givers[peer] = Giver(peer, copy, ask.window, self._ports, self._config)
        self._count(ReplicaId(ask.replica), lambda: self._begin(peer, giver))

    def _begin(self, peer: str, giver: Giver) -> None:
        if self._givers.get(peer) is giver:
            giver.begin(self._maps)

    def on_taken(self, peer: str, taken: CopyTaken) -> None:
        giver = self._givers.get(peer)
        if giver is not None and giver.copy == taken.copy:
            giver.on_taken(taken.number)
            if giver.is_over:
                del self._givers[peer]

    def drop(self, peer: str) -> None:
        giver = self._givers.pop(peer, None)
        if giver is not None:
            giver.close()
