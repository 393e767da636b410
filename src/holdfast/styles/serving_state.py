"""The office of primary, as one member holds it: whether calls are taken here, and if not, why.

It falls to a member when its sequence is served there (K1), and is taken up when there is an object that has
all that is committed. What lies between is short, or long: a large state is loaded, a log is replayed, or no
object can be made at all (this module). An object may also be given up in office; then that begins
anew.

An object that cannot be made on this member: when to try again, and when to let another member try.

The class's own code fails, here and now: its constructor or ``set_state`` raises, or a replay must not be
made (FTC-310), or the object says that it is not alive (FTC-247). A primary in that state serves nobody, and
its group has other members, of which one may well be able. So it hands over (K5), at once the first time;
after each further failure it waits longer, and tries itself once more, before it hands over again: where no
member is able, the group must not be passed around without end. So whoever has failed says so (O3), for a
while, and is handed nothing meanwhile while others have not been tried.
"""

from collections.abc import Callable
from typing import Final

from holdfast.execution.execution import Execution
from holdfast.model.errors import DISK_ERRORS, HoldfastError, Overloaded
from holdfast.model.ids import MILLISECOND
from holdfast.model.outcome import error_in_words
from holdfast.model.ports import Clock
from holdfast.sequence.role import WORDS_MAX
from holdfast.styles.code_replay import WaitsForCode
from holdfast.styles.config import StyleConfig
from holdfast.styles.ports import StylePorts

BELIEVED_TIMES: Final = 6
"""Who has failed is taken for unable for so many times ``object_retry_most_ns``; then it is worth another
attempt, if nobody else serves."""
LASTS_TIMES: Final = 6
"""An object that lasted for so many times ``object_retry_ns`` was no failure; one that did not was, and the
pauses before the group is handed over again go on growing."""

UNMADE: Final = "no object could be made"
"""Begins why, where the class's own code has failed."""


class ObjectRetry:
    """Of one member, over all its reigns in this process."""

    def __init__(self, clock: Clock, config: StyleConfig) -> None:
        self._clock = clock
        self._config = config
        self.why = ""
        """How the last attempt failed; empty when it did not."""
        self._failures = 0
        self._held_until = 0
        """Before this the group is not handed over again."""
        self._try_from = 0
        self._is_others_turn = False
        self._failed_at: int | None = None
        self.since_ns = 0
        """By the wall clock, since when no attempt came to anything."""
        self._took_up_at: int | None = None

    @property
    def is_unable(self) -> bool:
        """Whether the last attempt failed, not long ago."""
        believed_ns = BELIEVED_TIMES * self._config.object_retry_most_ns
        return self._failed_at is not None and self._clock.now() - self._failed_at < believed_ns

    @property
    def wait_ns(self) -> int:
        """Until an attempt makes sense; 0: now."""
        return max(self._try_from - self._clock.now(), 0)

    def begin_reign(self) -> None:
        """This member is primary, perhaps again: whatever failed before, it is worth an attempt."""
        self._try_from, self._is_others_turn = 0, False

    def retry(self) -> None:
        """An attempt makes sense now; whether the group is handed over is another question."""
        self._try_from = 0

    def failed(self, error: Exception) -> None:
        """An attempt to make the object ended with *error*."""
        said = str(error) if isinstance(error, HoldfastError) else error_in_words(error)
        self.gave_up(f"{UNMADE}: {said}")

    def failed_behind(self, error: Exception) -> None:
        """As a backup, which nobody waits for; should it come to lead, it makes an attempt all the same."""
        self._failed_at = self._clock.now()
        self.since_ns = self.since_ns or self._clock.wall()
        self.why = f"the state was not taken: {error_in_words(error)}"[:WORDS_MAX]

    def gave_up(self, why: str) -> None:
        """There is no object any more, or none came of an attempt to make one."""
        now, config = self._clock.now(), self._config
        lasts_ns = LASTS_TIMES * config.object_retry_ns
        if self._took_up_at is not None and now - self._took_up_at >= lasts_ns:
            self._failures = self._held_until = 0
        self._took_up_at, self._failed_at = None, now
        self.since_ns = self.since_ns or self._clock.wall()
        self.why = why[:WORDS_MAX]
        if now >= self._held_until:
            self._is_others_turn = True
            pause_ns = min(config.object_retry_ns << min(self._failures, 32), config.object_retry_most_ns)
            self._held_until = now + pause_ns
            self._failures += 1
        self._try_from = self._held_until

    def take_others_turn(self) -> bool:
        """Whether the group should be handed over now; True once for each time."""
        is_others_turn, self._is_others_turn = self._is_others_turn, False
        return is_others_turn

    def forgive(self) -> None:
        """What stood in the way is gone, though nobody has tried yet."""
        self._failed_at, self.since_ns, self.why = None, 0, ""
        self.retry()

    def end(self) -> None:
        """The object is there."""
        self._took_up_at, self._failed_at, self.since_ns = self._clock.now(), None, 0
        self.why, self._try_from, self._is_others_turn = "", 0, False


LOOK_NS: Final = 20 * MILLISECOND
"""How often a primary that gave its object up looks whether another can be made."""


class ServingState:
    """Of one member, each time that it falls to it in this process."""

    def __init__(self, ports: StylePorts, config: StyleConfig) -> None:
        self._ports = ports
        self._incapacity = ObjectRetry(ports.clock, config)
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
