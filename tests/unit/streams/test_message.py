"""The message that sources and the order share."""

import msgspec
import pytest

from holdfast.streams.message import PAYLOAD_BYTES_MAX, Message, Origin, delivered, unwrapped


@pytest.mark.parametrize(
    ("low", "near", "number"),
    [
        (5, 4, 5),
        (5, 65_540, 65_541),
        (3, 65_535, 65_539),
        (65_535, 65_537, 65_535),
        (65_535, 3, 65_535),  # numbers begin at 1
        (0, 65_530, 65_536),
        (1, 10 * 65_536, 10 * 65_536 + 1),
    ],
)
def test_a_number_of_fixed_width_is_read_near_the_last_one(low: int, near: int, number: int) -> None:
    """It has wrapped around (LOSS-37)."""
    assert unwrapped(low, 16, near) == number


@pytest.mark.parametrize(
    "bad",
    [
        [0, 0, "t", b""],
        [1, 16, "t", b""],
        [1, -1, "t", b""],
        [1, 0, "t" * 201, b""],
        [1, 0, "t", b"x" * (PAYLOAD_BYTES_MAX + 1)],
        [1, 0, "t", b"", [-3]],
        [1, 0, "t", b"", [1] * 16],
    ],
)
def test_what_is_beyond_a_bound_is_no_message(bad: list[object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(msgspec.msgpack.encode(bad), type=Message)


def test_the_application_is_told_where_it_comes_from() -> None:
    found = delivered(Origin("s", "gold", 3), Message(7, 1, "bids", b"x"))
    assert (found.source, found.stream, found.incarnation, found.number, found.created_ns) == (
        "s",
        "gold",
        3,
        7,
        None,
    )
