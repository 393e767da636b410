"""What may be ordered of factories, and asked about references (FTC sections O and P).

The replication manager makes groups; the factory of each host makes single objects. Both are asked alike
(FTC-206). Places are named by location or by host.

What may be ordered about properties, and about the domain's fault notifier (FTC sections M and N).
"""

from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from holdfast.model.ids import Epoch, GroupId, HostId
from holdfast.model.reference import Name

CRITERIA_CHARACTERS_MAX: Final = 128 << 10
Criteria = Annotated[str, Meta(max_length=CRITERIA_CHARACTERS_MAX)]
"""A JSON object."""
Place = Annotated[str, Meta(max_length=4_200)]


class CreateObject(Struct, frozen=True, kw_only=True, tag="create_object"):
    """Make an object of a class, as *criteria* say: a group, by the replication manager; or, at *location*,
    one without replicas, by the factory there."""

    type_id: Annotated[str, Meta(min_length=1, max_length=300)]
    criteria: Criteria = "{}"
    location: Place = ""
    nonce: str = ""
    """Of whoever orders it: the same order sent again makes one object."""


class DeleteObject(Struct, frozen=True, kw_only=True, tag="delete_object"):
    """Delete what was made under that id, of a group first every member; *location* as it was made."""

    factory_creation_id: GroupId
    location: Place = ""


class CreateMember(Struct, frozen=True, kw_only=True, tag="create_member"):
    """Have the factory at a location make another member of a group."""

    name: Name
    location: Place
    type_id: Annotated[str, Meta(max_length=300)] = ""
    """The class; empty: the group's."""
    criteria: Criteria = "{}"


class ShowReference(Struct, frozen=True, kw_only=True, tag="show_reference"):
    """Where is the group of that name now?"""

    name: Name


class ListFactories(Struct, frozen=True, kw_only=True, tag="list_factories"):
    """Where can objects be made?"""


class MemberInfo(Struct, frozen=True, kw_only=True):
    """A member, and where to reach it. An interface: it changes only by adding."""

    location: str
    host: HostId
    address: str
    """Empty while its host does not live."""
    is_primary: bool
    in_sync: bool
    own: str = ""
    """The object that the application made itself and that is the member; empty: a factory made it."""


class GroupReference(Struct, frozen=True, kw_only=True, tag="reference"):
    """A group's reference, as of its newest view. An interface: it changes only by adding."""

    domain: str
    """With the group's number it names the group for ever, whatever becomes of its name (FTC-47)."""
    name: str
    group: GroupId
    version: Epoch
    """Grows whenever members or primary change; 0 while the group has had none."""
    members: tuple[MemberInfo, ...]
    """The primary's first."""


class ObjectCreated(Struct, frozen=True, kw_only=True, tag="object_created"):
    reference: GroupReference
    factory_creation_id: GroupId


class FactoryInfo(Struct, frozen=True, kw_only=True):
    """A host as a factory: it makes objects of every class that its application directory has."""

    host: HostId
    location: str
    takes_members: bool
    """False while it is being emptied."""


class FactoryList(Struct, frozen=True, kw_only=True, tag="factories"):
    factories: tuple[FactoryInfo, ...]


ObjectOrder = CreateObject | DeleteObject | CreateMember | ShowReference | ListFactories


class ShowProperties(Struct, frozen=True, kw_only=True, tag="show_properties"):
    """Those of the group of that name, of that class, or else the domain's defaults."""

    type_id: str = ""
    group: str = ""


class SetProperties(Struct, frozen=True, kw_only=True, tag="set_properties"):
    """Let these be set there, beside those that are. From an admin."""

    properties: dict[str, Any]
    type_id: str = ""
    group: str = ""
    nonce: str = ""
    """The order's own: given again with the same one, it is the same order."""


class RemoveProperties(Struct, frozen=True, kw_only=True, tag="remove_properties"):
    """Let these be set there no longer: each with its value, or with null whatever it is. From an admin."""

    properties: dict[str, Any]
    type_id: str = ""
    group: str = ""
    nonce: str = ""
    """The order's own: given again with the same one, it is the same order."""


class PropertiesShown(Struct, frozen=True, kw_only=True, tag="properties"):
    """An interface: scripts read it, so it changes only by adding."""

    own: dict[str, Any]
    """What is set there, and nowhere above or below."""
    effective: dict[str, Any]
    """With what it goes over: of defaults those themselves, of a class the defaults too (FTC-187), of a group
    all that holds for it (FTC-190)."""


class ShowFaultNotifier(Struct, frozen=True, kw_only=True, tag="show_notifier"):
    """Which group takes fault reports?"""

    is_made: bool = False
    """If none is registered: the domain's own, made if there is none yet."""


class RegisterFaultNotifier(Struct, frozen=True, kw_only=True, tag="register_notifier"):
    """Let the group of that name take fault reports; empty: none. From an admin."""

    group: str
    nonce: str = ""


class FaultNotifierShown(Struct, frozen=True, kw_only=True, tag="notifier"):
    group: str


PropertyOrder = ShowProperties | SetProperties | RemoveProperties | ShowFaultNotifier | RegisterFaultNotifier
