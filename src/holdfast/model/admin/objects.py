"""Requests about factories, references, properties and the fault notifier (FTC sections M, N, O and P).

The replication manager creates groups; the factory of each host creates single objects. Both take the same
requests (FTC-206). Places are given by location or by host.
"""

from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from holdfast.model.ids import Epoch, GroupId, HostId
from holdfast.model.reference import Name

CRITERIA_CHARACTERS_MAX: Final = 128 << 10
Criteria = Annotated[str, Meta(max_length=CRITERIA_CHARACTERS_MAX)]
"""Criteria for creating an object, as a JSON object."""
Place = Annotated[str, Meta(max_length=4_200)]


class CreateObject(Struct, frozen=True, kw_only=True, tag="create_object"):
    """Create an object of a class according to *criteria*: a group, by the replication manager; or, at
    *location*, one without replicas, by the factory there."""

    type_id: Annotated[str, Meta(min_length=1, max_length=300)]
    criteria: Criteria = "{}"
    location: Place = ""
    nonce: str = ""
    """Chosen by the requester: the same request sent again creates only one object."""


class DeleteObject(Struct, frozen=True, kw_only=True, tag="delete_object"):
    """Delete what was created under that id, for a group including every member; *location* as at its
    creation."""

    factory_creation_id: GroupId
    location: Place = ""


class CreateMember(Struct, frozen=True, kw_only=True, tag="create_member"):
    """Let the factory at a location create another member of a group."""

    name: Name
    location: Place
    type_id: Annotated[str, Meta(max_length=300)] = ""
    """The class; empty: the group's."""
    criteria: Criteria = "{}"


class ShowReference(Struct, frozen=True, kw_only=True, tag="show_reference"):
    """Asks where the group of that name is now."""

    name: Name


class ListFactories(Struct, frozen=True, kw_only=True, tag="list_factories"):
    """Asks where objects can be created."""


class MemberInfo(Struct, frozen=True, kw_only=True):
    """A member, and where to reach it. An interface: it changes only by additions."""

    location: str
    host: HostId
    address: str
    """The address; empty while its host is not alive."""
    is_primary: bool
    in_sync: bool
    own: str = ""
    """The object that the application created itself as the member; empty: a factory created it."""


class GroupReference(Struct, frozen=True, kw_only=True, tag="reference"):
    """A group's reference, as of its newest view. An interface: it changes only by additions."""

    domain: str
    """With the group's number it identifies the group for ever, whatever happens to its name (FTC-47)."""
    name: str
    group: GroupId
    version: Epoch
    """Grows whenever members or primary change; 0 while the group has had none."""
    members: tuple[MemberInfo, ...]
    """The members, the primary first."""


class ObjectCreated(Struct, frozen=True, kw_only=True, tag="object_created"):
    reference: GroupReference
    factory_creation_id: GroupId


class FactoryInfo(Struct, frozen=True, kw_only=True):
    """A host as a factory: it creates objects of every class in its application directory."""

    host: HostId
    location: str
    takes_members: bool
    """False while the host is being drained."""


class FactoryList(Struct, frozen=True, kw_only=True, tag="factories"):
    factories: tuple[FactoryInfo, ...]


ObjectOrder = CreateObject | DeleteObject | CreateMember | ShowReference | ListFactories


class ShowProperties(Struct, frozen=True, kw_only=True, tag="show_properties"):
    """Asks for the properties of that group, of that class, or else for the domain's defaults."""

    type_id: str = ""
    group: str = ""


class SetProperties(Struct, frozen=True, kw_only=True, tag="set_properties"):
    """Set these properties there, and keep those already set. Requires an admin."""

    properties: dict[str, Any]
    type_id: str = ""
    group: str = ""
    nonce: str = ""
    """Chosen by the requester: the same request sent again has no further effect."""


class RemoveProperties(Struct, frozen=True, kw_only=True, tag="remove_properties"):
    """Remove these properties there, each given with its value, or with null for any value. Requires an
    admin."""

    properties: dict[str, Any]
    type_id: str = ""
    group: str = ""
    nonce: str = ""
    """Chosen by the requester: the same request sent again has no further effect."""


class PropertiesShown(Struct, frozen=True, kw_only=True, tag="properties"):
    """The properties of a group, a class or the domain. Scripts read this interface: it changes only by
    additions."""

    own: dict[str, Any]
    """The properties set at this level only."""
    effective: dict[str, Any]
    """The properties in effect: for the defaults, the defaults; for a class, with the defaults (FTC-187); for
    a group, everything that applies to it (FTC-190)."""


class ShowFaultNotifier(Struct, frozen=True, kw_only=True, tag="show_notifier"):
    """Asks which group receives fault reports."""

    is_made: bool = False
    """If none is registered: return the domain's own, and create it if there is none yet."""


class RegisterFaultNotifier(Struct, frozen=True, kw_only=True, tag="register_notifier"):
    """Let the group of that name receive fault reports; empty: none. Requires an admin."""

    group: str
    nonce: str = ""


class FaultNotifierShown(Struct, frozen=True, kw_only=True, tag="notifier"):
    group: str


PropertyOrder = ShowProperties | SetProperties | RemoveProperties | ShowFaultNotifier | RegisterFaultNotifier
