"""What a host knows of all groups of its domain: their records, their views, and the addresses of their
hosts.

:func:`found_at_authority` asks the authority for a group that is so new that its record has not arrived here
yet.
"""

from collections.abc import Callable, Mapping
from typing import Final

from holdfast.authority import keys
from holdfast.authority.groups import GroupRecord, NoSuchName, find_group, read_group
from holdfast.authority.recipe import NoAnswer, Recipe, Recipes, Seen
from holdfast.authority.sessions import Session
from holdfast.authority.views import NoGroup, View, read_view
from holdfast.groups.informer import Informer
from holdfast.groups.ports import MakeTimers, Watch
from holdfast.model.ids import Epoch, GroupId, HostId, Nonce
from holdfast.model.reference import MemberAddress, Reference

NO_GROUP: Final = GroupId(0)
_DIGITS: Final = 20
"""The number of digits of the group id at the end of its keys."""


class GroupCatalog:
    """The records and views of all groups, as the authority reports them. *on_record*, *on_gone* and
    *on_view* are called for changes, *on_listed* once all records have been listed. *on_gone* gets what
    :class:`.informer.Informer` passes."""

    def __init__(
        self,
        watch: Watch,
        recipes: Recipes,
        timers: MakeTimers,
        *,
        on_record: Callable[[Seen[GroupRecord]], None],
        on_gone: Callable[[GroupId, bool], None],
        on_view: Callable[[Seen[View]], None],
        on_listed: Callable[[], None] = lambda: None,
    ) -> None:
        self.records: dict[GroupId, GroupRecord] = {}
        self.seen_records: dict[GroupId, Seen[GroupRecord]] = {}
        self.views: dict[GroupId, Seen[View]] = {}
        self.changes = 0
        """Increases whenever a record or a view changes."""
        self.sessions: Mapping[HostId, Session] = {}
        self._names: dict[str, GroupId] = {}
        self._nonces: dict[Nonce, GroupId] = {}
        self._placed: dict[HostId, int] = {}
        self._on_record = on_record
        self._on_gone = on_gone
        self._on_view = on_view
        self._records = Informer(
            watch, recipes, timers, keys.GROUPS, GroupRecord, self._take_record, self._lose_record, on_listed
        )
        self._views = Informer(watch, recipes, timers, keys.VIEWS, View, self._take_view, self._lose_view)

    def start(self) -> None:
        """Follow the authority from now on, for as long as the host lives."""
        self._records.start()
        self._views.start()

    def find(self, name: str) -> GroupId | None:
        return self._names.get(name)

    def made_by(self, nonce: Nonce) -> GroupRecord | None:
        """Return the group that the request with this nonce created."""
        return self.records.get(self._nonces.get(nonce, NO_GROUP))

    def placed_on(self, host: HostId) -> int:
        """Return how many groups shall have a member on *host*."""
        return self._placed.get(host, 0)

    def members(self, group: GroupId) -> tuple[HostId, ...]:
        """Return the hosts of the group's members by the newest known view, whether in session or not."""
        seen = self.views.get(group)
        return tuple(each.host for each in seen.value.members) if seen is not None else ()

    def others(self, host: HostId, group: GroupId) -> list[HostId]:
        """Return the hosts of the group's other members than that on *host*, the primary's first."""
        seen = self.views.get(group)
        primary = seen.value.primary if seen is not None else None
        others = (each for each in self.members(group) if each != host)
        return sorted(others, key=lambda each: each != primary)

    def learn(self, seen: Seen[View]) -> None:
        """Take a current or former view of the authority; views older than the known one are ignored."""
        view = seen.value
        known = self.views.get(view.group)
        if known is None or known.value.epoch < view.epoch:
            self.changes += 1
            self.views[view.group] = seen
            self._on_view(seen)

    def reference(self, group: GroupId, newer: View | None = None) -> Reference | None:
        """Return a reference to *group* by the newest known view; *newer* is a view that a member here
        knows."""
        record, seen = self.records.get(group), self.views.get(group)
        view = seen.value if seen is not None else None
        if newer is not None and (view is None or newer.epoch > view.epoch):
            view = newer
        return self.reference_of(record, view) if record is not None and view is not None else None

    def version(self, group: GroupId, newer: View | None = None) -> Epoch | None:
        """Return the version of :meth:`reference` alone. Every frame of calls needs it, and hardly any needs
        the rest."""
        seen = self.views.get(group)
        if group not in self.records or (seen is None and newer is None):
            return None
        known = seen.value.epoch if seen is not None else Epoch(0)
        return known if newer is None or known >= newer.epoch else newer.epoch

    def reference_of(self, record: GroupRecord, view: View) -> Reference:
        """Return the reference for *view*, with the addresses of those of its hosts that are in session."""
        members = tuple(
            MemberAddress(member.host, self.sessions[member.host].address)
            for member in view.members
            if member.host in self.sessions
        )
        return Reference(record.group, record.name or str(record.group), view.epoch, view.primary, members)

    def _take_record(self, key: str, seen: Seen[GroupRecord]) -> None:
        record = seen.value
        if record.group in self.records:
            self._forget(record.group)
        self.changes += 1
        self.records[record.group] = record
        self.seen_records[record.group] = seen
        self._nonces[record.nonce] = record.group
        self._count(record, 1)
        if record.name:
            self._names[record.name] = record.group
        self._on_record(seen)

    def _lose_record(self, key: str, is_removed: bool) -> None:
        group = _group_of(key)
        self.changes += 1
        self._forget(group)
        self._on_gone(group, is_removed)

    def _forget(self, group: GroupId) -> None:
        record = self.records.pop(group)
        del self.seen_records[group]
        self._nonces.pop(record.nonce, None)
        self._count(record, -1)
        if self._names.get(record.name) == group:
            del self._names[record.name]

    def _count(self, record: GroupRecord, step: int) -> None:
        for host in record.placed_on:
            self._placed[host] = self._placed.get(host, 0) + step

    def _take_view(self, key: str, seen: Seen[View]) -> None:
        self.learn(seen)

    def _lose_view(self, key: str, is_removed: bool) -> None:
        self.views.pop(_group_of(key), None)


def _group_of(key: str) -> GroupId:
    return GroupId(int(key[-_DIGITS:]))


Found = tuple[GroupRecord, View] | GroupRecord | NoSuchName | NoGroup | NoAnswer
"""The result of a search. A record alone means that the group exists and has no members yet."""


def found_at_authority(name: str, group: GroupId) -> Recipe[Found]:
    """Ask the authority for the group called *name*, or for the group with id *group* if there is no name."""
    record = yield from (find_group(name) if name else read_group(group))
    if not isinstance(record, Seen):
        return record
    view = yield from read_view(record.value.group)
    if isinstance(view, NoGroup) and not record.value.is_begun:
        return record.value
    return (record.value, view.value) if isinstance(view, Seen) else view
