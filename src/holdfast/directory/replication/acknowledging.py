"""Waiting for a second store: ``acknowledge=2``.

A change is committed here before anybody waits (G1). What is waited for is that one other store says, on a
link, that it is committed there as well. If none does in time, the client is told exactly that: it is
committed here and may be nowhere else.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from holdfast.clock.vector import Vector
from holdfast.model.csn import Csn
from holdfast.model.errors import HoldfastError, Overloaded
from holdfast.model.ids import SECOND


class CommittedHereOnly(HoldfastError):
    """Raised when a change is committed at this master and no second store has confirmed it in time. It is
    not undone: it will reach the others, unless this store is lost before."""

    code = "committed_here_only"

    def __init__(self, csn: Csn, *, waited_s: float) -> None:
        super().__init__(
            f"committed here only: {csn} is on this master's disk, and no second store has confirmed it "
            f"within {waited_s:g} s; it is not undone, and is lost only if this store is"
        )
        self.csn = csn


Answer = Callable[[CommittedHereOnly | None], None]


@dataclass(slots=True)
class _Waiting:
    csn: Csn
    until_ns: int
    answer: Answer | None


class Acknowledgements:
    """The operations that wait for a second store, oldest first: CSNs of one master grow, and so do the times
    until which they wait."""

    def __init__(self, *, wait_ns: int, waiting_max: int) -> None:
        self._wait_ns = wait_ns
        self._waiting_max = waiting_max
        self._waiting: deque[_Waiting] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def check_room(self) -> None:
        """Raise ``Overloaded`` before an operation is begun that could not wait."""
        if len(self._waiting) >= self._waiting_max:
            raise Overloaded(f"{len(self._waiting)} operations wait for a second store; try again later")

    def wait(self, csn: Csn, now_ns: int, answer: Answer) -> None:
        """Call *answer* once: with None when a second store has *csn*, or with the error."""
        self._waiting.append(_Waiting(csn, now_ns + self._wait_ns, answer))

    def on_second_store(self, vector: Vector) -> None:
        """A second store has all of *vector* on its disk."""
        for each in self._waiting:
            # Not ``covers``: a vector also covers what its owner will never take, of retired replicas.
            newest = vector.get(each.csn.replica)
            if each.answer is not None and newest is not None and each.csn.operation <= newest:
                answer, each.answer = each.answer, None
                answer(None)
        self._drop_answered()

    def on_time(self, now_ns: int) -> None:
        while self._waiting and self._waiting[0].until_ns <= now_ns:
            late = self._waiting.popleft()
            if late.answer is not None:
                late.answer(CommittedHereOnly(late.csn, waited_s=self._wait_ns / SECOND))
        self._drop_answered()

    def _drop_answered(self) -> None:
        while self._waiting and self._waiting[0].answer is None:
            self._waiting.popleft()
