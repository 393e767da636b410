"""The faulty disk's memory and the faulty network's randomness, compared with the simplest model of each."""

import random
from dataclasses import dataclass, field
from itertools import pairwise

from faults.content import SECTOR_BYTES, Content
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.demo.network.links import MS, Conditions, Link

LIMIT = 6 * SECTOR_BYTES

offsets = st.integers(0, LIMIT)
steps = st.one_of(
    st.tuples(st.just("write"), offsets, st.binary(min_size=1, max_size=3 * SECTOR_BYTES)),
    st.tuples(st.just("resize"), offsets),
    st.tuples(st.just("sync")),
    st.tuples(st.just("lose_sync")),
)


@dataclass
class TwoImages:
    """The simplest model of a file: what programs see and what the disk has, each kept as a whole."""

    seen: bytearray = field(default_factory=bytearray)
    disk: bytearray = field(default_factory=bytearray)
    dirty: set[int] = field(default_factory=set)

    def write(self, offset: int, data: bytes) -> None:
        if offset > len(self.seen):
            self.resize(offset)
        self.seen[offset : offset + len(data)] = data
        self._touch(offset, offset + len(data))

    def resize(self, size: int) -> None:
        self._touch(min(size, len(self.seen)), max(size, len(self.seen)))
        self.seen = self.seen[:size].ljust(size, b"\0")

    def sync(self) -> None:
        self.disk = self.disk[: len(self.seen)].ljust(len(self.seen), b"\0")
        for sector in self.dirty:
            span = slice(sector * SECTOR_BYTES, (sector + 1) * SECTOR_BYTES)
            self.disk[span] = self.seen[span]
        self.dirty.clear()

    def lose_sync(self) -> None:
        self.dirty.clear()

    def _touch(self, start: int, end: int) -> None:
        self.dirty.update(range(start // SECTOR_BYTES, -(-end // SECTOR_BYTES)))


def both(history: list[tuple[object, ...]]) -> tuple[Content, TwoImages]:
    content, model = Content(), TwoImages()
    for name, *arguments in history:
        getattr(content, str(name))(*arguments)
        getattr(model, str(name))(*arguments)
    return content, model


@settings(max_examples=300, deadline=None)
@given(st.lists(steps, max_size=12))
def test_a_cut_leaves_exactly_the_synced_image(history: list[tuple[object, ...]]) -> None:
    """After any calls programs see the one image, and after a cut the other."""
    content, model = both(history)
    assert content.data == model.seen
    content.cut(None)
    assert content.data == model.disk


@settings(max_examples=300, deadline=None)
@given(st.lists(steps, max_size=12), st.integers(0, 1000))
def test_a_torn_cut_mixes_the_two_images_by_sector(history: list[tuple[object, ...]], seed: int) -> None:
    """Each sector is the old or the new one, whole; the size is between the two sizes."""
    content, model = both(history)
    content.cut(random.Random(seed))
    low, high = sorted([len(model.seen), len(model.disk)])
    assert low <= len(content.data) <= high
    seen, disk = model.seen.ljust(high, b"\0"), model.disk.ljust(high, b"\0")
    for start in range(0, len(content.data), SECTOR_BYTES):
        end = min(start + SECTOR_BYTES, len(content.data))
        assert content.data[start:end] in (seen[start:end], disk[start:end])


def test_a_damaged_byte_is_damaged_in_both_images() -> None:
    """Corruption is not undone by a power cut, even under data that had not been synced."""
    content = Content()
    content.write(0, b"aaaa")
    content.sync()
    content.write(0, b"bbbb")
    content.damage(1, 0x80)
    assert content.read(0, 4) == b"b\xe2bb"
    content.cut(None)
    assert content.read(0, 4) == b"a\xe1aa"


# -- links ---------------------------------------------------------------------------------------


def arrivals(seed: int, **conditions: float) -> list[list[int]]:
    link = Link(random.Random(seed), Conditions(**conditions))
    return [link.arrivals(MS * number) for number in range(2000)]


def test_a_clean_link_passes_everything_at_once() -> None:
    assert arrivals(1) == [[MS * number] for number in range(2000)]


def test_loss_and_duplication_come_as_often_as_told() -> None:
    """A quarter is lost; of the rest a tenth arrives twice."""
    copies = [len(times) for times in arrivals(1, loss=0.25, duplicate=0.1)]
    assert 400 < copies.count(0) < 600
    assert 100 < copies.count(2) < 200


def test_jitter_keeps_the_order_and_reordering_breaks_it() -> None:
    """Jitter alone makes packets wait for each other, and none longer than told."""
    waited = arrivals(1, delay_ms=5, jitter_ms=8)
    times = [time for (time,) in waited]
    assert times == sorted(times)
    assert all(5 * MS <= time - MS * number <= 13 * MS for number, time in enumerate(times))
    times = [time for (time,) in arrivals(1, reorder=0.1)]
    overtaken = sum(later < earlier for earlier, later in pairwise(times))
    assert 50 < overtaken < 250


def test_a_flapping_link_passes_in_its_up_times_only() -> None:
    link = Link(random.Random(1), up_ns=30 * MS, down_ns=70 * MS, flaps_since=0)
    passing = [number for number in range(300) if link.arrivals(MS * number)]
    assert passing == [number for number in range(300) if number % 100 < 30]


def test_the_seed_decides_which_packets_suffer() -> None:
    weather = {"delay_ms": 3.0, "jitter_ms": 5.0, "loss": 0.1, "duplicate": 0.1, "reorder": 0.1}
    assert arrivals(7, **weather) == arrivals(7, **weather) != arrivals(8, **weather)
