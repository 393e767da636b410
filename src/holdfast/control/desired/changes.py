"""The kinds of changes to the desired state of a domain, and how each is applied (FTC section N).

A change is applied on every host that takes part, now or later (T5), so its result depends on nothing but the
state and the change. The requester looks up everything else and puts it into the change. A change that is not
possible raises ``InvalidRequest`` and changes nothing.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from holdfast.control.desired.index_changes import IndexChange
from holdfast.control.desired.state import (
    GROUPS_MAX,
    HOSTS_MAX,
    TYPES_MAX,
    DomainState,
    decode_state,
    encode_state,
)
from holdfast.control.replication.criteria import check_factories
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import GroupId, HostId
from holdfast.model.properties import (
    InvalidProperty,
    Level,
    check_dynamic,
    check_together,
    checked,
    merged,
    without,
)

PROPERTIES_BYTES_MAX: Final = 64 << 10
"""The most bytes of one set of properties, in stored form."""
TEXT_CHARACTERS_MAX: Final = 300
FORGOTTEN_MAX: Final = 1_000
"""The most groups in one :class:`ForgetGroups`."""

Set = dict[str, Any]
Shown = tuple[Set, Set]
"""The properties set at that level, and the properties in effect with those of the levels below."""


class TooMuch(InvalidRequest):
    """Raised when a change would exceed a bound of the domain's state."""

    code = "too_much"


# Each kind has `applied`, which returns the changed state or raises ``InvalidRequest``, and `answered`, which
# returns the reply to the requester, given the changed state.


class SetDefaultProperties(Struct, frozen=True, kw_only=True, tag="set_defaults"):
    """Set default properties of groups created from now on (FTC-183), in addition to those set before."""

    properties: Set

    def applied(self, state: DomainState) -> DomainState:
        return _with_defaults(state, {**state.defaults, **checked(self.properties, Level.DEFAULT)})

    def answered(self, state: DomainState) -> Shown:
        return state.defaults, state.defaults


class RemoveDefaultProperties(Struct, frozen=True, kw_only=True, tag="remove_defaults"):
    """Remove default properties (FTC-185). Each is named with its value, or with None for any value."""

    properties: Set

    def applied(self, state: DomainState) -> DomainState:
        return _with_defaults(state, without(state.defaults, self.properties))

    def answered(self, state: DomainState) -> Shown:
        return state.defaults, state.defaults


class SetTypeProperties(Struct, frozen=True, kw_only=True, tag="set_type"):
    """Set properties of groups of a class that are created from now on; they override the defaults
    (FTC-186)."""

    type_id: str
    properties: Set

    def applied(self, state: DomainState) -> DomainState:
        known = state.types.get(self.type_id, {})
        return _with_type(state, self.type_id, {**known, **checked(self.properties, Level.TYPE)})

    def answered(self, state: DomainState) -> Shown:
        return state.types.get(self.type_id, {}), state.for_type(self.type_id)


class RemoveTypeProperties(Struct, frozen=True, kw_only=True, tag="remove_type"):
    """Remove properties of a class (FTC-188). They are named as in :class:`RemoveDefaultProperties`."""

    type_id: str
    properties: Set

    def applied(self, state: DomainState) -> DomainState:
        known = state.types.get(self.type_id, {})
        return _with_type(state, self.type_id, without(known, self.properties))

    def answered(self, state: DomainState) -> Shown:
        return state.types.get(self.type_id, {}), state.for_type(self.type_id)


class SetGroupProperties(Struct, frozen=True, kw_only=True, tag="set_group"):
    """Set properties of a running group; they override those it was created with (FTC-189)."""

    group: GroupId
    made_with: Set
    """The properties in the group's record, which never change. The new ones must be compatible with them."""
    properties: Set

    def applied(self, state: DomainState) -> DomainState:
        own = {**state.of_group(self.group), **checked(self.properties, Level.DYNAMIC)}
        effective = merged(self.made_with, own)
        check_dynamic(own, effective)
        check_factories(own, effective)
        return _with_group(state, self.group, own)

    def answered(self, state: DomainState) -> Shown:
        return state.of_group(self.group), state.for_group(self.group, self.made_with)


class RemoveGroupProperties(Struct, frozen=True, kw_only=True, tag="remove_group"):
    """Remove properties of a running group, so that it has those it was created with again."""

    group: GroupId
    made_with: Set
    properties: Set

    def applied(self, state: DomainState) -> DomainState:
        return _with_group(state, self.group, without(state.of_group(self.group), self.properties))

    def answered(self, state: DomainState) -> Shown:
        return state.of_group(self.group), state.for_group(self.group, self.made_with)


class ForgetGroups(Struct, frozen=True, kw_only=True, tag="forget_groups"):
    """Forget groups that no longer exist; their ids are never reused (V6)."""

    groups: tuple[GroupId, ...]

    def applied(self, state: DomainState) -> DomainState:
        if len(self.groups) > FORGOTTEN_MAX:
            raise TooMuch(f"{len(self.groups)} groups to forget; at most {FORGOTTEN_MAX} at once")
        gone = dict.fromkeys(map(str, self.groups))
        left = {group: own for group, own in state.groups.items() if group not in gone}
        return msgspec.structs.replace(state, groups=left)

    def answered(self, state: DomainState) -> None:
        return None


