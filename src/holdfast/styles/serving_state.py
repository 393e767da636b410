"""Whether a member takes calls as its group's primary, and if not, why.

A member becomes primary when its sequence starts serving there (K1). It starts taking calls once it has an
object that contains everything committed (:class:`ServingState`). That may be quick, or take long: a large
state is loaded, a log is replayed, or no object can be made at all. A primary may also give up its object
while it takes calls; then this starts again.

:class:`ObjectRetry` decides when a member whose object cannot be made tries again, and when it lets another
member try. The class's own code has failed here: its constructor or ``set_state`` raises, or a replay is not
allowed (FTC-310), or the object says that it is not alive (FTC-247). A primary in that state serves nobody,
but another member may be able to serve. So it hands over (K5): the first time at once; after each further
failure it waits longer and tries once more itself before it hands over again, because if no member is able,
the group must not be handed around endlessly. A member that has failed reports it for a while (O3), and is
handed nothing in this time while other members have not been tried.
"""

from collections.abc import Callable
from typing import Final

from holdfast.execution.execution import Execution
from holdfast.model.errors import DISK_ERRORS, HoldfastError, Overloaded
from holdfast.model.ids import MILLISECOND, SECOND
from holdfast.model.outcome import error_in_words
from holdfast.model.ports import Clock
from holdfast.sequence.role import WORDS_MAX
from holdfast.styles.code_replay import WaitsForCode
from holdfast.styles.config import StyleConfig
from holdfast.styles.ports import Sequence, StylePorts

BELIEVED_TIMES: Final = 6
"""A failed member counts as unable for this many times ``object_retry_most_ns``; then it is worth another
attempt, if nobody else serves."""
LASTS_TIMES: Final = 6
"""An object that lasted for this many times ``object_retry_ns`` was no failure. If it lasted for less, it was
one, and the pauses before the next handover continue to grow."""

UNMADE: Final = "no object could be made"
"""The start of the reason if the class's own code has failed."""


class ObjectRetry:
    """The failed attempts of one member to make its object, across all its terms as primary in this
    process."""

    def __init__(self, clock: Clock, config: StyleConfig) -> None:
        self._clock = clock
        self._config = config
        self.why = ""
        """How the last attempt failed; empty if it did not."""
        self._failures = 0
        self._held_until = 0
        """Until then the group is not handed over again."""
        self._try_from = 0
        self._is_handover_due = False
        self._failed_at: int | None = None
        self.since_ns = 0
        """By the wall clock, since when every attempt has failed."""
        self._made_at: int | None = None

    @property
    def is_unable(self) -> bool:
        """Whether the last attempt failed, and not long ago."""
        believed_ns = BELIEVED_TIMES * self._config.object_retry_most_ns
        return self._failed_at is not None and self._clock.now() - self._failed_at < believed_ns

    @property
    def wait_ns(self) -> int:
        """The time until the next attempt; 0: now."""
        return max(self._try_from - self._clock.now(), 0)

    def begin_term(self) -> None:
        """Start a term as primary, perhaps again: whatever failed before, an attempt is worthwhile."""
        self._try_from, self._is_handover_due = 0, False

    def retry(self) -> None:
        """Allow an attempt now; this does not affect when the group is handed over."""
        self._try_from = 0

    def failed(self, error: Exception) -> None:
        """Record that an attempt to make the object failed with *error*."""
        said = str(error) if isinstance(error, HoldfastError) else error_in_words(error)
        self.gave_up(f"{UNMADE}: {said}")

    def failed_as_backup(self, why: str) -> None:
        """Record a failure as a backup, for which nobody waits. If the member becomes primary, it makes an
        attempt anyway."""
        self._failed_at = self._clock.now()
        self.since_ns = self.since_ns or self._clock.wall()
        self.why = why[:WORDS_MAX]

    def gave_up(self, why: str) -> None:
        """Record that the object was given up, or that an attempt to make one failed."""
        now, config = self._clock.now(), self._config
        lasts_ns = LASTS_TIMES * config.object_retry_ns
        if self._made_at is not None and now - self._made_at >= lasts_ns:
            self._failures = self._held_until = 0
        self._made_at, self._failed_at = None, now
        self.since_ns = self.since_ns or self._clock.wall()
        self.why = why[:WORDS_MAX]
        if now >= self._held_until:
            self._is_handover_due = True
            pause_ns = min(config.object_retry_ns << min(self._failures, 32), config.object_retry_most_ns)
            self._held_until = now + pause_ns
            self._failures += 1
        self._try_from = self._held_until

    def take_handover(self) -> bool:
        """Whether the group should be handed over now; True once per handover."""
        is_due, self._is_handover_due = self._is_handover_due, False
        return is_due

    def forgive(self) -> None:
        """Forget the failure: its cause is gone, though no attempt has been made yet."""
        self._failed_at, self.since_ns, self.why = None, 0, ""
        self.retry()

    def end(self) -> None:
        """Record that the object has been made."""
        self._made_at, self._failed_at, self.since_ns = self._clock.now(), None, 0
        self.why, self._try_from, self._is_handover_due = "", 0, False


TRIAL_NS: Final = 60 * SECOND
"""The longest pause after a hand-over that may help nobody. The first is ``object_retry_ns``, and each is
twice the one before: a hand-over may also come to nothing because a network is cut just then."""
LOOK_NS: Final = 20 * MILLISECOND
"""How often a primary that gave up its object checks whether another can be made."""


