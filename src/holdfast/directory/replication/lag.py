"""How far a peer is behind, as measured: from a commit here to the peer's word that it is on its disk.

The time covers both ways, so it never says less than there is. One change in flight is enough to tell the lag
of a moment; when many wait, the oldest are kept, because they say how far behind the peer is.
"""

from collections import deque
from dataclasses import dataclass
from typing import Final

from holdfast.model.csn import Csn

WAITING_MAX: Final = 1024
MEASURED_MAX: Final = 512
"""Of so many changes the lag is remembered."""


@dataclass(frozen=True, slots=True)
class Lag:
    """What is known of one peer."""

    p50_ns: int | None
    """Of the last measurements; None if there was none."""
    p99_ns: int | None
    behind_ns: int
    """The age of the oldest own change that the peer is not known to have; 0 if it has all."""


class LagMeter:
    """Measures all peers of one replica."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[tuple[Csn, int]]] = {}
        self._measured: dict[str, deque[int]] = {}

    def follow(self, peer: str) -> None:
        """There is a link to *peer*: what is issued from now on is measured, also while it is down."""
        self._waiting.setdefault(peer, deque())
        self._measured.setdefault(peer, deque(maxlen=MEASURED_MAX))

    def forget(self, peer: str) -> None:
        self._waiting.pop(peer, None)
        self._measured.pop(peer, None)

    def issued(self, csn: Csn, now_ns: int) -> None:
        for waiting in self._waiting.values():
            if len(waiting) < WAITING_MAX:
                waiting.append((csn, now_ns))

    def confirmed(self, peer: str, newest: Csn | None, now_ns: int) -> None:
        """*peer* has said that it has all own changes up to *newest*."""
        waiting = self._waiting.get(peer)
        while waiting and newest is not None and waiting[0][0] <= newest:
            self._measured[peer].append(now_ns - waiting.popleft()[1])

    def of(self, peer: str, now_ns: int) -> Lag:
        measured = sorted(self._measured.get(peer, ()))
        waiting = self._waiting.get(peer)
        return Lag(
            p50_ns=measured[len(measured) // 2] if measured else None,
            p99_ns=measured[len(measured) * 99 // 100] if measured else None,
            behind_ns=now_ns - waiting[0][1] if waiting else 0,
        )
