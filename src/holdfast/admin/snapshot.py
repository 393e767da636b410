"""What a host knows of its domain, as the desired and observed states that a plan is made from.

It also resolves locations by name: a location is a failure domain, and so is each single host (FTC-170).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

import msgspec

from holdfast.authority.groups import GroupRecord
from holdfast.authority.sessions import Session
from holdfast.authority.views import View
from holdfast.control.desired.state import DomainState
from holdfast.control.replication.spec import DesiredState, GroupFact, GroupSpec, HostFact, ObservedState
from holdfast.faults.events import Location
from holdfast.groups.catalog import GroupCatalog
from holdfast.model.admin.errors import MemberNotFound
from holdfast.model.admin.objects import GroupReference, MemberInfo
from holdfast.model.ids import Epoch, HostId, Nonce
from holdfast.model.ports import Clock
from holdfast.model.properties import LOCATION_PARTS_MAX, is_within
from holdfast.model.system_groups import is_system

WISHES_KEPT_MAX: Final = 1_000
"""How many different specifications to cache; most groups of a domain have the same."""


class DomainSnapshot:
    """The state of the domain as one host sees it.

    It measures by its own clock how long hosts have been gone, so a new coordinator starts to count from
    zero.
    """

    def __init__(
        self,
        catalog: GroupCatalog,
        hosts: Sequence[HostId],
        clock: Clock,
        *,
        loss_ns: int,
        removed: Callable[[], tuple[HostId, ...]],
    ) -> None:
        """*hosts* are those of all machines, and may grow; *removed* returns those that have left."""
        self._catalog = catalog
        self._hosts = hosts
        self._clock = clock
        self._loss_ns = loss_ns
        self._removed = removed
        self._gone_since: dict[HostId, int] = {}
        self._known: dict[HostId, Session] = {}
        """The last session of each host: where it is and what it is for stay known while it is gone."""

    def look(self) -> tuple[HostFact, ...]:
        """The domain's hosts, as they are now."""
        now, removed = self._clock.now(), self._removed()
        sessions = {host: each for host, each in self._catalog.sessions.items() if host not in removed}
        for host, session in sessions.items():
            self._known[host] = session
            self._gone_since.pop(host, None)
        # A host that was added later appears only in the descriptions of processes started since.
        hosts = [host for host in {**dict.fromkeys(self._hosts), **self._known} if host not in removed]
        for host in hosts:
            if host not in sessions:
                self._gone_since.setdefault(host, now)
        return tuple(self._fact(host, now) for host in sorted({*hosts, *sessions}))

    def _fact(self, host: HostId, now: int) -> HostFact:
        known = self._known.get(host)
        if known is None:
            return HostFact(host, host, self._gone_ns(host, now))
        return HostFact(host, location_of(known), self._gone_ns(host, now), known.roles)

    def lost(self) -> tuple[HostId, ...]:
        """The hosts that are considered lost by now."""
        return tuple(each.host for each in self.look() if each.gone_ns >= self._loss_ns)

    def facts(self) -> ObservedState:
        """A snapshot of all groups that have a view or have not begun; it does not follow later changes."""
        views = self._catalog.views
        found: list[GroupFact] = []
        for group, seen in self._catalog.seen_records.items():
            record, view = seen.value, views.get(group)
            if view is not None or not record.is_begun:
                found.append(GroupFact(record, view.value if view else _no_view(record), seen.modified))
        return ObservedState(self.look(), tuple(found))

    def wishes(self, facts: ObservedState, state: DomainState) -> DesiredState:
        places = len(self._places(facts, state))
        return DesiredState(
            {each.record.group: _fitting(each.record, state, places) for each in facts.groups},
            draining=frozenset(state.draining),
            removed=frozenset(state.removed),
            loss_ns=self._loss_ns,
        )

    def _places(self, facts: ObservedState, state: DomainState) -> dict[str, None]:
        """The locations where members can be, one member each."""
        return {
            each.location: None
            for each in facts.hosts
            if each.gone_ns < self._loss_ns and state.takes_members(each.host)
        }

    def _gone_ns(self, host: HostId, now: int) -> int:
        since = self._gone_since.get(host)
        return 0 if since is None else max(now - since, 1)


