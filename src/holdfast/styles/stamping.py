"""Stamps what a primary orders: one CSN for each turn, and times that never go back (S1, X4)."""

from collections.abc import Callable

from holdfast.execution.execution import Execution
from holdfast.execution.records import Stamp, decode_record, stamp_of
from holdfast.model.csn import SUB_SEQUENCE_MAX, ZERO, Csn
from holdfast.model.ids import SECOND, Position
from holdfast.model.ports import Clock
from holdfast.styles.ports import Sequence


class Stamper:
    """Stamps the records of one group while this member is its primary."""

    def __init__(self, clock: Clock, next_csn: Callable[[Csn, int], Csn], time: Callable[[], int]) -> None:
        self._clock = clock
        self._time = time
        self._next_csn = next_csn
        self._csn = ZERO
        self._used = 0
        self._is_open = False
        self.time_ns = 0
        """The time of the newest stamp."""
        self._read_at = clock.now()
        """When, by the local clock, the newest stamp was made."""

    def resume(self, csn: Csn, time_ns: int) -> None:
        """Start as primary of a sequence whose newest record has this stamp."""
        self._csn, self.time_ns, self._is_open = csn, time_ns, False
        self._read_at = self._clock.now()

    def now_ns(self) -> int:
        """The group's time. It may be ahead of every clock, because stamps never go back; so it advances from
        the newest stamp even while nothing is ordered."""
        return max(self._time(), self.time_ns + self._clock.now() - self._read_at)

    def next(self, count: int = 1, least_ns: int = 0) -> Stamp:
        """Return the stamp for a record of *count* operations. Each operation has the number of the first
        plus its index. Its time is not before *least_ns*, which has passed in the group's time: when a
        timer is due. *Without that:* its method finds that what it was set for is not over yet."""
        now_ns = self.now_ns()
        if not self._is_open or self._used + count - 1 > SUB_SEQUENCE_MAX:
            self._csn = self._next_csn(self._csn, now_ns // SECOND)
            self._used = 0
            self._is_open = True
        csn = self._csn.part(self._used) if self._used else self._csn
        self._used += count
        # The time gives the fraction of the CSN's second. It may already be in the next second, because CSNs
        # advance to a new second slightly late. *Without that:* operations have a time of up to a second ago,
        # and timeouts that count from it end too early by as much. If the two differ by more, the CSN wins.
        second_ns = csn.timestamp * SECOND
        capped_ns = min(now_ns, second_ns + 2 * SECOND - 1)
        self.time_ns = max(self.time_ns, second_ns, capped_ns, least_ns)
        self._read_at = self._clock.now()
        return Stamp(csn, self.time_ns - second_ns)

    def end_turn(self) -> None:
        self._is_open = False


def newest_stamp(execution: Execution, sequence: Sequence) -> tuple[Csn, int]:
    """The CSN and the time of the newest ordered record. An object that stops before a call which must not
    run (E4) has not seen it yet, but the records after that call are stamped, too. Raises ``Overloaded`` if
    these cannot be read now."""
    csn, time_ns = execution.csn, execution.time_ns
    if execution.position < sequence.committed:
        for each in sequence.read(Position(execution.position + 1), sequence.committed):
            stamp = stamp_of(decode_record(each.body))
            if stamp is not None:
                csn, time_ns = max(csn, stamp.csn), max(time_ns, stamp.time_ns)
    return csn, time_ns
