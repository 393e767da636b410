"""Outcomes as people see them: values instead of bytes, and not too long."""

import pytest

from holdfast.model.outcome import (
    WORDS_MAX,
    Poisoned,
    Refused,
    Unknown,
    encode_outcome,
    encode_raised,
    encode_returned,
    outcome_in_words,
)


@pytest.mark.parametrize(
    ("encoded", "words"),
    [
        (encode_returned(2), "2"),
        (encode_returned(["one", {"a": None}]), "['one', {'a': None}]"),
        (encode_raised(ValueError("no")), "ValueError: no"),
        (encode_outcome(Refused("expired", "too late")), "CallRefused: too late"),
        (encode_outcome(Poisoned(3, "f()")), "CallPoisoned: f() ended 3 processes and is not tried again"),
        (encode_outcome(Unknown("nobody knows")), "NestedOutcomeUnknown: nobody knows"),
        (b"\xc1", "1 bytes that are no outcome"),
    ],
)
def test_an_outcome_in_words(encoded: bytes, words: str) -> None:
    assert outcome_in_words(encoded) == words


def test_long_ones_are_cut_and_still_differ() -> None:
    one, other = (outcome_in_words(encode_returned("x" * 5000 + end)) for end in "ab")
    assert one != other
    assert max(len(one), len(other)) < WORDS_MAX + 40


def test_where_an_object_lies_in_memory_is_no_part_of_an_error() -> None:
    """The text is recorded, and every member and every replay compares its own with it (E1)."""
    held = [object(), object()]  # both at once, so that they lie at two places
    one, other = (ValueError({"item": each}) for each in held)
    assert str(one) != str(other)
    assert encode_raised(one) == encode_raised(other)
    assert outcome_in_words(encode_raised(one)) == "ValueError: {'item': <object object at 0x…>}"
    assert (
        outcome_in_words(encode_raised(ValueError("look at 0x10, please")))
        == "ValueError: look at 0x…, please"
    )
