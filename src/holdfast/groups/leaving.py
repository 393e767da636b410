"""Groups that shall have no member on this host any more (M6).

A host that is told to leave a group stays a member as long as the view lists it: what it holds may be the
last. Once it is not listed, and, by the record that told it to go, cannot come to be again, it forgets what
it held, durably, and only then removes its entry from the record: so nobody lets it in again before.
*Without the first:* A* {A,B}; B is told to leave and forgets; A burns; nobody has what was acknowledged.
*Without the last:* B has left, and is added again while its log still goes; A lets it in by what it
acknowledged before.

Groups that were removed, and that this host has yet to forget (:mod:`holdfast.authority.removal`).

The authority's note and the end of the record come by two ways, in either order. What is held goes when both
have been heard: before, a record that is still on its way would have the group housed anew, with nothing.
"""

import enum
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Final

from holdfast.authority import keys
from holdfast.authority.groups import GroupRecord
from holdfast.authority.placement import IsListed, MayForget, Stays, have_left, may_forget
from holdfast.authority.recipe import Failure, Recipes, Removed, Seen
from holdfast.authority.removal import FORGOTTEN_MAX, Ended, have_forgotten
from holdfast.groups.informer import Informer
from holdfast.groups.ports import MakeTimers, Watch
from holdfast.model.ids import MILLISECOND, GroupId, HostId, Nonce

RETRY_NS: Final = 200 * MILLISECOND
"""What the authority did not answer is asked again after this."""


class _Step(enum.Enum):
    ASKING = "asking"
    """Whether the view lists this host."""
    LISTED = "listed"
    """It does: the next view may not."""
    FORGETTING = "forgetting"
    TELLING = "telling"
    """What was held is forgotten; the record is to say so."""
    TOLD = "told"
    """It does; what the watch still tells of it may be older."""


@dataclass(slots=True)
class _Leave:
    record: GroupRecord
    number: int
    """Of the stay that ends."""
    nonce: Nonce
    step: _Step = _Step.ASKING
    is_news: bool = False
    """A view came while the last one was asked for."""


class LeavingGroups:
    """Of one process. *forget* ends the group's member here, if there is one, forgets what it held, and calls
    back when that is durable; *look_again* has the newest record of the group told once more: one that places
    the group here anew may have come while this host had not heard yet that it has left."""

    def __init__(
        self,
        host: HostId,
        recipes: Recipes,
        timers: MakeTimers,
        nonce: Callable[[], Nonce],
        forget: Callable[[GroupRecord, Callable[[], None]], None],
        look_again: Callable[[GroupId], None],
    ) -> None:
        self._host = host
        self._recipes = recipes
        self._timers = timers(self._on_timer)
        self._nonce = nonce
        self._forget = forget
        self._look_again = look_again
        self._leaves: dict[GroupId, _Leave] = {}

    def is_forgetting(self, group: GroupId) -> bool:
        """Whether its member has ended here: none is to be begun before the changed record is heard of."""
        leave = self._leaves.get(group)
        return leave is not None and leave.step not in (_Step.ASKING, _Step.LISTED)

    def on_record(self, record: GroupRecord) -> None:
        entry, known = record.placement(self._host), self._leaves.get(record.group)
        if known is not None and known.step is _Step.TOLD:
            if entry is not None and entry.number == known.number:
                return
            del self._leaves[record.group]
        if entry is not None and entry.is_leaving and record.group not in self._leaves:
            self._leaves[record.group] = leave = _Leave(record, entry.number, self._nonce())
            self._ask(leave)

    def on_view(self, group: GroupId) -> None:
        """The group has a new view."""
        leave = self._leaves.get(group)
        if leave is None:
            return
        if leave.step is _Step.LISTED:
            self._ask(leave)
        else:
            leave.is_news = True

    def on_gone(self, group: GroupId) -> None:
        """There is no such group any more."""
        self._leaves.pop(group, None)

    def _ask(self, leave: _Leave) -> None:
        leave.step, leave.is_news = _Step.ASKING, False
        recipe = may_forget(leave.record.group, self._host)
        self._recipes.start(recipe, partial(self._answered, leave))

    def _answered(self, leave: _Leave, answer: MayForget | IsListed | Stays | Failure) -> None:
        group = leave.record.group
        if self._leaves.get(group) is not leave:
            return
        match answer:
            case Stays():
                del self._leaves[group]
            case MayForget():
                leave.step = _Step.FORGETTING
                self._forget(leave.record, partial(self._forgotten, leave))
            case IsListed() if not leave.is_news:
                leave.step = _Step.LISTED
            case IsListed():
                self._ask(leave)
            case _:
                self._timers.set(RETRY_NS, group)

    def _forgotten(self, leave: _Leave) -> None:
        if self._leaves.get(leave.record.group) is leave:
            leave.step = _Step.TELLING
            self._tell(leave)

    def _tell(self, leave: _Leave) -> None:
        recipe = have_left(leave.record.group, self._host, number=leave.number, nonce=leave.nonce)
        self._recipes.start(recipe, partial(self._told, leave))

    def _told(self, leave: _Leave, answer: Stays | Failure) -> None:
        group = leave.record.group
        if self._leaves.get(group) is not leave:
            return
        if isinstance(answer, Stays):
            leave.step = _Step.TOLD
            self._look_again(group)
        else:
            self._timers.set(RETRY_NS, group)

    def _on_timer(self, tag: Hashable) -> None:
        assert isinstance(tag, int)
        leave = self._leaves.get(GroupId(tag))
        if leave is None:
            return
        if leave.step is _Step.ASKING:
            self._ask(leave)
        elif leave.step is _Step.TELLING:
            self._tell(leave)


"""What the authority did not answer is said again after this."""


class RemovedGroups:
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
        self._notes = Informer(
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