def _fitting(record: GroupRecord, state: DomainState, places: int) -> GroupSpec:
    """A group's specification. The domain's own groups may be on any host, and their minimum is limited to
    the places there are."""
    wish = wish_of(record, state)
    if is_system(record.name):
        return replace(wish, minimum=min(wish.initial, max(places, 1)), role="")
    return wish


def _no_view(record: GroupRecord) -> View:
    """An empty view for a group that has not begun."""
    return View(group=record.group, epoch=Epoch(0), primary=HostId(""), members=(), nonce=Nonce(""))


def location_of(session: Session) -> str:
    """The failure domain that a host says it is in; without one, it is a location of its own."""
    return session.location


def host_fact(session: Session) -> HostFact:
    """A living host."""
    return HostFact(session.host, location_of(session), roles=session.roles)


def wish_of(record: GroupRecord, state: DomainState) -> GroupSpec:
    """A group's effective specification (FTC-167).

    What was set while it ran takes precedence over what it was made with, and that over what is built in. The
    domain's defaults and its class's properties took effect when it was made.
    """
    own = state.of_group(record.group)
    if not own:
        return _wish(record.properties)
    return GroupSpec.of(made_with_of(record), own).with_tuned(own)


def made_with_of(record: GroupRecord) -> dict[str, Any]:
    """The properties that a group was made with, on all levels."""
    return msgspec.json.decode(record.properties, type=dict[str, Any])


@lru_cache(maxsize=WISHES_KEPT_MAX)
def _wish(properties: str) -> GroupSpec:
    return GroupSpec.of(msgspec.json.decode(properties, type=dict[str, Any]))


Sessions = Mapping[HostId, Session]
LOCATIONS_KEPT: Final = 1_024
"""How many locations to cache: when a host dies, a thousand reports name its location."""


def hosts_at(place: str, sessions: Sessions) -> list[HostId]:
    """The live hosts that *place* names: one host, or all hosts of a region."""
    if place in sessions:
        return [HostId(place)]
    return sorted(host for host, session in sessions.items() if is_within(location_of(session), place))


def member_at(record: GroupRecord, place: str, sessions: Sessions) -> HostId:
    """The host of the group's member at *place*. Raises :class:`MemberNotFound`."""
    if record.placement(HostId(place)) is not None:
        return HostId(place)
    found = next((host for host in hosts_at(place, sessions) if host in record.placed_on), None)
    if found is None:
        there = ", ".join(record.placed_on) or "nowhere"
        raise MemberNotFound(f"{record.name} has no member on {place}; its members are on {there}")
    return found


def location_known(host: HostId, sessions: Sessions) -> str:
    return location_of(sessions[host]) if host in sessions else host


def reference_to(domain: str, record: GroupRecord, view: View | None, sessions: Sessions) -> GroupReference:
    """The group's reference, the primary first (FTC-201)."""
    primary = view.primary if view is not None else HostId("")
    in_sync = {member.host: None for member in view.members} if view is not None else {}
    hosts = sorted(record.placed_on, key=lambda host: (host != primary, host not in in_sync))
    return GroupReference(
        domain=domain,
        name=record.name,
        group=record.group,
        version=view.epoch if view is not None else Epoch(0),
        members=tuple(
            MemberInfo(
                location=location_known(host, sessions),
                host=host,
                address=sessions[host].address if host in sessions else "",
                is_primary=host == primary,
                in_sync=host in in_sync,
                own=entry.own,
            )
            for host in hosts
            if (entry := record.placement(host)) is not None
        ),
    )


@lru_cache(maxsize=LOCATIONS_KEPT)
def fault_location(host: HostId, region: str) -> Location:
    """The location of a host's objects: its failure domain, if it has named one, then the host itself."""
    ids = [each for each in region.split("/") if each][: LOCATION_PARTS_MAX - 1]
    if not ids or ids[-1] != host:
        ids.append(host)
    return Location.parse("/".join(ids), *("" for _ in ids[:-1]), "hostname")
