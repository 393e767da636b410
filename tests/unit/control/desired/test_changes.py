"""Tests how changes turn one desired state into another, identically on every host (T1, T5; FTC section
N)."""

from typing import Any

import msgspec
import pytest

from holdfast.control.desired import changes as changes_module
from holdfast.control.desired.changes import (
    PROPERTIES_BYTES_MAX,
    Change,
    ForgetGroups,
    RegisterFaultNotifier,
    RemoveDefaultProperties,
    RemoveGroupProperties,
    RemoveHost,
    RemoveTypeProperties,
    SetDefaultProperties,
    SetDraining,
    SetGroupProperties,
    SetTypeProperties,
    TooMuch,
    apply,
    encode_change,
)
from holdfast.control.desired.state import DomainState, NewerState, decode_state, encode_state
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import GroupId, HostId
from holdfast.model.properties import InvalidProperty, UnsupportedProperty, full_name

LEDGER = "bank:Ledger"
G = GroupId(7)
MINIMUM, INITIAL = full_name("MinimumNumberReplicas"), full_name("InitialNumberReplicas")
CHECKPOINT = full_name("CheckpointInterval")


class Held:
    """A context's body, as a host has it."""

    def __init__(self) -> None:
        self.body = b""

    def take(self, change: Change) -> Any:
        """Apply *change* to the state, and return its reply."""
        self.body, reply = apply(self.body, encode_change(change))
        return msgspec.msgpack.decode(reply)

    @property
    def state(self) -> DomainState:
        return decode_state(self.body)


@pytest.fixture
def held() -> Held:
    return Held()


@pytest.mark.covers("FTC-183", "FTC-184", "FTC-185")
def test_a_change_that_is_nested_too_deep_is_refused() -> None:
    """The requester encoded the change on a shallower stack. It must not end the coordinator."""
    shallow = encode_change(SetDefaultProperties(properties={MINIMUM: 1}))
    assert shallow.endswith(b"\x01")
    with pytest.raises(InvalidRequest, match="no such change"):
        apply(b"", shallow[:-1] + b"\x91" * 10_000 + b"\x01")


def test_defaults_are_set_beside_each_other_told_and_removed(held: Held) -> None:
    held.take(SetDefaultProperties(properties={"InitialNumberReplicas": 5}))
    held.take(SetDefaultProperties(properties={"MinimumNumberReplicas": 4}))
    assert held.state.defaults == {INITIAL: 5, MINIMUM: 4}
    left, _ = held.take(RemoveDefaultProperties(properties={"MinimumNumberReplicas": 4}))
    assert left == held.state.defaults == {INITIAL: 5}


@pytest.mark.covers("FTC-186", "FTC-187", "FTC-188")
def test_a_types_properties_go_over_the_defaults_for_that_type_alone(held: Held) -> None:
    held.take(SetDefaultProperties(properties={"InitialNumberReplicas": 5, "CheckpointInterval": 100}))
    held.take(SetTypeProperties(type_id=LEDGER, properties={"InitialNumberReplicas": 3}))
    assert held.state.for_type(LEDGER) == {INITIAL: 3, CHECKPOINT: 100}
    assert held.state.for_type("bank:Other") == {INITIAL: 5, CHECKPOINT: 100}
    held.take(RemoveTypeProperties(type_id=LEDGER, properties={"InitialNumberReplicas": None}))
    assert held.state.for_type(LEDGER) == {INITIAL: 5, CHECKPOINT: 100}
    assert held.state.types == {}


@pytest.mark.covers("FTC-189")
def test_a_running_group_keeps_what_is_not_overridden(held: Held) -> None:
    made = {INITIAL: 3, MINIMUM: 3, CHECKPOINT: 100}
    change = SetGroupProperties(group=G, made_with=made, properties={"MinimumNumberReplicas": 5})
    _, effective = held.take(change)
    assert (effective[MINIMUM], effective[CHECKPOINT], effective[INITIAL]) == (5, 100, 3)
    again = SetGroupProperties(group=G, made_with=made, properties={"CheckpointInterval": 50})
    assert (held.take(again)[1][MINIMUM], held.state.of_group(G)) == (5, {MINIMUM: 5, CHECKPOINT: 50})
    assert held.state.for_group(GroupId(8), made)[MINIMUM] == 3
    gone = RemoveGroupProperties(group=G, made_with=made, properties={"MinimumNumberReplicas": 5})
    assert held.take(gone)[1][MINIMUM] == 3
    held.take(ForgetGroups(groups=(G,)))
    assert held.state.groups == {}


