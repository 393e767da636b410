"""The TLS layer by itself: what it makes of bytes, and how little it does per record."""

import datetime
import ssl
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import pytest

from holdfast.net import Role, Tls, layer
from holdfast.net.certificates import create_domain, issue
from holdfast.net.layer import RECORD_BYTES_MAX, LayerFailed, TlsLayer

NOW = datetime.datetime.now(datetime.UTC)
RECORD_HEADER = 5
FRAMES = 20
OF_THE_LAYER = {ssl.__file__, layer.__file__}


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    directory = tmp_path_factory.mktemp("certs")
    create_domain(directory, "test", NOW)
    issue(directory, Role.HOST, "server", NOW)
    return Tls.load(directory, Role.HOST, "server")


def joined(tls: Tls) -> tuple[TlsLayer, TlsLayer]:
    """Two ends whose handshake is done, fed byte by byte."""
    one, other = TlsLayer(tls, is_connector=True), TlsLayer(tls, is_connector=False)
    one.begin()
    for _ in range(4):
        for data in one.take_output():
            other.receive(bytes([data]))
        for data in other.take_output():
            one.receive(bytes([data]))
    assert one.is_ready
    assert other.is_ready
    return one, other


class Seen:
    """What the layer did meanwhile: calls of Python functions and of OpenSSL, and exceptions."""

    def __init__(self) -> None:
        self.python: list[str] = []
        self.openssl: list[str] = []
        self.exceptions = 0


@contextmanager
def watched() -> Iterator[Seen]:
    seen = Seen()

    def on_call(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename in OF_THE_LAYER:
            seen.python.append(frame.f_code.co_name)
        elif event == "c_call" and "SSLSocket" in (name := getattr(argument, "__qualname__", "")):
            seen.openssl.append(name.removeprefix("_SSLSocket."))

    def on_line(frame: FrameType, event: str, argument: object) -> object:
        seen.exceptions += event == "exception" and frame.f_code.co_filename in OF_THE_LAYER
        return on_line

    before = sys.getprofile(), sys.gettrace()
    sys.settrace(on_line)
    sys.setprofile(on_call)
    try:
        yield seen
    finally:
        sys.setprofile(before[0])
        sys.settrace(before[1])


def records_in(wire: bytes) -> int:
    found, at = 0, 0
    while at < len(wire):
        at += RECORD_HEADER + int.from_bytes(wire[at + 3 : at + 5], "big")
        found += 1
    assert at == len(wire)
    return found


def test_a_frame_is_one_record_one_call_each_way_and_no_exception(tls: Tls) -> None:
    """Per frame each end calls OpenSSL once, by one call of Python's own ssl module, and nothing is raised to
    say that there is no more."""
    one, other = joined(tls)
    frame = bytearray(b"x" * 300)
    with watched() as sending:
        wires = [one.wrap(frame) for _ in range(FRAMES)]
    assert [records_in(wire) for wire in wires] == [1] * FRAMES
    with watched() as receiving:
        found = [other.receive(bytes(wire)) for wire in wires]
    assert found == [bytes(frame)] * FRAMES
    assert sending.openssl == ["write"] * FRAMES
    assert receiving.openssl == ["read"] * FRAMES
    assert sending.python == ["wrap", "write"] * FRAMES
    assert receiving.python == ["receive", "read"] * FRAMES
    assert sending.exceptions == receiving.exceptions == 0


def test_records_that_arrive_together_are_read_together(tls: Tls) -> None:
    """A long frame is full records; only a record that is not whole makes OpenSSL ask for more, once."""
    one, other = joined(tls)
    long = bytes(range(256)) * (5 * RECORD_BYTES_MAX // 256) + b"end"
    wire = bytes(one.wrap(long))
    assert records_in(wire) == 6
    with watched() as whole:
        assert other.receive(wire) == long
    assert whole.openssl == ["read"] * 6
    assert whole.exceptions == 0
    wire = bytes(one.wrap(long))
    with watched() as torn:
        first = other.receive(wire[:-7])
    assert torn.openssl == ["read"] * 6
    assert torn.exceptions > 0
    assert first + other.receive(wire[-7:]) == long
    assert len(first) == 5 * RECORD_BYTES_MAX


def test_any_split_of_the_records_gives_the_same_bytes(tls: Tls) -> None:
    """The layer alone gives the same bytes when fed byte by byte, and notices a changed one."""
    one, other = joined(tls)
    wire = one.wrap(b"hello" * 5000)
    assert b"".join(other.receive(bytes([data])) for data in wire) == b"hello" * 5000
    peer = other.peer()
    assert peer is not None
    assert peer.id == "server"
    damaged = bytearray(one.wrap(b"damaged"))
    damaged[-1] ^= 1
    with pytest.raises(LayerFailed):
        other.receive(bytes(damaged))
    assert other.take_output()  # an alert, and nothing more can be sent afterwards
    assert other.wrap(b"late") == b""


def test_an_end_that_was_closed_has_no_more_to_read(tls: Tls) -> None:
    one, other = joined(tls)
    wire = bytes(one.wrap(b"last"))
    one.close()
    assert other.receive(wire + one.take_output()) == b"last"
    assert other.receive(b"") == b""
