"""What is wished for, and what is so: all that a plan is made from (T1).

Wishes are properties in effect, and hosts to be emptied. Facts are what the authority knows: which hosts
live, each group's record and view. Values, compared as such; nothing here decides.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from holdfast.authority.groups import GroupRecord
from holdfast.authority.views import View
from holdfast.model.ids import SECOND, GroupId, HostId, Revision
from holdfast.model.properties import (
    CHECKPOINT_INTERVAL,
    FACTORIES,
    INITIAL_NUMBER,
    MEMBERSHIP_STYLE,
    MINIMUM_NUMBER,
    MONITORING_GRANULARITY,
    MONITORING_INTERVAL,
    MembershipStyle,
    Properties,
    merged,
)

OF_HOSTS: Final = (CHECKPOINT_INTERVAL, MONITORING_GRANULARITY, MONITORING_INTERVAL)
"""Properties that take effect where the members are; the others the manager sees to."""
LOSS_NS: Final = 10 * SECOND
"""A host that has been out of session for so long is taken for lost: its members are made anew elsewhere. Its
agent starts a host that crashed again within a second, and copying what it holds costs more than waiting."""
UNWRITTEN: Final = Revision(0)
"""Of a record that does not stand at the authority: nothing can be done to it."""


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """One group's properties in effect, as far as members are concerned."""

    membership: MembershipStyle = MembershipStyle.MEMB_INF_CTRL
    initial: int = 3
    minimum: int = 2
    locations: tuple[str, ...] = ()
    """Where factories can make members (FTC-148); empty: at every host."""
    tuned: str = "{}"
    """What was set while the group ran and its hosts must know, as its record has it."""

    @classmethod
    def of(cls, *levels: Properties) -> "GroupSpec":
        """From properties in plain form, from the weakest level to the strongest (FTC-167)."""
        effective = merged(*levels)
        return cls(
            membership=MembershipStyle(effective[MEMBERSHIP_STYLE]),
            initial=effective[INITIAL_NUMBER],
            minimum=effective[MINIMUM_NUMBER],
            locations=tuple(each["location"] for each in effective.get(FACTORIES, ())),
        )

    def with_tuned(self, dynamic: Properties) -> "GroupSpec":
        """The same for a group of which these were set while it ran."""
        known = {name: dynamic[name] for name in OF_HOSTS if name in dynamic}
        return replace(self, tuned=msgspec.json.encode(known, order="deterministic").decode())


@dataclass(frozen=True, slots=True)
class DesiredState:
    """The domain's."""

    groups: Mapping[GroupId, GroupSpec] = field(default_factory=dict)
    """Of each group that has properties of its own; of the others, what is built in."""
    draining: frozenset[HostId] = frozenset()
    """Hosts that shall have no members."""
    removed: frozenset[HostId] = frozenset()
    """Hosts that never come back: nobody waits until they have forgotten what they held."""
    loss_ns: int = LOSS_NS

    def of(self, group: GroupId) -> GroupSpec:
        return self.groups.get(group, GroupSpec())


@dataclass(frozen=True, slots=True)
class HostFact:
    """One host."""

    host: HostId
    location: str
    """The fault containment region it is in, from the widest part to the narrowest (FTC-170)."""
    gone_ns: int = 0
    """For how long it has been out of session; 0 while it is in one."""

    @property
    def is_alive(self) -> bool:
        return self.gone_ns == 0


@dataclass(frozen=True, slots=True)
class GroupFact:
    """One group: where members shall be, and who is in-sync."""

    record: GroupRecord
    view: View
    as_of: Revision = UNWRITTEN
    """Which the record is; what is planned is done to exactly this one."""

    @property
    def in_sync(self) -> tuple[HostId, ...]:
        """The listed members that shall stay members."""
        return tuple(each.host for each in self.view.members if self.record.wants(each))


@dataclass(frozen=True, slots=True)
class ObservedState:
    """The domain's."""

    hosts: tuple[HostFact, ...]
    groups: tuple[GroupFact, ...]