REFUSED: list[tuple[Change, type[InvalidRequest], str, Any]] = [
    (SetDefaultProperties(properties={"Factories": []}), InvalidProperty, "Factories", []),
    (SetDefaultProperties(properties={"Colour": "red"}), UnsupportedProperty, "Colour", "red"),
    (SetDefaultProperties(properties={"ReplicationStyle": 4}), UnsupportedProperty, "ReplicationStyle", 4),
    (RemoveDefaultProperties(properties={"Colour": None}), UnsupportedProperty, "Colour", None),
    (RemoveDefaultProperties(properties={"CheckpointInterval": 9}), InvalidProperty, "CheckpointInterval", 9),
    (
        RemoveDefaultProperties(properties={"InitialNumberReplicas": 4}),
        InvalidProperty,
        "InitialNumberReplicas",
        4,
    ),
    (
        SetTypeProperties(type_id=LEDGER, properties={"ReplicationStyle": 0, "CheckpointInterval": 1}),
        InvalidProperty,
        "CheckpointInterval",
        1,
    ),
    (RemoveTypeProperties(type_id=LEDGER, properties={"Colour": 1}), UnsupportedProperty, "Colour", 1),
    (
        SetGroupProperties(group=G, made_with={}, properties={"ReplicationStyle": 1}),
        InvalidProperty,
        "ReplicationStyle",
        1,
    ),
    (
        SetGroupProperties(
            group=G, made_with={full_name("ReplicationStyle"): 0}, properties={"CheckpointInterval": 1}
        ),
        InvalidProperty,
        "CheckpointInterval",
        1,
    ),
]


@pytest.mark.covers("FTC-174", "FTC-175", "FTC-183", "FTC-185", "FTC-186", "FTC-188", "FTC-189")
@pytest.mark.parametrize(("change", "kind", "name", "value"), REFUSED)
def test_what_cannot_be_is_refused_by_name_and_value_and_changes_nothing(
    held: Held, change: Change, kind: type[InvalidRequest], name: str, value: Any
) -> None:
    held.take(SetDefaultProperties(properties={"InitialNumberReplicas": 5}))
    before = held.body
    with pytest.raises(kind) as refused:
        held.take(change)
    assert isinstance(refused.value, UnsupportedProperty | InvalidProperty)
    assert (full_name(refused.value.name), refused.value.value) == (full_name(name), value)
    assert held.body == before


@pytest.mark.covers("FTC-175")
def test_defaults_agree_with_what_is_in_effect_for_types(held: Held) -> None:
    held.take(SetTypeProperties(type_id=LEDGER, properties={"CheckpointInterval": 100}))
    with pytest.raises(InvalidProperty, match="CheckpointInterval"):
        held.take(SetDefaultProperties(properties={"ConsistencyStyle": "CONS_APP_CTRL"}))


def test_hosts_are_emptied_and_take_members_again(held: Held) -> None:
    for host in ("h2", "h1", "h2"):
        draining = held.take(SetDraining(host=HostId(host), is_draining=True))
    assert draining == ["h1", "h2"]
    assert held.take(SetDraining(host=HostId("h1"), is_draining=False)) == ["h2"]


def test_a_host_that_is_removed_takes_no_members_and_is_not_emptied_any_more(held: Held) -> None:
    held.take(SetDraining(host=HostId("h1"), is_draining=True))
    for _ in range(2):
        assert held.take(RemoveHost(host=HostId("h1"))) == ["h1"]
    assert (held.state.draining, held.state.takes_members(HostId("h1"))) == ((), False)
    assert held.state.takes_members(HostId("h2"))


def test_the_fault_notifier_is_named(held: Held) -> None:
    assert held.state.fault_notifier == ""
    assert held.take(RegisterFaultNotifier(group="faults")) == held.state.fault_notifier == "faults"


def test_equal_wishes_are_equal_bytes_in_whatever_order_they_were_made() -> None:
    """Hosts compare the digests of contexts (T5)."""
    one, other = Held(), Held()
    changes: list[Change] = [
        SetTypeProperties(type_id="a:B", properties={"InitialNumberReplicas": 5}),
        SetTypeProperties(type_id="a:C", properties={"CheckpointInterval": 5}),
        SetGroupProperties(group=G, made_with={}, properties={"MinimumNumberReplicas": 2}),
        SetGroupProperties(group=GroupId(3), made_with={}, properties={"MinimumNumberReplicas": 2}),
        SetDraining(host=HostId("h"), is_draining=True),
    ]
    for change in changes:
        one.take(change)
    for change in reversed(changes):
        other.take(change)
    assert one.body == other.body
    assert encode_state(decode_state(one.body)) == one.body


def test_what_a_newer_version_wrote_is_not_changed_by_an_older_one() -> None:
    body = msgspec.msgpack.encode({"defaults": {}, "moons": 3})
    with pytest.raises(NewerState):
        apply(body, encode_change(SetDraining(host=HostId("h"), is_draining=True)))


def test_a_change_of_an_unknown_kind_is_refused() -> None:
    with pytest.raises(InvalidRequest):
        apply(b"", msgspec.msgpack.encode({"type": "paint", "colour": "red"}))


def test_bounds_hold(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    criteria = {"text": "x" * PROPERTIES_BYTES_MAX}
    factories = [{"location": "a", "criteria": criteria}]
    with pytest.raises(InvalidProperty, match="Factories"):
        held.take(SetTypeProperties(type_id=LEDGER, properties={"Factories": factories}))
    monkeypatch.setattr(changes_module, "TYPES_MAX", 1)
    held.take(SetTypeProperties(type_id=LEDGER, properties={"CheckpointInterval": 5}))
    with pytest.raises(TooMuch):
        held.take(SetTypeProperties(type_id="a:B", properties={"CheckpointInterval": 5}))
    with pytest.raises(InvalidRequest):
        encode_change(SetDefaultProperties(properties={"CheckpointInterval": 2**70}))
    assert held.state.types == {LEDGER: {CHECKPOINT: 5}}
