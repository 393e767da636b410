"""State as bytes: a restored state equals the captured one, and what cannot be restored is refused by
name."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import msgspec
import pytest

from holdfast.execution.capture import Capture, NotCapturable


class Money(msgspec.Struct):
    amount: int
    currency: str = "EUR"


class Plain:
    def __init__(self) -> None:
        self.balances = {"alice": 5, "bob": -3}
        self.log: list[Any] = [1, 2.5, None, True, b"raw", "text", {"nested": [[]]}]
        self.by_number = {1: "one"}


class Annotated:
    seen: set[str]
    pair: tuple[int, str]
    purse: dict[str, Money]

    def __init__(self) -> None:
        self.seen = {"a", "b"}
        self.pair = (1, "x")
        self.purse = {"alice": Money(5)}


class Slotted:
    __slots__ = ("count", "unset")

    def __init__(self) -> None:
        self.count = 7


@dataclass
class Data:
    names: list[str] = field(default_factory=lambda: ["a"])


class Own:
    def __init__(self, step: int = 2) -> None:
        self.step = step
        self.handle = object()
        self.value = 0

    def get_state(self) -> bytes:
        return b"%d" % self.value

    def set_state(self, state: bytes) -> None:
        self.value = int(state)


@pytest.mark.parametrize("cls", [Plain, Annotated, Slotted, Data])
def test_attributes_come_back_with_their_types(cls: type) -> None:
    capture, instance = Capture(cls), cls()
    capture.check(instance, cls)
    back = capture.restored(capture.state_of(instance), cls)
    assert capture.digest_of(back) == capture.digest_of(instance)
    for name in ("seen", "pair", "purse", "balances", "log", "by_number", "count", "names"):
        if hasattr(instance, name):
            assert getattr(back, name) == getattr(instance, name)
            assert type(getattr(back, name)) is type(getattr(instance, name))


def test_a_digest_follows_no_order_and_takes_any_keys() -> None:
    """Equal states have equal digests however they came about, even with dictionary keys that are not
    text."""

    def digest(value: object) -> bytes:
        plain = Plain()
        plain.by_number = value  # type: ignore[assignment]  # whatever it is
        return Capture(Plain).digest_of(plain)

    assert digest({1: {"b", "a"}, 2: [{3: 4, 5: 6}]}) == digest({2: [{5: 6, 3: 4}], 1: {"a", "b"}})
    assert digest({1: "one"}) != digest({1: "two"})
    assert digest({1: "one"}) != digest({"1": "one"})


@pytest.mark.covers("FTC-304")
def test_a_class_that_sets_its_own_state_gets_it_on_an_object_made_as_the_group_was() -> None:
    capture = Capture(Own)
    instance = Own(step=3)
    instance.value = 42
    back = capture.restored(capture.state_of(instance), lambda: Own(step=3))
    assert (back.value, back.step) == (42, 3)


def broken(**attributes: object) -> tuple[Capture, object]:
    cls = type("Broken", (), {})
    instance = cls()
    vars(instance).update(attributes)
    return Capture(cls), instance


@pytest.mark.parametrize(
    ("attributes", "complaint"),
    [
        ({"fine": 1, "lock": object()}, r"Broken\.lock cannot be captured"),
        ({"seen": {1, 2}}, r"Broken\.seen holds set \{1, 2\} and would come back as list"),
        ({"pairs": [(1, 2)]}, r"Broken\.pairs\[0\] holds tuple \(1, 2\) and would"),
        ({"purse": Money(5)}, r"Broken\.purse holds Money Money\("),
        ({"deep": {"a": {"b": {1}}}}, r"Broken\.deep\['a'\]\['b'\] holds set"),
        ({"call": len}, r"Broken\.call cannot be captured"),
        ({"huge": 2**70}, r"Broken\.huge cannot be captured"),
    ],
)
def test_what_would_not_come_back_is_refused_by_name(attributes: dict[str, object], complaint: str) -> None:
    capture, instance = broken(**attributes)
    with pytest.raises(NotCapturable, match=complaint):
        capture.check(instance, type(instance))


def test_an_annotation_that_does_not_fit_is_refused() -> None:
    instance = Annotated()
    instance.pair = (1, 2)  # type: ignore[assignment]  # the mistake that must be found
    with pytest.raises(NotCapturable, match=r"Annotated\.pair"):
        Capture(Annotated).check(instance, Annotated)


def test_half_a_pair_of_state_methods_is_refused() -> None:
    cls = type("Half", (), {"get_state": lambda self: b""})
    with pytest.raises(NotCapturable, match="get_state without its counterpart"):
        Capture(cls)


@pytest.mark.covers("FTC-303")
def test_a_state_must_be_bytes() -> None:
    cls = type("Wrong", (), {"get_state": lambda self: {"a": 1}, "set_state": lambda self, state: None})
    with pytest.raises(NotCapturable, match=r"Wrong\.get_state returned a dict"):
        Capture(cls).check(cls(), cls)


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class FewerColours(Enum):
    BLUE = "blue"


class Painted:
    colour: Colour
    parts: dict[str, Colour]

    def __init__(self) -> None:
        self.colour = Colour.BLUE
        self.parts = {}


class Repainted(Painted):
    colour: FewerColours  # type: ignore[assignment]
    parts: dict[str, FewerColours]  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (lambda made: setattr(made, "colour", Colour.RED), "Repainted.colour: "),
        (lambda made: made.parts.update(door=Colour.RED), "Repainted.parts[...]: "),
    ],
    ids=["attribute", "part of one"],
)
def test_a_state_that_a_changed_class_cannot_load_is_refused_by_place(change: Any, place: str) -> None:
    """*Without it:* the operator reads "Invalid enum value 'red'", and nothing about where it is."""
    made = Painted()
    change(made)
    old, new = Capture(Painted), Capture(Repainted)
    with pytest.raises(msgspec.ValidationError) as caught:
        new.restored(old.state_of(made), Repainted)
    assert str(caught.value) == f"{place}Invalid enum value 'red'"
    restoring = new.restoring(Repainted)
    with pytest.raises(msgspec.ValidationError) as caught:
        for piece in old.pieces_of(made, Painted):
            restoring.take(piece)
    assert str(caught.value) == f"{place}Invalid enum value 'red'"