class ServingState:
    """Tracks whether this member takes calls as primary, across every term it serves in this process."""

    def __init__(self, ports: StylePorts, config: StyleConfig) -> None:
        self._ports = ports
        self._retry = ObjectRetry(ports.clock, config)
        self._handover_not_before = 0
        self._trial_not_before = 0
        self._trials = 0
        self._retry_ns = config.object_retry_ns
        self._waits_for_code = False
        """Whether the last attempt failed because other code made what the group holds."""
        self.is_primary = False
        """Whether the sequence is served here: this member is primary."""
        self.terms = 0
        """How often this member has started taking calls."""
        self.takes_calls = False
        """Whether the object is ready, too, so that calls are taken. Never true unless this member is
        primary."""

    @property
    def awaits_object(self) -> bool:
        return self.is_primary and not self.takes_calls

    @property
    def why_not(self) -> str:
        """How the last attempt of a primary to make its object failed; empty if it did not."""
        return self._retry.why if self.is_primary else ""

    @property
    def look_again_ns(self) -> int:
        """The time until the next attempt, even if nothing arrives: timers fall due without any call."""
        return self._retry.wait_ns or LOOK_NS

    @property
    def why_unable(self) -> str:
        """Why no object could be made here recently, as primary or before; empty if one could."""
        return self._retry.why if self._retry.is_unable else ""

    @property
    def unable_since_ns(self) -> int:
        """By the wall clock, since when no object could be made; 0 if that is not known."""
        return self._retry.since_ns

    def reconsider(self) -> None:
        """Allow the next attempt at once, because the obstacle may be gone."""
        self._retry.retry()

    def code_is_there(self) -> None:
        """Record that the class loaded here may continue: an earlier failure because of other code is
        over."""
        if self._waits_for_code:
            self._waits_for_code = False
            self._retry.forgive()

    def begin(self) -> None:
        self.is_primary = True
        self._retry.begin_term()

    def end(self) -> None:
        self.is_primary = self.takes_calls = False

    def attempt(self, make: Callable[[], Execution | None]) -> Execution | None:
        """Return the object that *make* returns; None if it is too early to try again, or if the attempt
        fails."""
        if self._retry.wait_ns:
            return None
        try:
            return make()
        except Overloaded:
            self._ports.wake()  # records could not be read now, or there is more to load
        except DISK_ERRORS:
            raise
        except WaitsForCode as error:
            self._waits_for_code = True
            self._retry.gave_up(str(error))
            self._ports.fault("other_code", self._retry.why)
        except Exception as error:
            # The class's own code failed to make or restore the object (FTC-310): this member cannot serve.
            self._waits_for_code = False
            self._retry.failed(error)
            self._ports.fault("object_failed", self._retry.why)
        return None

    def start_calls(self) -> None:
        """Start taking calls: the object is ready."""
        self.takes_calls = True
        self.terms += 1
        self._retry.end()

    def stop_calls(self) -> None:
        """Stop taking calls: the object is gone. Calls are taken again once there is another."""
        self.takes_calls = False

    def failed_as_primary(self, why: str) -> None:
        """Record that the object was faulty. If this member is primary, another member is to try first."""
        if self.is_primary:
            self._retry.gave_up(why)

    def failed_as_backup(self, why: str) -> None:
        """Record that a backup could not load a state."""
        self._retry.failed_as_backup(why)

    def request_handover(self, why: str, *, log_below: int | None = None) -> None:
        """Let another member serve as soon as one can, because trying again here does not help: there is no
        object (E8), or no room for the results of calls. *log_below*: see :class:`.PassOn`."""
        now = self._ports.clock.now()
        if self.is_primary and now >= self._handover_not_before:
            self._handover_not_before = now + self._retry_ns
            self._ports.pass_on(why, log_below=log_below)

    def maybe_make_room(self, sequence: Sequence, config: StyleConfig, why: str) -> None:
        """Hand over if checkpoints fail here, because of *why*, and the log is full: a member whose log is
        short can read its state (E9). If all logs are full, nobody knows who can, and another tries: more and
        more seldom, because it may fare no better. That may be one that waits for this member's state, since
        there will be none. *Without it:* a class can no longer be made on the
        primary's host; its log is full, it refuses every call, and two members that could serve stand by."""
        if not self.is_primary or sequence.own_log_bytes <= config.log_bytes_max:
            return
        told = f"the log here is full, and its last checkpoint failed: {why}"
        below, now = (config.long_log_bytes + config.log_bytes_max) // 2, self._ports.clock.now()
        if sequence.successors(below):
            self.request_handover(told, log_below=below)
        elif now >= self._trial_not_before:
            if now - self._trial_not_before > TRIAL_NS:
                self._trials = 0
            self._trial_not_before = now + min(self._retry_ns << min(self._trials, 32), TRIAL_NS)
            self._trials += 1
            self._ports.pass_on(told, is_trial=True)

    def maybe_pass_on(self) -> None:
        """Let another member serve if it is time to hand over (K5). Do not call this within an event of the
        sequence."""
        if self._retry.take_handover():
            self._ports.pass_on(self._retry.why)
