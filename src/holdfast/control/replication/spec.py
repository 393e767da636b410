"""The desired and the observed state of the domain: everything that a plan is made from (T1).

The desired state consists of the properties in effect and the hosts to drain. The observed state is what the
authority knows: which hosts are alive, and each group's record and view. These are plain values; nothing here
decides.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from holdfast.authority.groups import GroupRecord
from holdfast.authority.views import View
from holdfast.model.host_roles import DEFAULT_ROLES, GROUPS
from holdfast.model.ids import SECOND, GroupId, HostId, Revision
from holdfast.model.properties import (
    FACTORIES,
    INITIAL_NUMBER,
    MEMBERSHIP_STYLE,
    MINIMUM_NUMBER,
    OF_HOSTS,
    PLACES,
    MembershipStyle,
    Properties,
    merged,
)

LOSS_NS: Final = 10 * SECOND
"""A host without a session for this long is considered lost, and its members are created elsewhere. An agent
restarts a crashed host within a second, and copying its data costs more than waiting."""
UNWRITTEN: Final = Revision(0)
"""The revision of a record that is not at the authority, so nothing can be done to it."""


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """The properties of one group in effect that concern its members."""

    membership: MembershipStyle = MembershipStyle.MEMB_INF_CTRL
    initial: int = 3
    minimum: int = 2
    locations: tuple[str, ...] = ()
    """Where factories can create members (FTC-148); empty if every host can."""
    hosts: tuple[HostId, ...] = ()
    """The hosts that are to have its members, and no others (W2); empty if the planner chooses."""
    never_lead: tuple[HostId, ...] = ()
    """Those of the named hosts whose members never lead (W3)."""
    role: str = GROUPS
    """The role that a host must have for its members; empty if any host will do."""
    tuned: str = "{}"
    """The properties set while the group ran that its hosts must know, in the form that its record has."""

    @classmethod
    def of(cls, *levels: Properties) -> "GroupSpec":
        """Make a spec from properties in plain form, from the weakest level to the strongest (FTC-167)."""
        effective = merged(*levels)
        places = effective.get(PLACES, {})
        return cls(
            membership=MembershipStyle(effective[MEMBERSHIP_STYLE]),
            initial=effective[INITIAL_NUMBER],
            minimum=effective[MINIMUM_NUMBER],
            locations=tuple(each["location"] for each in effective.get(FACTORIES, ())),
            hosts=tuple(map(HostId, places.get("hosts", ()))),
            never_lead=tuple(map(HostId, places.get("never_lead", ()))),
        )

    def with_tuned(self, dynamic: Properties) -> "GroupSpec":
        """Return this spec for a group for which these properties were set while it ran."""
        known = {name: dynamic[name] for name in OF_HOSTS if name in dynamic}
        return replace(self, tuned=msgspec.json.encode(known, order="deterministic").decode())


@dataclass(frozen=True, slots=True)
class DesiredState:
    """What the domain shall be like."""

    groups: Mapping[GroupId, GroupSpec] = field(default_factory=dict)
    """The specs of groups with properties of their own; all others have the built-in values."""
    draining: frozenset[HostId] = frozenset()
    """The hosts that shall have no members."""
    removed: frozenset[HostId] = frozenset()
    """The hosts that never come back. Nobody waits until they have forgotten what they held."""
    loss_ns: int = LOSS_NS

    def of(self, group: GroupId) -> GroupSpec:
        return self.groups.get(group, GroupSpec())


@dataclass(frozen=True, slots=True)
class HostFact:
    """The observed state of one host."""

    host: HostId
    location: str
    """The fault containment region of the host, from the widest part to the narrowest (FTC-170)."""
    gone_ns: int = 0
    """How long the host has had no session; 0 while it has one."""
    roles: tuple[str, ...] = DEFAULT_ROLES
    """What the host is for."""

    @property
    def is_alive(self) -> bool:
        return self.gone_ns == 0

    def has_role(self, role: str) -> bool:
        """Whether the host is for what has that role; everything without a role may be anywhere."""
        return not role or role in self.roles


@dataclass(frozen=True, slots=True)
class GroupFact:
    """The observed state of one group: where members shall be, and which are in sync."""

    record: GroupRecord
    view: View
    as_of: Revision = UNWRITTEN
    """The revision of the record. Planned actions change exactly this one."""

    @property
    def in_sync(self) -> tuple[HostId, ...]:
        """The listed members that shall stay members."""
        return tuple(each.host for each in self.view.members if self.record.wants(each))


@dataclass(frozen=True, slots=True)
class ObservedState:
    """What the domain is like."""

    hosts: tuple[HostFact, ...]
    groups: tuple[GroupFact, ...]
