"""Change sequence numbers for people: every form is read, told and compared."""

import json
from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from holdfast.cli.directory.csn import compare, decode
from holdfast.model.errors import InvalidRequest

EXAMPLE = "03626325e0001a1a1"
Capture = pytest.CaptureFixture[str]


def told(capsys: Capture, *csns: str) -> list[dict[str, Any]]:
    assert decode(*csns, output="json") == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def compared(capsys: Capture, first: str, second: str) -> tuple[int, bool]:
    assert compare(first, second, output="json") == 0
    found = json.loads(capsys.readouterr().out)
    return found["order"], found["is_same_operation"]


@pytest.mark.covers("CSN-13", "CSN-14", "CSN-18")
def test_the_example_of_the_source(capsys: Capture) -> None:
    """Its 17 characters are the mark 0, the time, the sequence and the replica; people read the date."""
    assert told(capsys, EXAMPLE) == [
        {
            "csn": EXAMPLE,
            "by_replica": "1a1a13626325e0001",
            "timestamp": 908472926,
            "time": "1998-10-15T17:35:26Z",
            "sequence": 1,
            "replica": 0xA1A1,
            "sub_sequence": 0,
        }
    ]
    decode(EXAMPLE)
    assert "1998-10-15T17:35:26Z" in capsys.readouterr().out


@pytest.mark.covers("CSN-12")
def test_hyphens_are_optional_and_cost_a_tenth(capsys: Capture) -> None:
    """With and without it is the same number; without is what is told to scripts, with what people read."""
    for text in ("03626325e-0001-a1a1", "0-3626325e-0001-a1a1", EXAMPLE):
        assert told(capsys, text)[0]["csn"] == EXAMPLE
    decode(EXAMPLE)
    shown = capsys.readouterr().out
    assert "03626325e-0001-a1a1" in shown
    assert EXAMPLE not in shown
    assert len(EXAMPLE) <= 0.9 * len("03626325e-0001-a1a1")


@pytest.mark.covers("CSN-15")
def test_a_part_is_four_characters_more(capsys: Capture) -> None:
    """The short form means part 0, and is what is written for it; order holds across both lengths."""
    whole, part = told(capsys, f"{EXAMPLE}0000", f"{EXAMPLE}0005")
    assert (whole["csn"], whole["sub_sequence"]) == (EXAMPLE, 0)
    assert (part["csn"], part["sub_sequence"]) == (f"{EXAMPLE}0005", 5)
    assert compared(capsys, EXAMPLE, f"{EXAMPLE}0005")[0] == -1
    assert compared(capsys, f"{EXAMPLE}0005", "03626325e0001a1a2")[0] == -1


@pytest.mark.covers("CSN-10")
def test_parts_of_one_operation_are_known_as_such(capsys: Capture) -> None:
    assert compared(capsys, f"{EXAMPLE}0002", f"{EXAMPLE}0005") == (-1, True)
    assert compared(capsys, EXAMPLE, EXAMPLE) == (0, True)
    for other in ("03626325f0001a1a1", "03626325e0002a1a1", "03626325e0001a1a2"):
        assert compared(capsys, EXAMPLE, other) == (-1, False)
    compare(f"{EXAMPLE}0002", EXAMPLE)
    assert "greater than" in (said := capsys.readouterr().out)
    assert "parts of one operation" in said


@pytest.mark.covers("CSN-11")
def test_text_is_ordered_as_the_numbers_are(capsys: Capture, rounds: Callable[..., int]) -> None:
    """Plain comparison of texts is the order of time, sequence, replica and part, also where one is a
    character from the next."""
    rng = Random(11)
    few = (0, 1, 0x0F, 0x10, 0xFF, 0x100, 0xFFFF)
    drawn = [
        (rng.choice((*few, 0x10000, 0xFFFFFFFF)), *(rng.choice(few) for _ in range(3)))
        for _ in range(rounds(short=300, long=20_000))
    ]
    texts = [f"0{t:08x}{s:04x}{r:04x}" + (f"{p:04x}" if p else "") for t, s, r, p in drawn]
    found = told(capsys, *texts)
    numbers = [(each["timestamp"], each["sequence"], each["replica"], each["sub_sequence"]) for each in found]
    assert numbers == drawn
    assert [each["csn"] for each in found] == texts
    assert [number for _, number in sorted(zip(texts, numbers, strict=True))] == sorted(numbers)
    pairs = list(zip(texts, numbers, strict=True))
    for (one, a), (other, b) in pairwise(pairs):
        assert compared(capsys, one, other)[0] == (a > b) - (a < b) == (one > other) - (one < other)


@pytest.mark.covers("CSN-16")
def test_the_mark_1_has_the_replica_in_front(capsys: Capture) -> None:
    """So one replica's changes stand together, in order; texts of different marks are not compared."""
    texts = [each["by_replica"] for each in told(capsys, "000000009ffff0001", "000000001000b0002", EXAMPLE)]
    assert texts == ["1000100000009ffff", "1000200000001000b", "1a1a13626325e0001"]
    assert texts == sorted(texts)
    assert told(capsys, texts[0])[0]["csn"] == "000000009ffff0001"
    assert compared(capsys, texts[0], texts[1]) == (-1, False)
    with pytest.raises(InvalidRequest, match="different forms cannot be compared"):
        compare(EXAMPLE, texts[2])


@pytest.mark.covers("CSN-17")
@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("", 0),
        ("2" + EXAMPLE[1:], 0),
        (EXAMPLE[:-1], 16),
        ("036-6325e0001a1a1", 3),
        ("03626325E0001a1a1", 8),
        ("03626325e-0001a-1a1", 14),
        ("03626325e 0001 a1a1", 9),
        (EXAMPLE + "00055", 22),
    ],
)
def test_what_is_malformed_is_refused_with_its_place(text: str, position: int) -> None:
    with pytest.raises(InvalidRequest, match=rf"not a CSN: .*at position {position}$"):
        decode(text)
    with pytest.raises(InvalidRequest, match="say which"):
        decode()
