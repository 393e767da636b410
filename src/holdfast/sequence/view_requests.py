"""A member's questions to the authority: which view stands, and its one change of it (A1, A5, M2).

A read without an answer is made again. A change without one is asked for again, the same with the same nonce,
until it is definitely won or lost; nothing else is asked meanwhile.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from holdfast.authority.recipe import InDoubt, NoAnswer, Seen
from holdfast.authority.views import IdentityChanged, Lost, NoGroup, Unmet, View, ViewChange, read_view
from holdfast.model.ids import MILLISECOND, Epoch
from holdfast.sequence.member_state import MemberState, MemberTimer, MemberTimers

RETRY_NS: Final = 100 * MILLISECOND
"""A question that was not answered is asked again after about this."""


class ViewRequests:
    """*on_read* gets a view that stands; *on_won*, or *on_lost* with what stands instead, or *on_unmet* when
    it was given what does not hold, ends a change; *on_hopeless* the member."""

    def __init__(
        self,
        footing: MemberState,
        alarms: MemberTimers,
        *,
        on_read: Callable[[Seen[View]], None],
        on_won: Callable[[Seen[View]], None],
        on_lost: Callable[[Seen[View]], None],
        on_unmet: Callable[[], None],
        on_hopeless: Callable[[str], None],
    ) -> None:
        self._on = footing
        self._alarms = alarms
        self._on_read = on_read
        self._on_won = on_won
        self._on_lost = on_lost
        self._on_unmet = on_unmet
        self._on_hopeless = on_hopeless
        self._is_reading = False
        self._rng = footing.ports.random.stream(f"sequence/{footing.group}")

    def read(self) -> None:
        if self._is_reading:
            return
        self._is_reading = True
        on = self._on
        # What is followed while the answer is on its way may well be later than the answer.
        on.ports.recipes.start(read_view(on.group), partial(self._answered, on.store.followed))

    def change(self, wanted: ViewChange) -> None:
        """Ask for *wanted*, which is the pending change of the footing's standing."""
        self._on.ports.claims.ask(wanted, partial(self._changed, wanted))

    def change_again(self) -> None:
        if self._on.standing.pending is not None:
            self.change(self._on.standing.pending)

    def _answered(self, followed: Epoch, answer: Seen[View] | NoGroup | NoAnswer) -> None:
        self._is_reading = False
        if isinstance(answer, NoAnswer):
            self._alarms.set(MemberTimer.READ, self._retry_ns())
        elif isinstance(answer, NoGroup):
            self._on_hopeless("the group does not exist any more")
        elif followed > answer.value.epoch:
            said = f"the log has followed epoch {followed}, the authority knows {answer.value.epoch} (A5)"
            self._on_hopeless(said)
        else:
            self._on_read(answer)

    def _changed(
        self, wanted: ViewChange, answer: Seen[View] | Lost | Unmet | IdentityChanged | InDoubt
    ) -> None:
        on = self._on
        if on.standing.pending is not wanted:
            return
        if isinstance(answer, InDoubt):
            self._alarms.set(MemberTimer.CHANGE, self._retry_ns())
            return
        on.standing.pending = None
        if isinstance(answer, Seen):
            self._on_won(answer)
        elif isinstance(answer, Unmet):
            self._on_unmet()
        elif isinstance(answer, IdentityChanged):
            self._on_hopeless("the authority was restored; everything must be read again (A5)")
        elif answer.standing is None:
            self._on_hopeless("the group does not exist any more")
        elif answer.standing.value.epoch <= wanted.seen.value.epoch:
            self._on_hopeless("the authority has gone back to an older view (A5)")
        else:
            self._on_lost(answer.standing)

    def _retry_ns(self) -> int:
        return RETRY_NS // 2 + self._rng.randrange(RETRY_NS)
