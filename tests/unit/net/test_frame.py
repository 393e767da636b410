"""Any split of the bytes gives the same frames, and nothing is stored beyond the bounds."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.net import Kind, Why
from holdfast.net.frame import FREE_BYTES, HEADER, HEADER_BYTES, Frame, FrameDecoder, encode_frame

BOUND = 300
FRAMES = st.lists(st.tuples(st.sampled_from(Kind), st.binary(max_size=BOUND)), max_size=20)


def decode(pieces: list[bytes], bound: int = BOUND) -> tuple[list[Frame], FrameDecoder]:
    decoder = FrameDecoder(bound)
    frames: list[Frame] = []
    for piece in pieces:
        decoder.feed(piece)
        frames += take_all(decoder)
        assert decoder.held_bytes < bound + HEADER_BYTES
    return frames, decoder


def take_all(decoder: FrameDecoder) -> list[Frame]:
    frames = decoder.take_run()
    while (frame := decoder.take_one()) is not None:
        frames += [frame, *decoder.take_run()]
    return frames


def hand_all(decoder: FrameDecoder) -> list[Frame]:
    """Like ``take_all``, but with ``hand_run``."""
    frames: list[Frame] = []

    def take(to: list[Frame], kind: Kind, payload: bytes) -> None:
        to.append((kind, payload))

    while not decoder.hand_run(take, frames) and (frame := decoder.take_one()) is not None:
        frames.append(frame)
    return frames


def split(data: bytes, cuts: list[int]) -> list[bytes]:
    ends = sorted(cut % (len(data) + 1) for cut in cuts)
    return [data[a:b] for a, b in zip([0, *ends], [*ends, len(data)], strict=True)]


@given(frames=FRAMES, cuts=st.lists(st.integers(min_value=0), max_size=12))
def test_any_split_gives_the_same_frames(frames: list[Frame], cuts: list[int]) -> None:
    """The encoded frames come out in order, wherever the stream was cut."""
    data = b"".join(encode_frame(kind, payload) for kind, payload in frames)
    found, decoder = decode(split(data, cuts))
    assert found == frames
    assert decoder.fault is None
    assert decoder.is_between_frames


@settings(max_examples=300)
@given(data=FRAMES.map(lambda frames: b"".join(encode_frame(*frame) for frame in frames)) | st.binary())
def test_frames_handed_on_are_those_that_are_taken(data: bytes) -> None:
    """Frames or random bytes give the same frames, the same fault, and the same bytes kept for later."""
    one, other = FrameDecoder(BOUND), FrameDecoder(BOUND)
    for piece in split(data, [len(data) // 3]):
        one.feed(piece)
        other.feed(piece)
        assert hand_all(other) == take_all(one)
        assert (other.fault, other.held_bytes) == (one.fault, one.held_bytes)


@given(frames=FRAMES)
def test_byte_by_byte(frames: list[Frame]) -> None:
    """The worst split of all."""
    data = b"".join(encode_frame(kind, payload) for kind, payload in frames)
    assert decode([data[i : i + 1] for i in range(len(data))])[0] == frames


@settings(max_examples=300)
@given(data=st.binary(max_size=2000), cuts=st.lists(st.integers(min_value=0), max_size=12))
def test_random_bytes_have_one_outcome_however_they_are_split(data: bytes, cuts: list[int]) -> None:
    """The result is some frames and at most one fault, the same for the whole and for every split."""
    whole, one = decode([data])
    pieces, many = decode(split(data, cuts))
    assert pieces == whole
    assert many.fault == one.fault
    assert many.is_between_frames == one.is_between_frames


@given(frames=FRAMES, at=st.integers(min_value=0), value=st.integers(0, 255))
def test_one_changed_byte_never_changes_what_came_before_it(frames: list[Frame], at: int, value: int) -> None:
    """Frames that ended before the changed byte are returned as they were sent."""
    data = bytearray(b"".join(encode_frame(kind, payload) for kind, payload in frames))
    if not data:
        return
    at %= len(data)
    data[at] = value
    found, _ = decode([bytes(data)])
    end, untouched = 0, 0
    for _, payload in frames:
        end += HEADER_BYTES + len(payload)
        untouched += end <= at
    assert found[:untouched] == frames[:untouched]


def test_a_frame_at_the_bound_passes_and_one_beyond_does_not() -> None:
    """The bound itself is allowed; one byte more is a fault, seen from the header alone."""
    assert decode([encode_frame(Kind.HEARTBEAT, b"x" * BOUND)])[0] == [(Kind.HEARTBEAT, b"x" * BOUND)]
    found, decoder = decode([encode_frame(Kind.HEARTBEAT, b"ok"), HEADER.pack(BOUND + 1, Kind.HEARTBEAT)])
    assert found == [(Kind.HEARTBEAT, b"ok")]
    assert decoder.fault is not None
    assert decoder.fault.why is Why.FRAME_TOO_LONG
    assert decoder.held_bytes == 0


def test_after_a_fault_nothing_is_given_or_kept() -> None:
    """An unknown kind is final, even if good frames follow."""
    good = encode_frame(Kind.HEARTBEAT, b"later")
    found, decoder = decode([HEADER.pack(0, 255) + good, good, good])
    assert found == []
    assert decoder.fault is not None
    assert decoder.fault.why is Why.UNKNOWN_KIND
    assert decoder.held_bytes == 0


def test_a_long_frame_in_many_pieces_is_put_together_once() -> None:
    """A frame of megabytes in small pieces comes out whole; the bytes held never exceed it."""
    payload = random.Random(1).randbytes(3_000_000)
    data = encode_frame(Kind.AUTHORITY_ANSWER, payload)
    pieces = [data[i : i + 1400] for i in range(0, len(data), 1400)]
    found, decoder = decode(pieces, bound=len(payload))
    assert found == [(Kind.AUTHORITY_ANSWER, payload)]
    assert decoder.is_between_frames


def test_a_long_frame_that_has_begun_is_told_to_who_watches_from_then_on() -> None:
    """It may begin in the same bytes as the proof that lets the peer in; a short one is not told of."""
    decoder = FrameDecoder(1 << 20)
    told: list[int] = []
    decoder.feed(HEADER.pack(FREE_BYTES, Kind.CALL) + b"x" * 10)
    assert decoder.take_one() is None
    decoder.watch_long(told.append)
    assert told == [HEADER_BYTES + FREE_BYTES]
    decoder.feed(b"x" * (FREE_BYTES - 10))
    assert decoder.take_one() == (Kind.CALL, b"x" * FREE_BYTES)
    assert told == [HEADER_BYTES + FREE_BYTES, 0]
    short = FrameDecoder(1 << 20)
    short.feed(HEADER.pack(100, Kind.CALL) + b"x" * 10)
    assert short.take_one() is None
    short.watch_long(told.append)
    assert len(told) == 2


def test_taking_one_at_a_time_leaves_the_rest() -> None:
    """The bound may be raised between two frames of one piece, as the handshake needs."""
    decoder = FrameDecoder(4)
    decoder.feed(encode_frame(Kind.WELCOME, b"abcd") + encode_frame(Kind.HEARTBEAT, b"longer than four"))
    assert decoder.take_run() == []
    assert decoder.take_one() == (Kind.WELCOME, b"abcd")
    decoder.payload_bytes_max = 100
    assert decoder.take_run() == [(Kind.HEARTBEAT, b"longer than four")]
    assert decoder.take_one() is None
