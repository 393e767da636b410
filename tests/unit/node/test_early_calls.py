"""What clients send to a host that is still starting is kept within bounds."""

from types import SimpleNamespace
from typing import Any, cast

from holdfast.net import Connection
from holdfast.node.early_calls import EARLY_BYTES_MAX, EARLY_MAX, EarlyCalls


def connection() -> Connection:
    return cast(Any, SimpleNamespace())


def test_calls_are_kept_in_order_and_taken_once() -> None:
    early, one, other = EarlyCalls(), connection(), connection()
    assert early.keep(one, b"1")
    assert early.keep(other, b"2")
    assert early.take() == [(one, b"1"), (other, b"2")]
    assert early.take() == []


def test_they_are_bounded_in_bytes_and_in_number() -> None:
    """A few long calls would fill the memory of a host that starts; more is sent again by its clients."""
    early, one, other = EarlyCalls(), connection(), connection()
    assert early.keep(one, bytes(EARLY_BYTES_MAX - 1))
    assert early.keep(other, b"1")
    assert not early.keep(other, b"1")
    early.on_closed(one)
    for _ in range(EARLY_MAX - 1):
        assert early.keep(other, b"1")
    assert not early.keep(other, b"1")
    early.take()
    assert early.keep(other, bytes(EARLY_BYTES_MAX))
