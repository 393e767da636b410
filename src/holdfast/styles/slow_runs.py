"""Has slow methods of one member run beside the loop, and says when they are done (E15).

A run belongs to one object: if that is given up meanwhile, its result is dropped. *Without it:* a primary
loses its epoch while a method computes; when it is primary again, the old result becomes the end of a call
that the new object has not executed.
"""

from collections.abc import Callable
from functools import partial

from holdfast.execution.slow_run import SlowRun
from holdfast.model.ids import Position
from holdfast.styles.divergence import Diverged
from holdfast.styles.ports import StylePorts


class SlowRuns:
    """The slow methods of one member. *current* returns the run of its present object, if there is one."""

    def __init__(self, ports: StylePorts, current: Callable[[], SlowRun | None]) -> None:
        self._ports = ports
        self.current = current

    def is_done(self, slow: SlowRun, at: Position | None = None) -> bool:
        """Whether it has been computed; begins with it if nobody has. A turn follows when it is.

        *at* is where it takes effect, if that is known. Then it must be computed: raises ``Diverged`` if it
        has ended too many processes, because then this member cannot have the object that answered (E4, E8).
        """
        if slow.outcome is not None or slow.is_begun:
            return slow.outcome is not None
        ended = self._ports.attempts.given_up(slow.request)
        if ended and at is not None:
            raise Diverged(f"executed again, {slow.job.method} of {slow.request} ended {ended} processes", at)
        if ended:
            return False  # it is about to be given up
        work = slow.begin(is_ahead=at is None)
        if self._ports.slow is None:
            slow.outcome = work()
            return True
        leave = self._ports.attempts.enter_apart(*slow.request)
        self._ports.slow.run(work, partial(self._on_done, slow, leave))
        return False

    def _on_done(self, slow: SlowRun, leave: Callable[[], None], outcome: bytes) -> None:
        leave()
        if self.current() is slow:
            slow.outcome = outcome
            self._ports.again()
