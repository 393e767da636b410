"""Taking a full copy into a store that is not open as a replica.

The first transaction marks the store as half copied, and says which replica it will be; the last one takes
the mark away. A crash in between leaves the mark, and everything begins anew: rows of two copies never meet,
and half a copy never counts. What the store had before is erased first, in bounded transactions.
"""

import hashlib
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final, Protocol

from msgspec import structs

from holdfast.clock.vector import Missing, Vector, missing
from holdfast.directory.replication.giving import piece_digest
from holdfast.directory.replication.messages import (
    CopyAsk,
    CopyBegins,
    CopyEnds,
    CopyPiece,
    CopyTaken,
    Message,
    Refused,
)
from holdfast.directory.replication.roster import (
    CSNSTATE,
    LAGGING,
    SELF,
    TOLD_OVER,
    Own,
    decoded_own,
    own_row,
)
from holdfast.directory.store import Batch, MapName, Store, prefix_end
from holdfast.model.errors import InvalidRequest
from holdfast.model.ports import Token

HALF_COPIED: Final = b"half-copied"
ERASE_ROWS: Final = 5_000
"""How many rows one transaction erases."""


class Phase(Enum):
    ERASING = "erasing"
    ASKING = "asking"
    TAKING = "taking"
    FINISHING = "finishing"
    DONE = "done"


class CopyLink(Protocol):
    def send(self, message: Message) -> None: ...


def would_lose(own: Vector, source: Vector) -> tuple[Missing, ...]:
    """What a store with *own* loses if it is filled from one that has *source*."""
    return missing(own, source) if own.generation == source.generation else ()


class Taker:
    """Fills one store. The owner hands on ``on_message`` and ``on_committed``, and calls ``ask`` for each new
    connection to a replica that can give."""

    def __init__(
        self,
        store: Store,
        own: Own,
        *,
        suffix: str,
        maps: Sequence[MapName],
        kept: MapName,
        window: int,
        on_done: Callable[[], None],
        on_refused: Callable[[Refused], None] = lambda refused: None,
    ) -> None:
        self.phase = Phase.ERASING
        self._store = store
        self._own = own
        self._suffix = suffix
        self._maps = tuple(maps)
        self._kept = kept
        self._window = window
        self._on_done = on_done
        self._on_refused = on_refused
        self._link: CopyLink | None = None
        self._copy: str | None = None
        self._base = ""
        self._digest = hashlib.sha256()
        self._taken = 0
        self._written = 0
        self._end: CopyEnds | None = None
        self._tokens: dict[Token, Callable[[], None]] = {}
        self._last_token = 0
        self._erase(is_first=True)

    # --- events

    def ask(self, link: CopyLink) -> None:
        """There is a connection: ask for a copy. One that was on its way is given up."""
        self._link = link
        if self.phase is Phase.TAKING:
            self.phase = Phase.ERASING
            self._copy = None
            # Pieces may still be on their way to the disk: something is written after them in any case, and
            # only what is seen after that tells that the store is empty.
            self._erase(is_first=True)
        elif self.phase is Phase.ASKING:
            self._ask()

    def on_message(self, message: Message) -> None:
        if isinstance(message, Refused):
            self._on_refused(message)
        elif isinstance(message, CopyBegins):
            if self.phase is Phase.ASKING and self._copy is None:
                self._copy = message.copy
                self._base = message.vector
                self.phase = Phase.TAKING
                self._digest = hashlib.sha256()
                self._taken = self._written = 0
                self._end = None
        elif isinstance(message, CopyPiece):
            self._on_piece(message)
        elif isinstance(message, CopyEnds) and self.phase is Phase.TAKING and message.copy == self._copy:
            self._end = message
            self._maybe_finish()

    def on_committed(self, token: Token, ok: bool) -> None:
        then = self._tokens.pop(token, None)
        if ok and then is not None:
            then()

    # --- internal

    def _on_piece(self, piece: CopyPiece) -> None:
        if self.phase is not Phase.TAKING or piece.copy != self._copy:
            return  # of a copy that was given up
        if piece.number != self._taken + 1:
            raise InvalidRequest(f"piece {piece.number} of a copy follows {self._taken}")
        self._taken = piece.number
        piece_digest(self._digest, piece.rows)
        batch = Batch()
        for number, row_key, value in piece.rows:
            if number >= len(self._maps):
                raise InvalidRequest(f"a copy has {len(self._maps)} maps, not map {number}")
            if self._maps[number] != self._kept or row_key not in _OF_THE_GIVER:
                batch.put(self._maps[number], row_key, value)
            elif row_key == SELF:
                self._learn(decoded_own(value))
        copy = piece.copy
        self._write(batch, lambda: self._piece_written(copy, piece.number))

    def _learn(self, giver: Own) -> None:
        """What the giver knows of other replicas holds here too."""
        self._own = structs.replace(
            self._own,
            known=tuple(sorted({*self._own.known, *giver.known, self._own.replica} - set(self._own.over))),
            over=tuple(sorted({*self._own.over, *giver.over})),
        )

    def _piece_written(self, copy: str, number: int) -> None:
        if self.phase is Phase.TAKING and copy == self._copy and self._link is not None:
            self._written = number
            self._link.send(CopyTaken(copy, number))
            self._maybe_finish()

    def _maybe_finish(self) -> None:
        end = self._end
        if end is None or self._written < end.pieces or self.phase is not Phase.TAKING:
            return
        if end.pieces != self._taken or end.digest != self._digest.digest():
            raise InvalidRequest("the copy is not what was sent")
        self.phase = Phase.FINISHING
        batch = Batch()
        with self._store.read() as reader:
            for row_key, _ in reader.rows(self._kept, start=LAGGING, end=prefix_end(LAGGING)):
                batch.erase(self._kept, row_key)
        own = structs.replace(self._own, is_ready=True, base=self._base)
        batch.put(self._kept, *own_row(own))
        batch.erase(self._kept, HALF_COPIED)
        self._write(batch, self._finished)

    def _finished(self) -> None:
        self.phase = Phase.DONE
        self._on_done()

    def _erase(self, *, is_first: bool) -> None:
        batch = Batch()
        if is_first:
            batch.put(self._kept, HALF_COPIED, b"1")
            batch.put(self._kept, *own_row(structs.replace(self._own, is_ready=False)))
        count = 0
        with self._store.read() as reader:
            for name in self._maps:
                for row_key, _ in reader.rows(name):
                    if name == self._kept and row_key in (HALF_COPIED, SELF):
                        continue
                    batch.erase(name, bytes(row_key))
                    count += 1
                    if count >= ERASE_ROWS:
                        break
                if count >= ERASE_ROWS:
                    break
        if count or is_first:
            self._write(batch, lambda: self._erase(is_first=False))
            return
        self.phase = Phase.ASKING
        if self._link is not None:
            self._ask()

    def _ask(self) -> None:
        assert self._link is not None
        self._copy = None
        self._link.send(CopyAsk(suffix=self._suffix, replica=self._own.replica, window=self._window))

    def _write(self, batch: Batch, then: Callable[[], None]) -> None:
        self._last_token += 1
        token = ("copy", self._last_token)
        self._tokens[token] = then
        self._store.write(batch, token)


_OF_THE_GIVER: Final = (SELF, HALF_COPIED, CSNSTATE, TOLD_OVER)
"""Rows that are about the giver alone."""
