"""The desired state of a domain: the body of the state context (T1).

It is a value, and :mod:`~holdfast.control.desired.changes` defines how it changes. What *is* (groups,
members, views) belongs to the authority and is never copied here. On every host, equal states have equal
bytes and the other way round, so that replicas can compare digests (T5).
"""

from typing import Any, Final

import msgspec
from msgspec import Struct

from holdfast.control.desired.indexes import Indexes
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import GroupId, HostId
from holdfast.model.properties import merged

TYPES_MAX: Final = 1_000
GROUPS_MAX: Final = 20_000
"""The most groups with properties that were changed while they ran."""
HOSTS_MAX: Final = 10_000
NO_INDEXES: Final = Indexes()
"""A single object, so that a state without indexes has only one form."""


class NewerState(InvalidRequest):
    """Raised when the state was written by a newer version. Only that version may change it, because this one
    would drop what it does not know."""

    code = "newer_state"


class DomainState(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The whole desired state of a domain. New fields get defaults."""

    defaults: dict[str, Any] = {}
    """The properties of groups created from now on (FTC-183), in plain form by their full names."""
    types: dict[str, dict[str, Any]] = {}
    """The properties of groups of one class, ``package.module:Class``, created from now on (FTC-186)."""
    groups: dict[str, dict[str, Any]] = {}
    """The properties set while a group ran (FTC-189), by the group's id in digits; see :meth:`of_group`. Text
    keys can be sorted."""
    draining: tuple[HostId, ...] = ()
    """The hosts that shall have no members, sorted."""
    removed: tuple[HostId, ...] = ()
    """The hosts that are no longer part of the domain, sorted. Nothing is placed on them, and nothing waits
    for them."""
    fault_notifier: str = ""
    """The name of the group that takes fault reports (FTC-180); empty if none is registered."""
    indexes: Indexes = NO_INDEXES

    def takes_members(self, host: HostId) -> bool:
        """Whether the host may get new members."""
        return host not in self.draining and host not in self.removed

    def for_type(self, type_id: str) -> dict[str, Any]:
        """Return the properties set for a new group of that class, before its creator's own (FTC-187)."""
        return {**self.defaults, **self.types.get(type_id, {})}

    def of_group(self, group: GroupId) -> dict[str, Any]:
        """Return the properties set while the group ran."""
        return self.groups.get(str(group), {})

    def for_group(self, group: GroupId, made_with: dict[str, Any]) -> dict[str, Any]:
        """Return the properties in effect for a group that was *made_with* these (FTC-190), including
        built-in values."""
        return merged(made_with, self.of_group(group))


_encoder: Final = msgspec.msgpack.Encoder(order="deterministic")
_decoder: Final = msgspec.msgpack.Decoder(DomainState)


def encode_state(state: DomainState) -> bytes:
    return _encoder.encode(state)


def decode_state(body: bytes) -> DomainState:
    """Decode the state from a context's *body*; an empty body is the empty state. Raises
    :class:`NewerState`."""
    if not body:
        return DomainState()
    try:
        return _decoder.decode(body)
    except msgspec.ValidationError as error:
        raise NewerState(f"the domain's state was written by a newer version: {error}") from None
