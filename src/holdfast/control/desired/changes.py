"""How a domain's wishes change: one kind of change each, and what it makes of a state (FTC section N).

A change is applied on every host that takes part, now or later (T5): nothing but the state and the change
decides what comes of it. Whoever wishes for one has looked up what else there is to know, and says it in the
change. What cannot be raises ``InvalidRequest`` and leaves everything as it was.
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
"""Of one set of properties, as it is kept."""
TEXT_CHARACTERS_MAX: Final = 300
FORGOTTEN_MAX: Final = 1_000
"""Groups of one :class:`ForgetGroups`."""

Set = dict[str, Any]
Shown = tuple[Set, Set]
"""What is set there, and what that comes to with what it goes over."""


class TooMuch(InvalidRequest):
    """Raised when a bound of the domain's state would be passed."""

    code = "too_much"


# Each kind has `applied`, which is the state with the change and raises ``InvalidRequest``, and `answered`,
# which is what whoever wished for it is told of the state that it came to.


class SetDefaultProperties(Struct, frozen=True, kw_only=True, tag="set_defaults"):
    """Let groups made from now on have these (FTC-183), beside those set before."""

    properties: Set

    def applied(self, state: DomainState) -> DomainState:
        return _with_defaults(state, {**state.defaults, **checked(self.properties, Level.DEFAULT)})

    def answered(self, state: DomainState) -> Shown:
        return state.defaults, state.defaults


class RemoveDefaultProperties(Struct, frozen=True, kw_only=True, tag="remove_defaults"):
    """Let these be set no longer (FTC-185): each by its value, or by None whatever it is."""

    properties: Set

    def applied(self, state: DomainState) -> DomainState:
        return _with_defaults(state, without(state.defaults, self.properties))

    def answered(self, state: DomainState) -> Shown:
        return state.defaults, state.defaults


class SetTypeProperties(Struct, frozen=True, kw_only=True, tag="set_type"):
    """Let groups of that class made from now on have these, over the defaults (FTC-186)."""

    type_id: str
    properties: Set

    def applied(self, state: DomainState) -> DomainState:
        known = state.types.get(self.type_id, {})
        return _with_type(state, self.type_id, {**known, **checked(self.properties, Level.TYPE)})

    def answered(self, state: DomainState) -> Shown:
        return state.types.get(self.type_id, {}), state.for_type(self.type_id)


class RemoveTypeProperties(Struct, frozen=True, kw_only=True, tag="remove_type"):
    """Let these be set for that class no longer (FTC-188). Values as with the defaults."""

    type_id: str
    properties: Set

    def applied(self, state: DomainState) -> DomainState:
        known = state.types.get(self.type_id, {})
        return _with_type(state, self.type_id, without(known, self.properties))

    def answered(self, state: DomainState) -> Shown:
        return state.types.get(self.type_id, {}), state.for_type(self.type_id)


class SetGroupProperties(Struct, frozen=True, kw_only=True, tag="set_group"):
    """Let a running group have these, over what it was made with (FTC-189)."""

    group: GroupId
    made_with: Set
    """What the group's record says, which never changes: what it is to agree with."""
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
    """Let a running group have these as it was made with again."""

    group: GroupId
    made_with: Set
    properties: Set

    def applied(self, state: DomainState) -> DomainState:
        return _with_group(state, self.group, without(state.of_group(self.group), self.properties))

    def answered(self, state: DomainState) -> Shown:
        return state.of_group(self.group), state.for_group(self.group, self.made_with)


class ForgetGroups(Struct, frozen=True, kw_only=True, tag="forget_groups"):
    """These groups are no more; their numbers never come back (V6)."""

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
    """Let a host have no members, or take some again."""

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
    """Let a host be of the domain no more."""

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


class RegisterFaultNotifier(Struct, frozen=True, kw_only=True, tag="register_fault_notifier"):
    """Let the group of that name take fault reports (FTC-180); empty: none."""

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
    | RegisterFaultNotifier
    | IndexChange
)
"""All kinds. Another part of the state brings its own, in a module of its own, and is named here."""

_encoder: Final = msgspec.msgpack.Encoder(order="deterministic")
_changes: Final[msgspec.msgpack.Decoder[Change]] = msgspec.msgpack.Decoder(Change)


def apply(body: bytes, change: bytes) -> tuple[bytes, bytes]:
    """What :class:`holdfast.control.coordination.ports.Application` asks for. The reply is msgpack of what
    each kind's ``answered`` says."""
    try:
        wanted = _changes.decode(change)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidRequest(f"this version knows no such change of the domain's state: {error}") from None
    state = wanted.applied(decode_state(body))
    return encode_state(state), _encoder.encode(wanted.answered(state))


def encode_change(change: Change) -> bytes:
    """Raises ``InvalidRequest`` for values that have no form on the wire."""
    try:
        return _encoder.encode(change)
    except (TypeError, OverflowError, RecursionError, UnicodeEncodeError) as error:
        raise InvalidRequest(f"a value has no form in the domain's state: {error}") from None


def _with_defaults(state: DomainState, own: Set) -> DomainState:
    """Also what is set for types must agree with them: it is in effect already (FTC-175)."""
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
    """*own*, unless it is too long to be kept; the longest is named then."""
    sizes = {name: len(_encoder.encode(value)) for name, value in own.items()}
    if sum(sizes.values()) > PROPERTIES_BYTES_MAX:
        name = max(sizes, key=lambda each: (sizes[each], each))
        raise InvalidProperty(name, "...", f"{sizes[name]} bytes, of {PROPERTIES_BYTES_MAX} for all together")
    return own


def _with(sets: Mapping[str, Set], key: str, own: Set, most: int, what: str) -> dict[str, Set]:
    """*sets* with *own* at *key*; an empty one is not kept."""
    found = {other: each for other, each in sets.items() if other != key}
    if own:
        found[key] = _bounded(own)
    if len(found) > most:
        raise TooMuch(f"{len(found)} {what}; at most {most}")
    return found


def _check_text(what: str, text: str) -> None:
    if not 0 < len(text) <= TEXT_CHARACTERS_MAX:
        raise InvalidRequest(f"{what} is named by 1 to {TEXT_CHARACTERS_MAX} characters")
