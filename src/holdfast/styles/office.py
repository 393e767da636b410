"""The office of primary, as one member holds it: whether calls are taken here, and if not, why.

It falls to a member when its sequence is served there (K1), and is taken up when there is an object that has
all that is committed. What lies between is short, or long: a large state is loaded, a log is replayed, or no
object can be made at all (:mod:`.incapacity`). An object may also be given up in office; then that begins
anew.
"""

from collections.abc import Callable
from typing import Final

from holdfast.model.errors import DISK_ERRORS, Overloaded
from holdfast.model.units import MILLISECOND
from holdfast.styles.config import StyleConfig
from holdfast.styles.execution import Execution
from holdfast.styles.incapacity import Incapacity
from holdfast.styles.ports import StylePorts
from holdfast.styles.succession import WaitsForCode

LOOK_NS: Final = 20 * MILLISECOND
"""How often a primary that gave its object up looks whether another can be made."""


class Office:
    """Of one member, each time that it falls to it in this process."""

    def __init__(self, ports: StylePorts, config: StyleConfig) -> None:
        self._ports = ports
        self._incapacity = Incapacity(ports.clock, config)
        self._excused_until = 0
        self._retry_ns = config.object_retry_ns
        self._waits_for_code = False
        """That is why the last attempt failed."""
        self.is_held = False
        """The sequence is served here."""
        self.is_taken_up = False
        """And the object is ready: calls are taken. Never without the former."""

    @property
    def awaits_object(self) -> bool:
        return self.is_held and not self.is_taken_up

    @property
    def why_not(self) -> str:
        """How the last attempt to make an object failed where one should be; empty when it did not."""
        return self._incapacity.why if self.is_held else ""

    @property
    def look_again_ns(self) -> int:
        """After so long an attempt is made, also if nothing comes in: timers are due without any call."""
        return self._incapacity.wait_ns or LOOK_NS

    @property
    def why_unable(self) -> str:
        """Why no object could be made here, not long ago, in office or before; empty when one could."""
        return self._incapacity.why if self._incapacity.is_unable else ""

    @property
    def unable_since_ns(self) -> int:
        """By the wall clock; 0 when that is not known."""
        return self._incapacity.since_ns

    def reconsider(self) -> None:
        """What stood in the way may be gone: the next attempt is worth making at once."""
        self._incapacity.retry()

    def code_is_there(self) -> None:
        """The class as it is here may go on: that it could not is over."""
        if self._waits_for_code:
            self._waits_for_code = False
            self._incapacity.forgive()

    def begin(self) -> None:
        self.is_held = True
        self._incapacity.begin_reign()

    def end(self) -> None:
        self.is_held = self.is_taken_up = False

    def attempt(self, make: Callable[[], Execution | None]) -> Execution | None:
        """The object that *make* gives; None also before it is time to try again, and when that fails."""
        if self._incapacity.wait_ns:
            return None
        try:
            return make()
        except Overloaded:
            self._ports.wake()  # records could not be read just now, or there is more to load
        except DISK_ERRORS:
            raise
        except WaitsForCode as error:
            self._waits_for_code = True
            self._incapacity.gave_up(str(error))
            self._ports.fault("other_code", self._incapacity.why)
        except Exception as error:
            # The class's own code failed to make or restore the object (FTC-310): this member cannot serve.
            self._waits_for_code = False
            self._incapacity.failed(error)
            self._ports.fault("object_failed", self._incapacity.why)
        return None

    def take_up(self) -> None:
        """The object is there."""
        self.is_taken_up = True
        self._incapacity.end()

    def lay_down(self) -> None:
        """The object is not there any more; the office is taken up again when there is another."""
        self.is_taken_up = False

    def failed_in(self, why: str) -> None:
        """The object was faulty: if this member should serve, another is to try first."""
        if self.is_held:
            self._incapacity.gave_up(why)

    def failed_behind(self, error: Exception) -> None:
        """A backup could not take a state."""
        self._incapacity.failed_behind(error)

    def excuse(self, why: str) -> None:
        """There is no object, and to try helps nothing (E8): another shall serve, as soon as one can."""
        now = self._ports.clock.now()
        if self.is_held and now >= self._excused_until:
            self._excused_until = now + self._retry_ns
            self._ports.pass_on(why)

    def maybe_pass_on(self) -> None:
        """Let another member serve, if it is its turn (K5). Not within an event of the sequence."""
        if self._incapacity.take_others_turn():
            self._ports.pass_on(self._incapacity.why)
