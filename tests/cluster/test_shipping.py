"""Files between real processes that are killed, on a disk that loses power or flips a bit."""

import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from faults.disk import FaultyDisk
from faults.signals import Victim

from holdfast.model.ids import Epoch, Position
from holdfast.shipping.manifest import Contents, describe
from holdfast.shipping.shelf import MANIFEST, PART, file_name
from holdfast.storage.disk import Directory

pytestmark = pytest.mark.cluster

TIMEOUT_S = 120.0
PROCESS = str(Path(__file__).with_name("ship_process.py"))
MIB = 1 << 20


@dataclass
class Source:
    """A directory with a database and a few segments, and the process that offers it."""

    directory: Path
    manifest: Path
    contents: Contents
    rate: int
    port: int = 0

    def __post_init__(self) -> None:
        self.victim = self._process()
        self.sent_before = 0

    @classmethod
    def made(cls, tmp: Path, *, mib: int, seconds: float) -> "Source":
        """Make *mib* megabytes of files, which are offered at a rate that takes *seconds* for them."""
        files = {"data.db": (mib - 1) * MIB + 77, "segments/1": MIB - 300, "segments/2": 223, "empty": 0}
        (tmp / "source" / "segments").mkdir(parents=True)
        dice = random.Random(1)
        for name, size in files.items():
            (tmp / "source" / name).write_bytes(dice.randbytes(size))
        contents = describe(
            Directory(tmp / "source"), files, subject="files", epoch=Epoch(1), position=Position(1)
        )
        (tmp / "manifest").write_bytes(contents.encoded)
        return cls(tmp / "source", tmp / "manifest", contents, int(mib * MIB / seconds))

    def start(self) -> None:
        self.victim.start()
        assert self.victim.wait_for_lines(1, timeout_s=TIMEOUT_S), self.victim.errors
        self.port = int(self.victim.lines[0].split()[1])

    def restart(self) -> None:
        self.victim.kill()
        self.sent_before = self.sent
        self.victim = self._process()  # it listens where it did
        self.start()

    @property
    def sent(self) -> int:
        """What was sent in all lives."""
        last = self.victim.lines[-1].split()
        return self.sent_before + (int(last[1]) if last[0] == "sent" else 0)

    def wait_for(self, count: int) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while self.sent < count and time.monotonic() < deadline:
            time.sleep(0.002)
        assert self.sent >= count

    def fetcher(self, shelf: Path) -> Victim:
        return Victim([sys.executable, PROCESS, "fetch", str(shelf), str(self.manifest), str(self.port)])

    def assert_whole(self, shelf: Path) -> None:
        assert (shelf / f"{self.contents.id.hex()}{MANIFEST}").exists()
        for file in self.contents.files:
            assert (shelf / file_name(file)).read_bytes() == (self.directory / file.name).read_bytes()

    def _process(self) -> Victim:
        files = (str(self.directory), str(self.manifest))
        return Victim([sys.executable, PROCESS, "offer", *files, str(self.port), str(self.rate)])


@pytest.fixture
def source(tmp_path: Path, rounds: Callable[..., int]) -> Iterator[Source]:
    source = Source.made(tmp_path, mib=rounds(short=16, long=64), seconds=rounds(short=1, long=4))
    source.start()
    yield source
    source.victim.kill()


def test_kills_of_either_side_send_nothing_again(
    source: Source, tmp_path: Path, rounds: Callable[..., int]
) -> None:
    """Whoever is killed at whatever moment, the rest is sent, and not much more than that (W6)."""
    kills, shelf = rounds(short=4, long=20), tmp_path / "shelf"
    fetcher = source.fetcher(shelf)
    fetcher.start()
    for turn in range(kills):
        source.wait_for(source.contents.bytes * (turn + 1) // (kills + 2))
        if turn % 2:
            source.restart()
        else:
            fetcher.kill()
            fetcher = source.fetcher(shelf)
            fetcher.start()
    assert fetcher.wait(timeout_s=TIMEOUT_S) == 0, fetcher.errors
    assert fetcher.lines[-1].startswith("done"), fetcher.lines[-1]
    source.assert_whole(shelf)
    assert source.contents.bytes <= source.sent <= 1.1 * source.contents.bytes


def test_a_flipped_bit_is_noticed_before_it_counts(source: Source, faulty_disk: FaultyDisk) -> None:
    """It is named with file and offset, and fetched again (W5)."""
    shelf = faulty_disk.path / "shelf"
    with source.fetcher(shelf) as fetcher:
        source.wait_for(source.contents.bytes // 2)
        faulty_disk.flip_bits(shelf / (file_name(source.contents.files[0]) + PART), 70_000, mask=4)
        fetcher.wait(timeout_s=TIMEOUT_S)
        damage = [line for line in fetcher.lines if line.startswith("damage")]
        assert len(damage) == 1
        assert damage[0].startswith("damage a chunk on this disk: data.db at byte 65536: expected ")
        assert fetcher.lines[-1].startswith("done")
    source.assert_whole(shelf)
    chunk_bytes = source.contents.manifest.chunk_bytes
    assert source.sent == source.contents.bytes + chunk_bytes


def test_power_cuts_take_nothing_that_counts(
    source: Source, faulty_disk: FaultyDisk, rounds: Callable[..., int]
) -> None:
    """After each, what counts is whole; and in the end it counts (W5)."""
    dice, shelf = random.Random(3), faulty_disk.path / "shelf"
    for _ in range(rounds(short=2, long=30)):
        faulty_disk.power_off_after(changes=dice.randint(10, 250))
        with source.fetcher(shelf) as fetcher:
            fetcher.wait(timeout_s=TIMEOUT_S)
        faulty_disk.power_on(torn=True)
        if (shelf / f"{source.contents.id.hex()}{MANIFEST}").exists():
            source.assert_whole(shelf)
            for path in shelf.iterdir():
                path.unlink()
    with source.fetcher(shelf) as fetcher:
        assert fetcher.wait(timeout_s=TIMEOUT_S) == 0
        assert fetcher.lines[-1].startswith("done"), fetcher.lines[-1]
    source.assert_whole(shelf)