class SetDraining(Struct, frozen=True, kw_only=True, tag="set_draining"):
    """Start or stop draining a host, which keeps it from having members."""

    host: HostId
    is_draining: bool

    def applied(self, state: DomainState) -> DomainState:
        _check_text("a host", self.host)
        others = tuple(each for each in state.draining if each != self.host)
        found = tuple(sorted((*others, self.host))) if self.is_draining else others
        if len(found) > HOSTS_MAX:
            raise TooMuch(f"{len(found)} hosts to be emptied; at most {HOSTS_MAX}")
        return msgspec.structs.replace(state, draining=found)

    def answered(self, state: DomainState) -> tuple[HostId, ...]:
        return state.draining


class RemoveHost(Struct, frozen=True, kw_only=True, tag="remove_host"):
    """Remove a host from the domain."""

    host: HostId

    def applied(self, state: DomainState) -> DomainState:
        _check_text("a host", self.host)
        draining = tuple(each for each in state.draining if each != self.host)
        removed = tuple(sorted({*state.removed, self.host}))
        if len(removed) > HOSTS_MAX:
            raise TooMuch(f"{len(removed)} hosts removed; at most {HOSTS_MAX}")
        return msgspec.structs.replace(state, draining=draining, removed=removed)

    def answered(self, state: DomainState) -> tuple[HostId, ...]:
        return state.removed


class ReturnHost(Struct, frozen=True, kw_only=True, tag="return_host"):
    """Let the name of a removed host be used again."""

    host: HostId

    def applied(self, state: DomainState) -> DomainState:
        _check_text("a host", self.host)
        removed = tuple(each for each in state.removed if each != self.host)
        return msgspec.structs.replace(state, removed=removed)

    def answered(self, state: DomainState) -> tuple[HostId, ...]:
        return state.removed


class RegisterFaultNotifier(Struct, frozen=True, kw_only=True, tag="register_fault_notifier"):
    """Make the group of that name the fault notifier (FTC-180); with an empty name there is none."""

    group: str

    def applied(self, state: DomainState) -> DomainState:
        if self.group:
            _check_text("a group", self.group)
        return msgspec.structs.replace(state, fault_notifier=self.group)

    def answered(self, state: DomainState) -> str:
        return state.fault_notifier


Change = (
    SetDefaultProperties
    | RemoveDefaultProperties
    | SetTypeProperties
    | RemoveTypeProperties
    | SetGroupProperties
    | RemoveGroupProperties
    | ForgetGroups
    | SetDraining
    | RemoveHost
    | ReturnHost
    | RegisterFaultNotifier
    | IndexChange
)
"""All kinds of changes. Other parts of the state define theirs in their own modules and are added here."""

_encoder: Final = msgspec.msgpack.Encoder(order="deterministic")
_changes: Final[msgspec.msgpack.Decoder[Change]] = msgspec.msgpack.Decoder(Change)


def apply(body: bytes, change: bytes) -> tuple[bytes, bytes]:
    """Apply an encoded change to an encoded state, as
    :class:`holdfast.control.coordination.ports.Application` requires. The reply is the msgpack form of what
    ``answered`` returns."""
    try:
        wanted = _changes.decode(change)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidRequest(f"this version knows no such change of the domain's state: {error}") from None
    state = wanted.applied(decode_state(body))
    return encode_state(state), _encoder.encode(wanted.answered(state))


def encode_change(change: Change) -> bytes:
    """Encode a change. Raises ``InvalidRequest`` for values that cannot be encoded."""
    try:
        return _encoder.encode(change)
    except (TypeError, OverflowError, RecursionError, UnicodeEncodeError) as error:
        raise InvalidRequest(f"a value has no form in the domain's state: {error}") from None


def _with_defaults(state: DomainState, own: Set) -> DomainState:
    """Replace the defaults. The properties of types must be compatible with them too, because they are in
    effect already (FTC-175)."""
    check_together(own, merged(own))
    for overrides in state.types.values():
        check_together(overrides, merged(own, overrides))
    return msgspec.structs.replace(state, defaults=_bounded(own))


def _with_type(state: DomainState, type_id: str, own: Set) -> DomainState:
    _check_text("a class", type_id)
    effective = merged(state.defaults, own)
    check_together(own, effective)
    check_factories(own, effective)
    types = _with(state.types, type_id, own, TYPES_MAX, "classes with properties")
    return msgspec.structs.replace(state, types=types)


def _with_group(state: DomainState, group: GroupId, own: Set) -> DomainState:
    groups = _with(state.groups, str(group), own, GROUPS_MAX, "groups with properties of their own")
    return msgspec.structs.replace(state, groups=groups)


def _bounded(own: Set) -> Set:
    """Return *own*, or raise an error that names its longest property if it is too long to be stored."""
    sizes = {name: len(_encoder.encode(value)) for name, value in own.items()}
    if sum(sizes.values()) > PROPERTIES_BYTES_MAX:
        name = max(sizes, key=lambda each: (sizes[each], each))
        raise InvalidProperty(name, "...", f"{sizes[name]} bytes, of {PROPERTIES_BYTES_MAX} for all together")
    return own


def _with(sets: Mapping[str, Set], key: str, own: Set, most: int, what: str) -> dict[str, Set]:
    """Return *sets* with *own* at *key*; an empty set is removed."""
    found = {other: each for other, each in sets.items() if other != key}
    if own:
        found[key] = _bounded(own)
    if len(found) > most:
        raise TooMuch(f"{len(found)} {what}; at most {most}")
    return found


def _check_text(what: str, text: str) -> None:
    if not 0 < len(text) <= TEXT_CHARACTERS_MAX:
        raise InvalidRequest(f"{what} is named by 1 to {TEXT_CHARACTERS_MAX} characters")
