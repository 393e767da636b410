"""The memory that a server lends to unfinished frames of all its connections together (N3).

A peer may announce a long frame and send it slowly, or never to its end. So one budget is shared by all: a
frame longer than :data:`.frame.FREE_BYTES` needs its whole length from the budget before more of it is read.
If the budget is used up, the connection is not read until another frame is complete. Only :data:`WAITING_MAX`
connections wait; a further one is closed, because it already holds what came in one read.

No peer has all of it: however many connections it opens, it has its share of the budget, and of the places to
wait in. Who waits only for his own frames holds up nobody else.
"""

from collections import Counter
from collections.abc import Callable
from typing import Final

from holdfast.net.frame import Reason, Why
from holdfast.net.handshake import Role

Peer = tuple[Role, str]
"""The role and id of who sends a frame, on however many connections."""
WAITING_MAX: Final = 64
"""How many connections wait for memory. Each holds at most one read, a quarter of a MiB."""
PEERS_MIN: Final = 4
"""So many peers with long frames are served at once at least: the budget and the places are divided by it."""


class FrameMemory:
    """A budget of *bytes_max* bytes. Each peer may have a quarter of it, or one frame."""

    def __init__(self, bytes_max: int) -> None:
        self.free_bytes = bytes_max
        self._share_bytes = bytes_max // PEERS_MIN
        self._lent: dict[MemoryLoan, int] = {}
        self._lent_to: Counter[Peer] = Counter()
        # A dictionary keeps the order: who waits longest is served first.
        self._waiting: dict[MemoryLoan, int] = {}

    def borrow(self, borrower: "MemoryLoan", needed: int) -> Reason | None:
        """Lend *needed* bytes now or later, and tell *borrower* which; return why it must go, if so."""
        is_first = not any(self._is_within_share(each, size) for each, size in self._waiting.items())
        if is_first and self._is_within_share(borrower, needed) and needed <= self.free_bytes:
            self._lend(borrower, needed)
            return None
        if len(self._waiting) >= WAITING_MAX:
            return Reason(Why.NO_MEMORY, f"no room for a frame of {needed} bytes, and {WAITING_MAX} wait")
        waits_max = WAITING_MAX // PEERS_MIN
        if sum(each.peer == borrower.peer for each in self._waiting) >= waits_max:
            text = f"no room for a frame of {needed} bytes, and {waits_max} of {borrower.peer[1]} wait"
            return Reason(Why.NO_MEMORY, text)
        self._waiting[borrower] = needed
        borrower.on_memory(is_granted=False)
        return None

    def give_back(self, borrower: "MemoryLoan") -> None:
        """Take back what *borrower* has, if it has anything, and lend it to those who wait."""
        self._waiting.pop(borrower, None)
        returned = self._lent.pop(borrower, 0)
        self.free_bytes += returned
        self._lent_to[borrower.peer] -= returned
        if not self._lent_to[borrower.peer]:
            del self._lent_to[borrower.peer]
        for each, needed in list(self._waiting.items()):
            if not self._is_within_share(each, needed):
                continue
            if needed > self.free_bytes:
                return
            del self._waiting[each]
            self._lend(each, needed)

    def _is_within_share(self, borrower: "MemoryLoan", needed: int) -> bool:
        has = self._lent_to.get(borrower.peer, 0)
        return not has or has + needed <= self._share_bytes

    def _lend(self, borrower: "MemoryLoan", needed: int) -> None:
        self.free_bytes -= needed
        self._lent[borrower] = needed
        self._lent_to[borrower.peer] += needed
        borrower.on_memory(is_granted=True)


class MemoryLoan:
    """What one connection borrows for the long frame that its peer is sending, if it is sending one.

    *wait* is called with whether the connection must wait. A frame must be complete within *frame_s*.
    """

    def __init__(
        self,
        memory: FrameMemory,
        peer: Peer,
        wait: Callable[[bool], None],
        clock: Callable[[], float],
        frame_s: float,
    ) -> None:
        self._memory = memory
        self.peer = peer
        self._wait = wait
        self._clock = clock
        self._frame_s = frame_s
        self._due: float | None = None

    def on_long(self, length: int) -> Reason | None:
        """Handle a frame of that *length* that begins, or the end of it (0); return why the connection must
        end, if so."""
        if length:
            return self._memory.borrow(self, length)
        self.end()
        return None

    def on_memory(self, *, is_granted: bool) -> None:
        """Read on, or wait until other frames are complete."""
        self._due = self._clock() + self._frame_s if is_granted else None
        self._wait(not is_granted)

    def end(self) -> None:
        """Give everything back."""
        self._due = None
        self._memory.give_back(self)

    def overdue(self) -> Reason | None:
        """Why the connection must end, if its peer has taken too long."""
        if self._due is None or self._clock() <= self._due:
            return None
        return Reason(Why.TOO_SLOW, f"a frame took more than {self._frame_s:g} s")
