"""The doors of hosts: here, and nowhere else, is a door entered.

A host knows its doors only as gateways (:mod:`.gateway`): a door is a face, and the host must not depend on
one. So the table names each door's class by its module, which is imported when a host's process begins.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Final

from holdfast.model.host_roles import DIRECTORY
from holdfast.model.ids import HostId
from holdfast.node.layout import Description, Layout

if TYPE_CHECKING:
    from holdfast.node.gateway import Gateway  # commands read the table, and need nothing of a host


@dataclass(frozen=True, slots=True)
class DoorEntry:
    """One row of the table of doors."""

    name: str
    """The session says under this name where the door is."""
    factory: str
    """What makes the door, as ``module:name``: called with layout, domain, host and the machine's
    description. The door reads its own settings."""
    files_max: int
    """The most connections and files that it has open at a time."""
    role: str | None = None
    """The hosts that have it: those of this role, or all of them."""

    @property
    def problem(self) -> str:
        """The session says under this name why the door is closed although it should be open."""
        return f"{self.name}_problem"

    def make(self, layout: Layout, description: Description, host: HostId) -> "Gateway":
        module, _, name = self.factory.partition(":")
        door: Gateway = getattr(import_module(module), name)(layout, description.domain, host, description)
        return door


DOORS: Final[tuple[DoorEntry, ...]] = (
    DoorEntry(name="http", factory="holdfast.web.door:HttpDoor", files_max=512 + 32),
    DoorEntry(name="ldap", factory="holdfast.ldap.door:LdapDoor", files_max=2_500, role=DIRECTORY),
)
"""In the order in which they open."""


def make_doors(layout: Layout, description: Description, host: HostId) -> "Sequence[Gateway]":
    """The doors of one host, not yet open."""
    roles = description.roles_of(host)
    return [
        entry.make(layout, description, host) for entry in DOORS if entry.role is None or entry.role in roles
    ]
