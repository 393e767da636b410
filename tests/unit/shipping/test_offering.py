"""The sending end: its bounds, and what it says of its own files."""

import pytest
from shipped_files import CHUNK, Held, Pair, manifest_of, pattern

from holdfast.model.errors import DiskFailed
from holdfast.model.ids import SECOND
from holdfast.shipping.messages import Ask, ChunkSent, NotSent, decode_message, encode_message
from holdfast.shipping.offering import ASKS_MAX
from holdfast.shipping.rate import BURST_NS, Rate

FILES = {"f": pattern(8 * CHUNK)}


class Still:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.at = 10 * SECOND

    def now(self) -> int:
        return self.at

    def wall(self) -> int:
        return self.at


@pytest.fixture
def pair() -> Pair:
    return Pair(bytes_per_s=CHUNK)


def test_a_rate_lets_go_what_was_saved_for_a_moment() -> None:
    """A pause of any length is made up for by one burst, and no more."""
    clock = Still()
    rate = Rate(clock, 1000)
    clock.at += 3600 * SECOND
    gone = 0
    while not rate.wait_ns():
        rate.spend(10)
        gone += 10
    assert gone == 1000 * BURST_NS // SECOND + 10
    assert rate.wait_ns() == SECOND // 100
    clock.at += SECOND // 100
    assert not rate.wait_ns()


def test_what_is_larger_than_a_burst_goes_alone() -> None:
    clock = Still()
    rate = Rate(clock, 1000)
    assert not rate.wait_ns()
    rate.spend(5000)
    assert rate.wait_ns() == 5 * SECOND


def test_a_queue_that_is_full_takes_nothing_more(pair: Pair) -> None:
    """Asks wait for the rate; who is not heard asks again (W6)."""
    contents, _ = pair.offer(FILES)
    for _ in range(2 * ASKS_MAX):
        pair.a.offering.on_ask("c", Ask(contents.id, 1))
    pair.run(1000)
    waiting = ASKS_MAX - len(pair.a.sent)
    pair.a.offering.on_lost("c")
    before = len(pair.a.sent)
    pair.run(5000)
    assert waiting > 0
    assert len(pair.a.sent) == before, "what a lost connection asked for is sent to nobody"


@pytest.mark.parametrize("number", [8, 131_071])
def test_what_is_not_in_the_manifest_is_refused(pair: Pair, number: int) -> None:
    contents, _ = pair.offer(FILES)
    pair.a.offering.on_ask("c", Ask(contents.id, number))
    assert pair.a.sent == [NotSent(contents.id, number, "not offered here")]


def test_a_withdrawn_manifest_is_refused(pair: Pair) -> None:
    contents, _ = pair.offer(FILES)
    pair.a.offering.withdraw(contents.id)
    pair.a.offering.on_ask("c", Ask(contents.id, 0))
    assert isinstance(pair.a.sent[0], NotSent)


def test_a_file_that_cannot_be_read_is_refused(pair: Pair) -> None:
    class Gone(Held):
        def read(self, name: str, offset: int, length: int) -> bytes:
            raise DiskFailed(f"{name}: no such file")

    contents = manifest_of(FILES)
    pair.a.offering.offer(contents, Gone(FILES))
    pair.a.offering.on_ask("c", Ask(contents.id, 0))
    assert pair.a.sent == [NotSent(contents.id, 0, "f: no such file")]


def test_messages_survive_the_wire() -> None:
    for message in (Ask(bytes(32), 7), ChunkSent(bytes(32), 7, b"data"), NotSent(bytes(32), 7, "why")):
        assert decode_message(encode_message(message)) == message
