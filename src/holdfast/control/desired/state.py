"""What a domain wishes for: the body of the state context (T1).

A value; :mod:`~holdfast.control.desired.changes` says how it changes. What *is* (groups, members, views) is
the authority's and never copied here. Bytes that are equal are equal states and the other way round, on every
host, so that replicas can compare digests (T5).
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
"""Groups with properties that were changed while they ran."""
HOSTS_MAX: Final = 10_000
NO_INDEXES: Final = Indexes()
"""One object, so that a state without indexes has one form."""


class NewerState(InvalidRequest):
    """Raised when the state was written by a newer version, which alone may change it: this one would drop
    what it does not know."""

    code = "newer_state"


class DomainState(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """All wishes of a domain. New fields get defaults."""

    defaults: dict[str, Any] = {}
    """Properties of groups that are made from now on (FTC-183), in plain form by their full names."""
    types: dict[str, dict[str, Any]] = {}
    """The same of one class, ``package.module:Class`` (FTC-186)."""
    groups: dict[str, dict[str, Any]] = {}
    """Properties that were set while the group ran (FTC-189), by its number in digits; see :meth:`of_group`.
    Keys that are text can be put in order."""
    draining: tuple[HostId, ...] = ()
    """Hosts that shall have no members, sorted."""
    removed: tuple[HostId, ...] = ()
    """Hosts that are of the domain no more, sorted: nothing is placed there, and nothing waited for."""
    fault_notifier: str = ""
    """The name of the group that takes fault reports (FTC-180); empty: none is registered."""
    indexes: Indexes = NO_INDEXES

    def takes_members(self, host: HostId) -> bool:
        """Whether that host may have members that it has not."""
        return host not in self.draining and host not in self.removed

    def for_type(self, type_id: str) -> dict[str, Any]:
        """What is set for a new group of that class, before its creator's own (FTC-187)."""
        return {**self.defaults, **self.types.get(type_id, {})}

    def of_group(self, group: GroupId) -> dict[str, Any]:
        """What was set while that group ran."""
        return self.groups.get(str(group), {})

    def for_group(self, group: GroupId, made_with: dict[str, Any]) -> dict[str, Any]:
        """What is in effect for a group that was *made_with* these (FTC-190), built-in values included."""
        return merged(made_with, self.of_group(group))


_encoder: Final = msgspec.msgpack.Encoder(order="deterministic")
_decoder: Final = msgspec.msgpack.Decoder(DomainState)


def encode_state(state: DomainState) -> bytes:
    return _encoder.encode(state)


def decode_state(body: bytes) -> DomainState:
    """The state of a context's *body*; of none yet, the empty one. Raises :class:`NewerState`."""
    if not body:
        return DomainState()
    try:
        return _decoder.decode(body)
    except msgspec.ValidationError as error:
        raise NewerState(f"the domain's state was written by a newer version: {error}") from None
