"""A member's requests to the authority: which view is in force, and the one change it wants (A1, A5, M2).

A read without an answer is repeated. A change without an answer is requested again, with the same nonce,
until it is definitely won or lost; the member requests no other change in the meantime.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from holdfast.authority.recipe import InDoubt, NoAnswer, Seen
from holdfast.authority.views import IdentityChanged, Lost, NoGroup, Unmet, View, ViewChange, read_view
from holdfast.model.ids import MILLISECOND, Epoch
from holdfast.sequence.member_state import MemberState, MemberTimer, MemberTimers

RETRY_NS: Final = 100 * MILLISECOND
"""A request without an answer is repeated after about this time."""


class ViewRequests:
    """Sends one member's requests, and reports the results.

    *on_read* gets a view that was read. A change ends with *on_won*; or with *on_lost*, which gets the view
    in force instead; or with *on_unmet*, if its condition does not hold. *on_fatal* ends the member.
    *on_never_issued* gets an epoch that was heard of although nobody has won it, and the view in force.
    """

    def __init__(
        self,
        state: MemberState,
        alarms: MemberTimers,
        *,
        on_read: Callable[[Seen[View]], None],
        on_won: Callable[[Seen[View]], None],
        on_lost: Callable[[Seen[View]], None],
        on_unmet: Callable[[], None],
        on_fatal: Callable[[str], None],
        on_never_issued: Callable[[Epoch, View], None],
    ) -> None:
        self._on = state
        self._alarms = alarms
        self._on_read = on_read
        self._on_won = on_won
        self._on_lost = on_lost
        self._on_unmet = on_unmet
        self._on_fatal = on_fatal
        self._on_never_issued = on_never_issued
        self._is_reading = False
        self._rng = state.ports.random.stream(f"sequence/{state.group}")

    def read(self) -> None:
        if self._is_reading:
            return
        self._is_reading = True
        on = self._on
        # Note the epochs known now: by the time of the answer there may be later ones.
        then = partial(self._answered, on.store.followed(), on.heard_epoch)
        on.ports.recipes.start(read_view(on.group), then)

    def change(self, wanted: ViewChange) -> None:
        """Request *wanted*, which is the pending change in the member's view state."""
        self._on.ports.claims.ask(wanted, partial(self._changed, wanted))

    def change_again(self) -> None:
        if self._on.standing.pending is not None:
            self.change(self._on.standing.pending)

    def _answered(self, followed: Epoch, heard: Epoch, answer: Seen[View] | NoGroup | NoAnswer) -> None:
        self._is_reading = False
        if isinstance(answer, NoAnswer):
            self._alarms.set(MemberTimer.READ, self._retry_ns())
        elif isinstance(answer, NoGroup):
            self._on_fatal("the group does not exist any more")
        elif followed > answer.value.epoch:
            said = f"the log has followed epoch {followed}, the authority knows {answer.value.epoch} (A5)"
            self._on_fatal(said)
        else:
            if heard > answer.value.epoch:
                # Whoever speaks in an epoch has won it before, and this was read afterwards.
                self._on_never_issued(heard, answer.value)
            elif self._on.heard_epoch > answer.value.epoch:
                self._alarms.ensure(MemberTimer.READ, self._retry_ns())
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
            self._on_fatal("the authority was restored; everything must be read again (A5)")
        elif answer.standing is None:
            self._on_fatal("the group does not exist any more")
        elif answer.standing.value.epoch <= wanted.seen.value.epoch:
            self._on_fatal("the authority has gone back to an older view (A5)")
        else:
            self._on_lost(answer.standing)

    def _retry_ns(self) -> int:
        return RETRY_NS // 2 + self._rng.randrange(RETRY_NS)
