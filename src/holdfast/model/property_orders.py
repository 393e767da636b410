"""What may be ordered about properties, and about the domain's fault notifier (FTC sections M and N)."""

from typing import Any

from msgspec import Struct


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
