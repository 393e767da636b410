"""BER: streams cut into messages, and the elements of a message."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.ldap import ber
from holdfast.ldap.ber import BerError, NotUtf8, Reader, Splitter

SHORT = bytes.fromhex("3005020101420000")[:7]
LONG = b"\x30\x82\x01\x00" + bytes(256)
LEADING_ZEROS = b"\x30\x84\x00\x00\x00\x03\x02\x01\x07"
STREAM = SHORT + LEADING_ZEROS + LONG + SHORT
BOUND = 300


def taken(pieces: list[bytes], bytes_max: int = BOUND) -> list[bytes]:
    splitter = Splitter(bytes_max)
    found = []
    for piece in pieces:
        splitter.feed(piece)
        while (message := splitter.take()) is not None:
            found.append(message)
    return found


def test_every_split_in_two_and_three_gives_the_same_messages() -> None:
    whole = [SHORT, LEADING_ZEROS, LONG, SHORT]
    stream = SHORT + LEADING_ZEROS + LONG[:40] + LONG[40:] + SHORT
    for at in range(len(stream) + 1):
        assert taken([stream[:at], stream[at:]]) == whole
    head = SHORT + LEADING_ZEROS + SHORT
    for first, second in itertools.combinations(range(len(head) + 1), 2):
        assert taken([head[:first], head[first:second], head[second:]]) == [SHORT, LEADING_ZEROS, SHORT]


def test_messages_may_be_taken_later_than_the_next_arrive() -> None:
    splitter = Splitter(BOUND)
    for at in range(0, len(STREAM), 20):
        splitter.feed(STREAM[at : at + 20])
        if at % 3 == 0:
            splitter.take()
    splitter = Splitter(BOUND)
    for at in range(0, len(STREAM), 50):
        splitter.feed(STREAM[at : at + 50])
    assert [splitter.take() for _ in range(5)] == [SHORT, LEADING_ZEROS, LONG, SHORT, None]


def test_byte_by_byte_it_says_how_much_is_missing_at_least() -> None:
    splitter = Splitter(BOUND)
    found = []
    for at in range(len(STREAM)):
        before = splitter.missing
        splitter.feed(STREAM[at : at + 1])
        message = splitter.take()
        if message is not None:
            assert before == 1  # never asked for more than there was to come
            found.append(message)
        else:
            assert splitter.missing >= 1
    assert b"".join(found) == STREAM
    assert splitter.held_bytes == 0


@pytest.mark.parametrize(
    ("header", "problem"),
    [
        (b"\x30\x82\x01\x29", "at most 300"),
        (b"\x30\x84\xff\xff\xff\xff", "at most 300"),
        (b"\x30\x80", "indefinite"),
        (b"\x30\x85\x00", "5 bytes long"),
        (b"\x31\x00", "0x30, not 0x31"),
        (b"GET / HTTP/1.1", "0x30, not 0x47"),
        (b"\x16\x03", "0x30, not 0x16"),
    ],
)
def test_a_wrong_header_is_refused_at_once_and_for_good(header: bytes, problem: str) -> None:
    """Oversized messages are refused by their header, before anything of them is kept."""
    splitter = Splitter(BOUND)
    splitter.feed(SHORT + header)
    assert splitter.take() == SHORT
    with pytest.raises(BerError, match=problem):
        splitter.take()
    assert splitter.held_bytes == 0
    splitter.feed(SHORT)
    with pytest.raises(BerError, match=problem):
        splitter.take()


def test_the_bound_is_exact_and_may_be_raised() -> None:
    message = b"\x30\x82\x01\x28" + bytes(296)
    assert taken([message]) == [message]
    with pytest.raises(BerError):
        taken([message], BOUND - 1)
    splitter = Splitter(10)
    splitter.bytes_max = BOUND
    splitter.feed(message)
    assert splitter.take() == message


@given(st.integers(-(2**63), 2**63 - 1))
def test_integers_are_read_back_in_their_shortest_form(number: int) -> None:
    written = ber.integer(number)
    assert Reader(written).integer() == number
    assert len(written) == 2 or written[2:4] not in (b"\x00\x00",)


@pytest.mark.parametrize(
    ("number", "written"),
    [
        (0, "020100"),
        (127, "02017f"),
        (128, "02020080"),
        (256, "02020100"),
        (-1, "0201ff"),
        (-128, "020180"),
        (-129, "0202ff7f"),
        (2**31 - 1, "02047fffffff"),
    ],
)
def test_integers_are_written_as_the_standard_has_them(number: int, written: str) -> None:
    assert ber.integer(number).hex() == written


@given(st.binary(max_size=300))
def test_octets_are_read_back(value: bytes) -> None:
    assert Reader(ber.octets(value)).octets() == value


def test_true_may_be_any_byte_but_zero() -> None:
    assert Reader(b"\x01\x01\xff").boolean()
    assert Reader(b"\x01\x01\x01").boolean()
    assert not Reader(b"\x01\x01\x00").boolean()


@pytest.mark.parametrize(
    "wrong",
    [
        b"",
        b"\x04",
        b"\x04\x01",
        b"\x04\x02a",
        b"\x04\x81",
        b"\x04\x82\x01",
        b"\x04\x80",
        b"\x24\x00",
        b"\x04\x85\x00\x00\x00\x00\x00",
    ],
)
def test_octets_that_are_cut_or_of_another_form_are_refused(wrong: bytes) -> None:
    with pytest.raises(BerError):
        Reader(wrong).octets()


def test_an_element_cannot_reach_beyond_what_holds_it() -> None:
    """The inner length says more than the outer one, and bytes enough follow."""
    reader = Reader(b"\x30\x03\x04\x05abcdefgh")
    with pytest.raises(BerError, match="longer than what holds it"):
        reader.inside().octets()
    with pytest.raises(BerError, match="longer than what holds it"):
        Reader(b"\x30\x03\x04\x82\x00\x01abcdefgh").inside().octets()


@pytest.mark.parametrize("wrong", [b"\x02\x00", b"\x02\x09" + bytes(9), b"\x01\x02\x00\x00", b"\x0a\x01\x00"])
def test_numbers_of_wrong_length_or_tag_are_refused(wrong: bytes) -> None:
    with pytest.raises(BerError):
        Reader(wrong).boolean() if wrong[0] == 1 else Reader(wrong).integer()


def test_long_tags_are_refused() -> None:
    with pytest.raises(BerError, match="tag"):
        Reader(b"\x1f\x01\x00").header()


def test_text_that_is_not_utf8_is_told_apart() -> None:
    with pytest.raises(NotUtf8):
        Reader(b"\x04\x01\xff").text()
