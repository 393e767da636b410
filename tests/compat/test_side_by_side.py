"""Two versions side by side, as while a domain is upgraded: neither stumbles over the other's words."""

import itertools
from typing import Any

import msgspec
import pytest

from holdfast.model.admin.groups import decode_order
from holdfast.model.calls import Ping, decode_to_client, decode_to_host
from holdfast.model.versions import Decoder, LaterKind
from holdfast.node.links import decode_sequence
from holdfast.sim.runner.runner import run_seeds
from holdfast.sim.scenarios.control.host import Codec as ControlCodec
from holdfast.sim.scenarios.groups.host import Codec as GroupsCodec

CODECS: dict[str, type[Any]] = {"control": ControlCodec, "groups": GroupsCodec}


def of_later_version(data: bytes) -> bytes:
    """The same message from one that has a field more."""
    match msgspec.msgpack.decode(data):
        case list() as fields:
            return msgspec.msgpack.encode([*fields, "added later"])
        case dict() as fields:
            return msgspec.msgpack.encode({**fields, "added_later": True})
        case other:
            raise AssertionError(f"{other!r} cannot grow")


def of_earlier_version(message: msgspec.Struct, data: bytes) -> bytes:
    """The same message from one that does not have the fields that say nothing here: each was added once."""
    fields, defaults = msgspec.msgpack.decode(data), type(message).__struct_defaults__
    names = type(message).__struct_fields__[len(type(message).__struct_fields__) - len(defaults) :]
    while names and isinstance(fields, list) and getattr(message, names[-1]) == defaults[len(names) - 1]:
        names = names[:-1]
        fields = fields[:-1]
    return msgspec.msgpack.encode(fields)


@pytest.mark.parametrize("scenario", CODECS)
def test_what_another_version_adds_or_leaves_out_changes_nothing(
    scenario: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A whole domain under faults, in which every other message is of a later version and the rest of an
    earlier one, goes event by event as it does when all are of this one."""
    turns = itertools.cycle((True, False))
    kinds: dict[type, None] = {}

    class Mixed(CODECS[scenario]):  # type: ignore[misc]  # a class that is looked up
        def encode(self, message: msgspec.Struct) -> bytes:
            kinds[type(message)] = None
            data: bytes = super().encode(message)
            return of_later_version(data) if next(turns) else of_earlier_version(message, data)

    alone = run_seeds(scenario, range(1), jobs=1)
    monkeypatch.setattr(f"holdfast.sim.scenarios.{scenario}.scenario.Codec", Mixed)
    mixed = run_seeds(scenario, range(1), jobs=1)
    assert mixed.violations == alone.violations == []
    assert mixed.trace_hash == alone.trace_hash
    assert len(kinds) > 10


@pytest.mark.parametrize("decode", [decode_to_host, decode_to_client, decode_sequence, decode_order])
def test_a_kind_of_message_that_was_added_later_is_no_damage(decode: Any) -> None:
    """Whoever receives it can tell it from damage, and passes over it."""
    for later in (["added-later", 1], [4_000, 1], {"type": "added_later"}):
        with pytest.raises(LaterKind):
            decode(msgspec.msgpack.encode(later))
    for damaged in ([], {}, 7, [None], {"type": None}, [True]):
        with pytest.raises(msgspec.ValidationError) as found:
            decode(msgspec.msgpack.encode(damaged))
        assert not isinstance(found.value, LaterKind)
    with pytest.raises(msgspec.DecodeError):
        decode(b"\xc1")


def test_a_message_of_a_known_kind_that_is_wrong_is_damage() -> None:
    (tag,) = (each for each in msgspec.msgpack.decode(msgspec.msgpack.encode(Ping(5)))[:1])
    with pytest.raises(msgspec.ValidationError) as found:
        decode_to_host(msgspec.msgpack.encode([tag, "not a number"]))
    assert not isinstance(found.value, LaterKind)


def test_a_single_kind_has_later_ones_too() -> None:
    decoder: Decoder[Ping] = Decoder(Ping)
    assert decoder.decode(msgspec.msgpack.encode(Ping(5))) == Ping(5)
    with pytest.raises(LaterKind):
        decoder.decode(msgspec.msgpack.encode(["added-later"]))
