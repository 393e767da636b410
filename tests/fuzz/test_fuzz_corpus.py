"""A moment of every fuzz target: its seeds, and changes of them that are the same in every run."""

import random

import pytest
from targets import TARGETS

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


@pytest.mark.parametrize("name", TARGETS)
def test_the_seeds_and_what_is_made_of_them(name: str) -> None:
    target, seeds = TARGETS[name]
    dice = random.Random(f"holdfast {name}")
    for each in (*seeds, *(changed(dice, seeds) for _ in range(CHANGED))):
        target(each)
