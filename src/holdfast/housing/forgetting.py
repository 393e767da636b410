"""Groups that were removed, and that this host has yet to forget (:mod:`holdfast.authority.removal`).

The authority's note and the end of the record come by two ways, in either order. What is held goes when both
have been heard: before, a record that is still on its way would have the group housed anew, with nothing.
"""

from collections.abc import Callable, Hashable
from functools import partial
from itertools import islice
from typing import Final

from holdfast.authority import keys
from holdfast.authority.groups import GroupRecord
from holdfast.authority.outcome import Failure, Removed, Seen
from holdfast.authority.recipe import Recipes
from holdfast.authority.removal import FORGOTTEN_MAX, Ended, have_forgotten
from holdfast.housing.following import Following
from holdfast.housing.ports import MakeTimers, Watch
from holdfast.model.ids import GroupId, HostId, Nonce
from holdfast.model.units import MILLISECOND

RETRY_NS: Final = 200 * MILLISECOND
"""What the authority did not answer is said again after this."""


class Forgetting:
    """Of one process. *is_known*: the record of that group stands, as far as this host has heard. *forget*
    ends the group's member here, if there is one, forgets what it held, and calls back when that is
    durable."""

    def __init__(
        self,
        host: HostId,
        watch: Watch,
        recipes: Recipes,
        timers: MakeTimers,
        nonce: Callable[[], Nonce],
        is_known: Callable[[GroupId], bool],
        forget: Callable[[GroupRecord, Callable[[], None]], None],
    ) -> None:
        self._host = host
        self._recipes = recipes
        self._timers = timers(self._on_timer)
        self._nonce = nonce
        self._is_known = is_known
        self._forget = forget
        self._notes = Following(
            watch, recipes, timers, keys.ended_on(host), Ended, self._on_note, lambda key, is_removed: None
        )
        self._is_started = False
        self._noted: dict[GroupId, GroupRecord] = {}
        """Of which only the note has been heard."""
        self._forgotten: dict[GroupId, None] = {}
        """Of which the authority has yet to be told."""
        self._is_telling = False

    def start(self) -> None:
        """The records have been listed: of each that ended before, there is a note, and no record."""
        if not self._is_started:
            self._is_started = True
            self._notes.start()

    def on_gone(self, group: GroupId) -> None:
        """There is no record of the group any more."""
        record = self._noted.pop(group, None)
        if record is not None:
            self._begin(record)

    def _on_note(self, key: str, seen: Seen[Ended]) -> None:
        record = seen.value.record
        if seen.value.host != self._host:
            return  # the name of this host is the beginning of another's
        if self._is_known(record.group):
            self._noted[record.group] = record
        else:
            self._begin(record)

    def _begin(self, record: GroupRecord) -> None:
        self._forget(record, partial(self._end, record.group))

    def _end(self, group: GroupId) -> None:
        self._forgotten[group] = None
        self._tell()

    def _tell(self) -> None:
        if self._forgotten and not self._is_telling:
            self._is_telling = True
            groups = list(islice(self._forgotten, FORGOTTEN_MAX))
            recipe = have_forgotten(self._host, groups, nonce=self._nonce())
            self._recipes.start(recipe, partial(self._told, groups))

    def _told(self, groups: list[GroupId], answer: Removed | Failure) -> None:
        self._is_telling = False
        if isinstance(answer, Removed):
            for group in groups:
                del self._forgotten[group]
            self._tell()
        else:
            self._timers.set(RETRY_NS, "tell")

    def _on_timer(self, tag: Hashable) -> None:
        self._tell()
