"""Tests that a request is granted once, however often it is sent, and that asking for its outcome settles
it."""

import pytest

from holdfast.control.coordination.dedup import (
    IDS_KEPT,
    REPLIES_BYTES_MAX,
    Dedup,
    NeverGranted,
    Settled,
    Wish,
    decode_body,
    decode_settled,
    encode_wish,
)
from holdfast.model.errors import InvalidRequest


def append(body: bytes, change: bytes) -> tuple[bytes, bytes]:
    if change == b"!":
        raise InvalidRequest("not this")
    return body + change, b"%d" % len(body)


ONCE = Dedup(append)


def made(body: bytes, id: str, change: bytes = b"") -> tuple[bytes, Settled]:
    after, reply = ONCE.apply(body, encode_wish(Wish(id, change)))
    return after, decode_settled(reply)


def test_a_second_copy_gets_the_first_ones_reply_and_changes_nothing() -> None:
    body, first = made(b"", "w1", b"a")
    body, _ = made(body, "w2", b"b")
    again, second = made(body, "w1", b"a")
    assert again == body
    assert second == first == Settled("w1", is_granted=True, reply=b"0")
    assert decode_body(body).body == b"ab"


def test_what_was_asked_about_before_it_came_never_runs() -> None:
    """X3 does the same for calls: otherwise a late copy would be granted after all."""
    body, said = made(b"", "late")
    assert not said.is_granted
    with pytest.raises(NeverGranted):
        made(body, "late", b"a")
    body, said = made(body, "late")
    assert not said.is_granted
    assert decode_body(body).body == b""


def test_asking_about_a_granted_wish_tells_its_reply() -> None:
    body, granted = made(b"", "w", b"a")
    after, said = made(body, "w")
    assert (after, said) == (body, granted)


def test_a_wish_that_cannot_be_leaves_nothing_and_may_come_again_in_another_form() -> None:
    with pytest.raises(InvalidRequest, match="not this"):
        made(b"", "w", b"!")
    body, said = made(b"", "w", b"a")
    assert said.is_granted
    assert decode_body(body).body == b"a"


def test_the_newest_wishes_are_remembered_and_no_more() -> None:
    body = b""
    for number in range(IDS_KEPT + 1):
        body, _ = made(body, f"w{number}", b"a")
    kept = [each.id for each in decode_body(body).settled]
    assert kept == [f"w{number}" for number in range(1, IDS_KEPT + 1)]


def test_long_replies_do_not_fill_the_context() -> None:
    """Fewer replies are remembered then, but always the newest. Otherwise no change could ever be made
    again."""
    size = 100_000

    def reply_at_length(body: bytes, change: bytes) -> tuple[bytes, bytes]:
        return body, change * size

    once, body = Dedup(reply_at_length), b""
    for number in range(50):
        body, _ = once.apply(body, encode_wish(Wish(f"w{number}", b"x")))
    kept = [each.id for each in decode_body(body).settled]
    assert kept == [f"w{number}" for number in range(50 - REPLIES_BYTES_MAX // size, 50)]
    assert len(body) < 2 * REPLIES_BYTES_MAX
    body, _ = once.apply(body, encode_wish(Wish("huge", b"x" * 20)))
    assert [each.id for each in decode_body(body).settled] == ["huge"]


@pytest.mark.parametrize(
    "change", [b"", b"\xc1", b"\x91", encode_wish(Wish("", b"a")), encode_wish(Wish("x" * 101, b"a"))]
)
def test_what_is_no_wish_is_refused(change: bytes) -> None:
    with pytest.raises(InvalidRequest):
        ONCE.apply(b"", change)
