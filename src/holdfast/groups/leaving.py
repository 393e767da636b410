"""How a host stops being part of a group: it is told to leave (M6), or the group is removed.

:class:`LeavingGroups` handles a host that is told to leave. The host stays a member as long as the view lists
it, because its copy may be the last. Once the view does not list it, and the record that told it to leave
keeps it from being listed again, it durably forgets what it held. Only then does it remove its entry from the
record, so nobody adds it again before. *Without the first:* A* {A,B}. B is told to leave and forgets. A
burns, and nobody has what was acknowledged. *Without the last:* B has left, and is added again while its log
is still being deleted. A lists it because of what it acknowledged before.

:class:`RemovedGroups` handles groups that were removed and that this host has yet to forget
(:mod:`holdfast.authority.removal`). The authority's note and the removal of the record arrive independently,
in either order. The host forgets what it held when both have arrived. If it forgot earlier, a record that is
still on its way would make it host the group again, with nothing.
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
"""The pause before a request that the authority did not answer is repeated."""


class _Step(enum.Enum):
    ASKING = "asking"
    """The authority is asked whether the view lists this host."""
    LISTED = "listed"
    """The view lists this host; a later view may not."""
    FORGETTING = "forgetting"
    TELLING = "telling"
    """The data is forgotten; the record has yet to say so."""
    TOLD = "told"
    """The record says so. The watch may still deliver older versions of it."""


@dataclass(slots=True)
class _Leave:
    record: GroupRecord
    number: int
    """The number of the stay that ends."""
    nonce: Nonce
    step: _Step = _Step.ASKING
    is_news: bool = False
    """A new view arrived while the authority was being asked."""


class LeavingGroups:
    """The groups that this process is leaving. *forget* ends the group's member here, if there is one,
    forgets what it held, and calls back once that is durable. *look_again* processes the group's newest
    record again, because a record that places the group here anew may have arrived before this host knew that
    it had left."""

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
        """Whether the group's member here has ended. No new one may start until the changed record has
        arrived."""
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
        """Ask again whether this host may leave, because the group has a new view."""
        leave = self._leaves.get(group)
        if leave is None:
            return
        if leave.step is _Step.LISTED:
            self._ask(leave)
        else:
            leave.is_news = True

    def on_gone(self, group: GroupId) -> None:
        """Stop leaving a group that no longer exists."""
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


class RemovedGroups:
    """The removed groups that this process has yet to forget. *is_known* says whether this host still sees
    the group's record. *forget* ends the group's member here, if there is one, forgets what it held, and
    calls back once that is durable."""

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
        """Groups whose note has arrived, but whose record is not gone yet."""
        self._forgotten: dict[GroupId, None] = {}
        """Forgotten groups that have yet to be reported to the authority."""
        self._is_telling = False

    def start(self) -> None:
        """Start following the notes, once all records are listed. A group that was removed earlier has a note
        and no record."""
        if not self._is_started:
            self._is_started = True
            self._notes.start()

    def on_gone(self, group: GroupId) -> None:
        """Forget the group if its note has arrived, now that its record is gone."""
        record = self._noted.pop(group, None)
        if record is not None:
            self._begin(record)

    def _on_note(self, key: str, seen: Seen[Ended]) -> None:
        record = seen.value.record
        if seen.value.host != self._host:
            return  # this host's name is a prefix of another's
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
