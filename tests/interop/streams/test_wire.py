"""The documented format is the one that is spoken: its test vectors, and a source in C that follows it."""

import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from wire_vectors import KEY, KEY_ID, VECTORS

from holdfast.streams.columns import Malformed
from holdfast.streams.datagram import Batch, Beat, Datagram, decode, encode
from holdfast.streams.encoding import EncodingConfig, StreamEncoder
from holdfast.streams.message import NONE_BEFORE
from means import ROOT, missing

DOCUMENT = ROOT / "docs" / "streams-wire.md"
SENDER = ROOT / "examples" / "stream-source" / "sender.c"


def documented() -> dict[str, bytes]:
    (block,) = re.findall(r"```vectors\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    found = re.findall(r"^(\S.*):\n((?:  [0-9a-f]+\n)+)", block, re.MULTILINE)
    return {name: bytes.fromhex("".join(digits.split())) for name, digits in found}


def read(data: bytes) -> Datagram:
    return decode(data, lambda key: KEY if key == KEY_ID else None, is_open=True)


def test_the_document_has_every_vector() -> None:
    assert list(documented()) == list(VECTORS)


@pytest.mark.parametrize("name", VECTORS)
def test_a_vector(name: str) -> None:
    """What the page shows is what is written, and what is read."""
    value, data = VECTORS[name], documented()[name]
    assert encode(value, KEY if value.sender.key else None).hex() == data.hex()
    assert read(data) == value


@pytest.fixture(scope="module")
def sender(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        missing("a C compiler")
    made = tmp_path_factory.mktemp("sender") / "sender"
    warnings = ["-Wall", "-Wextra", "-Werror"]
    subprocess.run([compiler, "-O2", *warnings, "-o", made, SENDER], check=True, timeout=60)
    return made


@pytest.fixture
def member() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.settimeout(5)
        yield listening


def sent(sender: Path, member: socket.socket, lines: list[str], *options: str) -> list[bytes]:
    """All datagrams that the source in C sends for these lines."""
    to = f"127.0.0.1:{member.getsockname()[1]}"
    text = "".join(f"{line}\n" for line in lines)
    subprocess.run([sender, "-s", "7", "-i", "3", *options, to], input=text.encode(), check=True, timeout=20)
    found = []
    while True:
        found.append(member.recv(65_536))
        said = decode(found[-1], lambda _: KEY, is_open=True)
        if isinstance(said, Beat) and said.is_last:
            return found


@pytest.mark.parametrize("options", [(), ("-k", f"{KEY_ID}:{KEY.hex()}")], ids=["open", "sealed"])
def test_a_source_in_c(sender: Path, member: socket.socket, options: tuple[str, ...]) -> None:
    """A source that was written from the page alone is understood: numbers, priorities, distances, topics,
    payloads, heartbeats and, with a key, its tags. What it sends is what our own encoder makes."""
    lines = [f"{number % 3} {('-', 'bids', 'asks')[number % 3]} payload {number}" for number in range(500)]
    said = [read(each) for each in sent(sender, member, lines, "-l", "3", *options)]
    assert all(each.sender == (KEY_ID if options else 0, 7, 3) for each in said)
    batches = [each for each in said if isinstance(each, Batch)]
    assert len(batches) > 5
    encoder = StreamEncoder(EncodingConfig(levels=3, created=False))
    for index, message in enumerate(each for batch in batches for each in batch.messages):
        priority, topic, payload = lines[index].split(" ", 2)
        assert message == encoder.message(
            payload.encode(), priority=int(priority), topic="" if topic == "-" else topic
        )
    assert encoder.highest == len(lines)
    first, last = said[0], said[-1]
    assert first == Beat(first.sender, 0, 1, (NONE_BEFORE, NONE_BEFORE))
    assert last == Beat(first.sender, len(lines), len(lines) + 1, encoder.distances, (), is_last=True)


def test_a_source_in_c_with_another_key(sender: Path, member: socket.socket) -> None:
    """A tag made with another key is refused."""
    (first, *_) = sent(sender, member, ["0 - x"], "-k", f"{KEY_ID}:{KEY.hex()}")
    with pytest.raises(Malformed) as found:
        decode(first, lambda _: bytes(32))
    assert found.value.why == "tag"
