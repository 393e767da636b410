"""Large states in pieces: the restored state equals the original, each piece is small, and none may be
missing."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from group_classes import call, definition, run

from holdfast.execution.capture import Capture, NotCapturable
from holdfast.execution.execution import Execution
from holdfast.execution.state_pieces import PIECE_BYTES, Unframing, framed, weighs_over


class Money(msgspec.Struct):
    amount: int


class Large:
    purse: dict[str, Money]
    seen: set[str]
    pair: tuple[int, ...]

    def __init__(self, count: int) -> None:
        self.purse = {f"account {number}": Money(number) for number in range(count)}
        self.seen = {f"seen {number}" for number in range(count)}
        self.rows: list[Any] = [[number, "x" * (number % 50)] for number in range(count)]
        self.pair = tuple(range(count))
        self.few = {"one": 1}


class Own:
    """Encodes its own state."""

    def __init__(self) -> None:
        self.text = ""

    def get_state(self) -> bytes:
        return self.text.encode()

    def set_state(self, state: bytes) -> None:
        self.text = state.decode()


class Book:
    def __init__(self) -> None:
        self.lines: dict[str, int] = {}

    def write(self, count: int) -> int:
        self.lines.update((f"line {number}", number) for number in range(count))
        return len(self.lines)


def restored(capture: Capture, pieces: list[bytes], cls: Any) -> Any:
    restoring = capture.restoring(cls)
    for piece in pieces:
        restoring.take(piece)
    return restoring.finish()


@pytest.mark.parametrize("count", [0, 3, 20_000])
def test_an_object_comes_back_from_its_pieces(count: int) -> None:
    """Every attribute keeps its type, and its order if it has one."""
    instance, capture = Large(count), Capture(Large)
    back = restored(capture, list(capture.pieces_of(instance, Large)), Large)
    assert vars(back) == vars(instance)
    assert list(back.purse) == list(instance.purse)
    assert all(type(each) is Money for each in back.purse.values())


def test_pieces_are_small_whatever_the_items_weigh() -> None:
    """Pieces must be small so that loading can pause: containers are cut by the size of their parts, not by
    their number."""
    light = Large(20_000)
    heavy = Large(0)
    heavy.rows = ["x" * 30_000] * 200
    for instance in (light, heavy):
        sizes = [len(piece) for piece in Capture(Large).pieces_of(instance, Large)]
        assert len(sizes) > 20
        # A tuple is never cut; every other piece is near the intended size.
        assert sorted(sizes)[-2] < 20 * PIECE_BYTES


class Blobs:
    """Holds long byte strings, annotated and not."""

    grown: bytearray
    fixed: bytes
    short: bytearray

    def __init__(self) -> None:
        self.grown = bytearray(range(256)) * 2_000
        self.bare = bytes(range(255, -1, -1)) * 1_000 + b"end"
        self.fixed = b"\x00\xff" * 100_000
        self.short = bytearray(b"short")


def test_long_byte_strings_are_cut_and_come_back_with_their_types() -> None:
    """*Without it:* 100 MB in one bytearray are one piece, which is in memory five times while it is
    captured, and holds the loop while it is loaded."""
    instance, capture = Blobs(), Capture(Blobs)
    pieces = list(capture.pieces_of(instance, Blobs))
    assert max(map(len, pieces)) < PIECE_BYTES + 100
    back = restored(capture, pieces, Blobs)
    assert vars(back) == vars(instance)
    assert [type(each) for each in vars(back).values()] == [type(vars(instance)[name]) for name in vars(back)]
    back.grown.extend(b"more")
    assert len(back.grown) == len(instance.grown) + 4


def test_a_long_byte_string_that_would_come_back_otherwise_is_refused() -> None:
    """E9: a bytearray without its annotation comes back as bytes, cut or not."""
    instance = Blobs()
    instance.bare = bytearray(instance.bare)  # type: ignore[assignment]  # a class may change its mind
    with pytest.raises(NotCapturable, match=r"Blobs\.bare.*annotate it"):
        list(Capture(Blobs).pieces_of(instance, Blobs))


def test_the_digest_of_a_long_byte_string_tells_every_byte_and_its_length() -> None:
    capture, instance = Capture(Blobs), Blobs()
    told = capture.digest_of(instance)
    assert len(told) < 1_000, "it holds no copy of them"
    assert capture.digest_of(Blobs()) == told
    instance.grown[300_000] ^= 1
    assert capture.digest_of(instance) != told
    instance.grown[300_000] ^= 1
    assert capture.digest_of(instance) == told
    instance.fixed += b"\x00"
    assert capture.digest_of(instance) != told


def test_a_state_of_the_classs_own_is_given_back_whole() -> None:
    capture = Capture(Own)
    instance = Own()
    instance.text = "x" * 3_000_000
    pieces = list(capture.pieces_of(instance, Own))
    assert len(pieces) > 1
    assert restored(capture, pieces, Own).text == instance.text
    assert restored(capture, list(capture.pieces_of(Own(), Own)), Own).text == ""


def test_an_execution_is_loaded_from_chunks_of_any_size() -> None:
    """The replies and the position are loaded, too, and loading pauses on the way."""
    execution = Execution(definition(Book))
    run(execution, call(1, "write", 5_000))
    saved = b"".join(execution.pieces())
    for size in (7_777, 100_000, len(saved)):
        chunks = (saved[at : at + size] for at in range(0, len(saved), size))
        *pauses, loaded = Execution.loading(definition(Book), chunks)
        assert loaded is not None
        assert loaded.save() == execution.save()
        assert len(pauses) >= 2
        assert pauses == [None] * len(pauses)


def test_a_state_that_ends_in_the_middle_is_no_state() -> None:
    execution = Execution(definition(Book))
    run(execution, call(1, "write", 500))
    saved = b"".join(execution.pieces())
    for cut in (0, 2, len(saved) - 1):
        with pytest.raises(msgspec.DecodeError):
            Execution.load(definition(Book), saved[:cut])


def test_pieces_are_found_in_chunks_of_one_byte() -> None:
    sent = [b"one", b"", b"three" * 100]
    unframing = Unframing()

    def found() -> Iterator[bytes]:
        for byte in b"".join(map(framed, sent)):
            yield from unframing.pieces(bytes([byte]))

    assert list(found()) == sent
    assert unframing.is_between_pieces


def test_weight_is_told_at_a_glance() -> None:
    """A large object is recognized wherever its large values are; a small one is not mistaken for large."""
    few, many = Large(10), Large(50_000)
    assert not weighs_over(few, 10_000)
    assert weighs_over(many, 1_000_000)
    few.rows = [{"inner": {"text": "x" * 2_000_000}}]
    assert weighs_over(few, 1_000_000)


class Slotted:
    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


def test_slots_are_weighed_too() -> None:
    assert weighs_over(Slotted("x" * 1000), 100)
    assert not weighs_over(Slotted("x"), 100)
