"""A removed file's name disappears at once, its blocks are freed a little at a time."""

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.storage.volume import STEP_BYTES, Volume

WAIT_S = 60.0


class Cuts:
    """Replaces the system call and records its arguments; the first call waits until it is released."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.descriptors: list[int] = []
        self.go_on = threading.Event()
        self._truncate = os.ftruncate

    def __call__(self, descriptor: int, size: int) -> None:
        self.sizes.append(size)
        self.descriptors.append(descriptor)
        self.go_on.wait(WAIT_S)
        self._truncate(descriptor, size)


@pytest.fixture
def cuts(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cuts]:
    cuts = Cuts()
    monkeypatch.setattr("holdfast.storage.volume.os.ftruncate", cuts)
    monkeypatch.setattr("holdfast.storage.volume.PAUSE_S", 0.0)
    yield cuts
    cuts.go_on.set()


def until_closed(descriptor: int, directory: Path) -> None:
    """Wait until *descriptor* is no longer a removed file of *directory*."""
    until = time.monotonic() + WAIT_S
    while time.monotonic() < until:
        try:
            if not os.readlink(f"/proc/self/fd/{descriptor}").startswith(str(directory)):
                return
        except FileNotFoundError:
            return
        time.sleep(0.005)
    raise AssertionError("the removed file is still open")


def test_a_large_file_is_gone_at_once_and_freed_in_steps_that_nobody_waits_for(
    tmp_path: Path, cuts: Cuts
) -> None:
    """Later work on the volume, such as the log's syncs, is done while the first step still hangs."""
    volume = Volume(tmp_path)
    volume.allocate("old", 2 * STEP_BYTES + 4096)
    volume.remove("old")
    volume.create("log")
    volume.write_and_sync("log", 0, b"on")
    assert volume.failure is None
    assert volume.survey() == [("log", 2)]
    cuts.go_on.set()
    until = time.monotonic() + WAIT_S
    while len(cuts.sizes) < 2 and time.monotonic() < until:
        time.sleep(0.005)
    assert cuts.sizes == [STEP_BYTES + 4096, 4096]
    until_closed(cuts.descriptors[0], tmp_path)
    volume.close()


def test_a_small_file_is_simply_removed(tmp_path: Path, cuts: Cuts) -> None:
    volume = Volume(tmp_path)
    volume.allocate("old", STEP_BYTES)
    volume.remove("old")
    volume.close()
    assert list(tmp_path.iterdir()) == []
    assert cuts.sizes == []


def test_a_file_that_has_another_name_is_left_as_it_is(tmp_path: Path, cuts: Cuts) -> None:
    """A fetched database has its place by a hard link: it stays whole when the shelf removes its own name."""
    volume = Volume(tmp_path)
    volume.allocate("shelved", 2 * STEP_BYTES)
    os.link(tmp_path / "shelved", tmp_path / "in its place")
    volume.remove("shelved")
    assert not (tmp_path / "shelved").exists()
    assert (tmp_path / "in its place").stat().st_size == 2 * STEP_BYTES
    assert volume._freeing._thread is None, "nothing is to be freed"
    assert cuts.sizes == []
    volume.close()
