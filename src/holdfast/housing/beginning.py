"""Groups that were made without members: the first host that is placed begins them (FTC-213, FTC-233).

Of several that try, the authority lets one win; the others find its view and join. Nobody begins a group that
it holds something of, or that was made before the authority was restored: it may have begun already, and what
is held must not be passed over in favour of nothing (A5).
"""

from collections.abc import Callable, Hashable
from functools import partial
from typing import Final

from holdfast.authority.groups import GroupRecord, Restored, begin_group
from holdfast.authority.outcome import Failure, Seen
from holdfast.authority.recipe import Recipes
from holdfast.authority.views import NoGroup, View, ViewMember
from holdfast.housing.ports import MakeTimers
from holdfast.model.ids import GroupId, HostId, Nonce
from holdfast.model.ports import Clock, Trace
from holdfast.model.units import MILLISECOND

RETRY_NS: Final = 200 * MILLISECOND
"""What the authority did not answer is asked again after this."""


class Beginning:
    """Of one process. *member_of* says who it is in a group it houses, None when it may not begin that one;
    *learn* is told the view that stands."""

    def __init__(
        self,
        host: HostId,
        recipes: Recipes,
        timers: MakeTimers,
        clock: Clock,
        trace: Trace,
        nonce: Callable[[], Nonce],
        *,
        member_of: Callable[[GroupId], ViewMember | None],
        learn: Callable[[Seen[View]], None],
    ) -> None:
        self._host = host
        self._recipes = recipes
        self._timers = timers(self._on_timer)
        self._clock = clock
        self._trace = trace
        self._nonce = nonce
        self._member_of = member_of
        self._learn = learn
        self._under_way: dict[GroupId, Nonce] = {}

    def on_record(self, record: GroupRecord) -> None:
        """Begin the group, if that is for this host to do."""
        is_ours = not record.is_begun and self._host in record.placed_on
        if is_ours and record.group not in self._under_way:
            self._under_way[record.group] = self._nonce()
            self._ask(record.group)

    def _ask(self, group: GroupId) -> None:
        member = self._member_of(group)
        if member is None:
            del self._under_way[group]
            return
        nonce = self._under_way[group]
        recipe = begin_group(group, member, at_ns=self._clock.wall(), nonce=nonce)
        self._recipes.start(recipe, partial(self._answered, group))

    def _answered(self, group: GroupId, answer: Seen[View] | NoGroup | Restored | Failure) -> None:
        match answer:
            case Seen():
                del self._under_way[group]
                self._trace.note("begun", group=group, primary=answer.value.primary)
                self._learn(answer)
            case NoGroup() | Restored():
                del self._under_way[group]
            case _:
                self._timers.set(RETRY_NS, group)

    def _on_timer(self, tag: Hashable) -> None:
        assert isinstance(tag, int)
        self._ask(GroupId(tag))
