"""A moment of every fuzz target: its seeds, and changes of them that are the same in every run."""

import importlib
import random

import pytest
from table import TABLE, known_or_why

CHANGED = 300
"""Inputs made of each target's seeds."""


def changed(dice: random.Random, seeds: tuple[bytes, ...]) -> bytes:
    """Two seeds cut and joined, with some bytes replaced, doubled or left out."""
    first, second = dice.choice(seeds), dice.choice(seeds)
    made = bytearray(first[: dice.randint(0, len(first))] + second[dice.randint(0, len(second)) :])
    for _ in range(dice.randint(0, 4)):
        at = dice.randint(0, len(made))
        made[at : at + dice.randint(0, 3)] = dice.choice(
            (b"", bytes([dice.randrange(256)]), made[at : at + 8])
        )
    return bytes(made)


def test_the_table_has_every_target() -> None:
    """`make fuzz TARGET=...` finds what a module has, and says what there is when it does not."""
    modules = dict.fromkeys(each.module for each in TABLE.values())
    found = [name for module in modules for name in importlib.import_module(module).TARGETS]
    assert sorted(found) == sorted(TABLE)
    for entry in TABLE.values():
        for package in entry.packages:
            importlib.import_module(package)
    assert known_or_why("ldap") == ""
    assert all(name in known_or_why("ldpa") for name in TABLE)


@pytest.mark.parametrize("name", TABLE)
def test_the_seeds_and_what_is_made_of_them(name: str) -> None:
    target, seeds = importlib.import_module(TABLE[name].module).TARGETS[name]
    dice = random.Random(f"holdfast {name}")
    for each in (*seeds, *(changed(dice, seeds) for _ in range(CHANGED))):
        target(each)
