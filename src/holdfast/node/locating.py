"""Places by their names: a location is a region of faults, and a host is one too (FTC-170)."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from holdfast.authority.groups import GroupRecord
from holdfast.authority.sessions import Session
from holdfast.authority.views import View
from holdfast.faults.events import Location
from holdfast.model.ids import Epoch, HostId
from holdfast.model.membership import MemberNotFound
from holdfast.model.object_orders import GroupReference, MemberInfo
from holdfast.model.properties import LOCATION_PARTS_MAX, is_within
from holdfast.node.census import location_of

Sessions = Mapping[HostId, Session]
LOCATIONS_KEPT: Final = 1_024
"""When a host dies, a thousand reports name its location."""


def hosts_at(place: str, sessions: Sessions) -> list[HostId]:
    """The living hosts that *place* names: one host, or all of a region, by name."""
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
    """Where the objects of a host are: in its region of faults, if it said that it is in one, and then the
    host itself."""
    ids = [each for each in region.split("/") if each][: LOCATION_PARTS_MAX - 1]
    if not ids or ids[-1] != host:
        ids.append(host)
    return Location.parse("/".join(ids), *("" for _ in ids[:-1]), "hostname")
