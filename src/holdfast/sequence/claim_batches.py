"""Sends the view changes of one host's members to the authority in as few transactions as possible (K4).

When a host dies, somebody must claim each group of which it was primary. All changes that are requested in
one turn, or while earlier transactions are under way, share transactions of up to ``VIEWS_PER_TXN_MAX``
changes. If a transaction is refused because some of its views have changed, it is sent again without those
(:func:`.views.change_views`), so no claim fails because of another. Each change has its own result: won, lost
to the view that stands, or in doubt. A change in doubt is requested again with the same nonce (A1).

What the members here see of other hosts' claims is kept here, too, for those that wait for their turn.
"""

from collections.abc import Callable, Hashable
from functools import partial
from itertools import islice
from typing import Final

from holdfast.authority.identity import Identity
from holdfast.authority.recipe import InDoubt, Recipes, Seen
from holdfast.authority.views import (
    VIEWS_PER_TXN_MAX,
    IdentityChanged,
    Lost,
    Unmet,
    View,
    ViewChange,
    ViewChanges,
    change_views,
)
from holdfast.model.errors import invariant
from holdfast.model.ids import GroupId, HostId
from holdfast.model.ports import Timers, Trace

TRANSACTIONS_MAX: Final = 4
"""How many transactions of one host may be under way: enough to hide the latency of the authority, few enough
that later changes gather into batches.
"""
_SEND: Final = "send"

Answer = Seen[View] | Lost | Unmet | IdentityChanged | InDoubt
Then = Callable[[Answer], None]


class ClaimBatches:
    """Collects and sends the view changes of one host.

    Its size is bounded by the number of members, since each member has one change under way.
    """

    def __init__(
        self,
        recipes: Recipes,
        timers: Callable[[Callable[[Hashable], None]], Timers],
        identity: Callable[[], Seen[Identity]],
        trace: Trace,
        *,
        per_transaction: int = VIEWS_PER_TXN_MAX,
        under_way: int = TRANSACTIONS_MAX,
    ) -> None:
        self._recipes = recipes
        self._timers = timers(self._on_timer)
        self._identity = identity
        self._trace = trace
        self._per_transaction = per_transaction
        self._under_way_max = under_way
        self._waiting: dict[GroupId, tuple[ViewChange, Then]] = {}
        self._claimed_at: dict[tuple[HostId, HostId], int] = {}
        self._under_way = 0
        self._is_turn_asked = False

    @property
    def waiting(self) -> int:
        """How many changes are not sent yet."""
        return len(self._waiting)

    def ask(self, wanted: ViewChange, then: Then) -> None:
        """Request *wanted* at the end of this turn; *then* is called once, with the answer to this change.

        A later change of the same group replaces one that was not sent yet, because the member that requested
        the earlier one is gone.
        """
        self._waiting[wanted.new.group] = (wanted, then)
        self._ask_turn()

    def note_claimed(self, claimant: HostId, of: HostId, at: int) -> None:
        """Note that at *at* a member here learned that *claimant* has taken its group from the host *of*."""
        self._claimed_at[claimant, of] = at

    def claimed_at(self, claimant: HostId, of: HostId) -> int:
        """When *claimant* was last seen to take a group of the host *of*: it is at work on its groups."""
        return self._claimed_at.get((claimant, of), 0)

    def _ask_turn(self) -> None:
        if self._waiting and not self._is_turn_asked and self._under_way < self._under_way_max:
            self._is_turn_asked = True
            self._timers.set(0, _SEND)

    def _on_timer(self, _: Hashable) -> None:
        self._is_turn_asked = False
        while self._waiting and self._under_way < self._under_way_max:
            groups = list(islice(self._waiting, self._per_transaction))
            batch = {group: self._waiting.pop(group) for group in groups}
            self._under_way += 1
            if len(batch) > 1:
                self._trace.note("changes", groups=len(batch), waiting=len(self._waiting))
            recipe = change_views([wanted for wanted, _ in batch.values()], identity=self._identity())
            self._recipes.start(recipe, partial(self._answered, batch))

    def _answered(
        self, batch: dict[GroupId, tuple[ViewChange, Then]], answer: ViewChanges | IdentityChanged
    ) -> None:
        self._under_way -= 1
        # This comes before the answers: what they trigger requests another turn by itself, and only once.
        self._ask_turn()
        if isinstance(answer, IdentityChanged):
            for _, then in batch.values():
                then(answer)
            return
        for seen in answer.won:
            batch.pop(seen.value.group)[1](seen)
        for lost in answer.lost:
            batch.pop(lost.group)[1](lost)
        for unmet in answer.unmet:
            batch.pop(unmet.group)[1](unmet)
        for wanted in answer.in_doubt:
            then = batch.pop(wanted.new.group)[1]
            then(InDoubt(wanted.new.nonce, "no answer to the change of a view"))
        invariant(not batch, "every change that was asked for is answered")
