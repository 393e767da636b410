"""An object that cannot be made on this member: when to try again, and when to let another member try.

The class's own code fails, here and now: its constructor or ``set_state`` raises, or a replay must not be
made (FTC-310), or the object says that it is not alive (FTC-247). A primary in that state serves nobody, and
its group has other members, of which one may well be able. So it hands over (K5), at once the first time;
after each further failure it waits longer, and tries itself once more, before it hands over again: where no
member is able, the group must not be passed around without end. So whoever has failed says so (O3), for a
while, and is handed nothing meanwhile while others have not been tried.
"""

from typing import Final

from holdfast.model.errors import HoldfastError
from holdfast.model.outcome import error_in_words
from holdfast.model.ports import Clock
from holdfast.sequence.fitness import WORDS_MAX
from holdfast.styles.config import StyleConfig

BELIEVED_TIMES: Final = 6
"""Who has failed is taken for unable for so many times ``object_retry_most_ns``; then it is worth another
attempt, if nobody else serves."""
LASTS_TIMES: Final = 6
"""An object that lasted for so many times ``object_retry_ns`` was no failure; one that did not was, and the
pauses before the group is handed over again go on growing."""

UNMADE: Final = "no object could be made"
"""Begins why, where the class's own code has failed."""


class Incapacity:
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
