"""FileDisk: the Disk port on real files."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from types import SimpleNamespace

import pytest

from holdfast.model.errors import DiskFailed, NoSpace
from holdfast.storage import disk as disk_module
from holdfast.storage.disk import OPEN_FILES_MAX, FileDisk

WAIT_S = 60.0


class Owner:
    """The owner's thread: runs the callbacks of the disk's thread and keeps the answers."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.calls: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self.answers: list[tuple[object, bool]] = []
        self.disk = FileDisk(directory, self._on_synced, self.calls.put)

    def answered(self, token: object) -> Callable[[bool], None]:
        """What a durable write calls when it is durable."""
        return partial(self._on_synced, token)

    def _on_synced(self, token: object, ok: bool) -> None:
        self.answers.append((token, ok))

    def wait_for(self, count: int) -> list[tuple[object, bool]]:
        """Wait for *count* answers and return them."""
        until = time.monotonic() + WAIT_S
        while len(self.answers) < count:
            try:
                self.calls.get(timeout=max(0.0, until - time.monotonic()))()
            except Empty:
                raise AssertionError(f"only {self.answers}") from None
        return self.answers


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[Owner]:
    owner = Owner(tmp_path / "store")
    yield owner
    owner.disk.close()


@pytest.fixture
def stalled(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """The disk's syncs hang until the event is set."""
    go_on = threading.Event()

    def hang(descriptor: int) -> None:
        go_on.wait(WAIT_S)

    monkeypatch.setattr(os, "fdatasync", hang)
    yield go_on
    go_on.set()


def test_what_was_synced_is_in_the_files(owner: Owner) -> None:
    """Writes are at their offsets, an allocated file has its full size, and names are listed in order."""
    owner.disk.allocate("b", 4096)
    owner.disk.write_at("b", 512, b"hello")
    owner.disk.append("a", b"one")
    owner.disk.append("a", b"two")
    owner.disk.sync("b", "b done")
    owner.disk.sync("a", "a done")
    owner.disk.sync_dir("names done")
    assert owner.wait_for(3) == [("b done", True), ("a done", True), ("names done", True)]
    assert owner.disk.list() == ["a", "b"]
    assert (owner.directory / "a").read_bytes() == b"onetwo"
    assert (owner.directory / "b").read_bytes() == b"\0" * 512 + b"hello" + b"\0" * (4096 - 517)
    assert (owner.directory / "b").stat().st_blocks * 512 >= 4096


def test_a_new_disk_finds_the_files_of_the_last(owner: Owner) -> None:
    """Names and sizes survive; files can be truncated, renamed over each other, and removed."""
    for name in ("a", "b", "c"):
        owner.disk.append(name, name.encode() * 10)
    owner.disk.truncate("a", 4)
    owner.disk.rename("a", "b")
    owner.disk.remove("c")
    assert owner.disk.read("b", 0, 100) == b"aaaa"
    owner.disk.close()
    again = Owner(owner.directory)
    assert again.disk.list() == ["b"]
    assert again.disk.size("b") == 4
    assert again.disk.read("b", 2, 100) == b"aa"
    again.disk.close()


def test_reads_see_writes_that_a_stalled_disk_still_holds_up(owner: Owner, stalled: threading.Event) -> None:
    """The owner's thread does not wait for a hung sync, and its reads include its own queued writes."""
    owner.disk.append("log", b"0123456789")
    assert owner.disk.read("log", 0, 10) == b"0123456789"
    owner.disk.sync("log", 1)
    owner.disk.write_at("log", 4, b"xy")
    owner.disk.append("log", b"tail")
    assert owner.disk.size("log") == 14
    assert owner.disk.read("log", 0, 100) == b"0123xy6789tail"
    assert owner.disk.read("log", 5, 2) == b"y6"
    assert (owner.directory / "log").read_bytes() == b"0123456789"
    stalled.set()
    assert owner.wait_for(1) == [(1, True)]
    assert owner.disk.read("log", 0, 100) == b"0123xy6789tail"


def test_the_age_of_the_oldest_sync_is_told(owner: Owner, stalled: threading.Event) -> None:
    """K3: a host must see from any thread that a sync hangs."""
    assert owner.disk.oldest_sync_age_ns() == 0
    owner.disk.append("log", b"x")
    owner.disk.sync("log", 1)
    time.sleep(0.02)
    assert owner.disk.oldest_sync_age_ns() >= 20_000_000
    stalled.set()
    owner.wait_for(1)
    assert owner.disk.oldest_sync_age_ns() == 0


@pytest.mark.parametrize(
    ("call", "number", "kind"),
    [
        ("fdatasync", 5, DiskFailed),
        ("pwrite", 5, DiskFailed),
        ("pwrite", 28, NoSpace),
        ("posix_fallocate", 28, NoSpace),
    ],
)
def test_the_first_failure_is_final(
    owner: Owner, monkeypatch: pytest.MonkeyPatch, call: str, number: int, kind: type[Exception]
) -> None:
    """D1: after one failed write or sync, every sync answers False, even if the disk would work again."""
    owner.disk.append("log", b"good")
    owner.disk.sync("log", "before")
    owner.wait_for(1)
    with monkeypatch.context() as broken:

        def fail(*_: object) -> None:
            raise OSError(number, os.strerror(number))

        broken.setattr(os, call, fail)
        owner.disk.allocate("new", 4096)
        owner.disk.write_at("log", 0, b"lost")
        owner.disk.sync("log", "during")
        owner.wait_for(2)
    owner.disk.sync("log", "again")
    owner.disk.sync_dir("names")
    assert owner.wait_for(4) == [("before", True), ("during", False), ("again", False), ("names", False)]
    assert isinstance(owner.disk.failure, kind)
    with pytest.raises(kind):
        owner.disk.append("log", b"more")


def test_short_writes_are_completed(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel may write less than asked; the rest follows at the right place."""
    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, data, offset: pwrite(file, data[:3], offset))
    owner.disk.append("log", b"0123456789")
    owner.disk.sync("log", 1)
    assert owner.wait_for(1) == [(1, True)]
    assert (owner.directory / "log").read_bytes() == b"0123456789"


def synced_file(owner: Owner, size: int = 12) -> Path:
    """A file of zeros called ``log`` that this process knows to be synced."""
    owner.disk.allocate("log", size)
    owner.disk.sync("log", "made")
    owner.wait_for(1)
    owner.answers.clear()
    return owner.directory / "log"


def test_durable_writes_are_answered_in_turn(owner: Owner) -> None:
    """Reads see the writes at once, whether or not they have been executed."""
    path = synced_file(owner)
    for number in range(3):
        owner.disk.write_durably("log", 4 * number, b"%d..." % number, owner.answered(number))
    assert owner.disk.read("log", 0, 100) == b"0...1...2..."
    assert owner.wait_for(3) == [(0, True), (1, True), (2, True)]
    assert path.read_bytes() == b"0...1...2..."


def test_no_durable_write_follows_one_that_failed(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    """D1, D2: no byte of the waiting writes reaches the file, because it would vouch for those before."""
    path = synced_file(owner)
    go_on = threading.Event()

    def fail(*_: object) -> int:
        go_on.wait(WAIT_S)
        raise OSError(5, os.strerror(5))

    with monkeypatch.context() as broken:
        broken.setattr(os, "pwritev", fail)
        for number in range(3):
            owner.disk.write_durably("log", 4 * number, b"lost", owner.answered(number))
        go_on.set()
        assert owner.wait_for(3) == [(0, False), (1, False), (2, False)]
    assert path.read_bytes() == bytes(12)
    with pytest.raises(DiskFailed):
        owner.disk.write_durably("log", 0, b"more", owner.answered(4))


def test_a_short_durable_write_is_completed_and_synced(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    path, syncs, pwritev = synced_file(owner), [], os.pwritev
    monkeypatch.setattr(os, "pwritev", lambda file, data, *rest: pwritev(file, [data[0][:3]], *rest))
    monkeypatch.setattr(os, "fdatasync", syncs.append)
    owner.disk.write_durably("log", 2, b"01234567", owner.answered(1))
    assert owner.wait_for(1) == [(1, True)]
    assert path.read_bytes() == b"\0\0" + b"01234567" + b"\0\0"
    assert len(syncs) == 1


def test_a_durable_write_syncs_whatever_else_was_written(
    owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This includes what an earlier process wrote: the whole file is synced unless it is known to be."""
    synced_file(owner)
    syncs: list[int] = []
    monkeypatch.setattr(os, "fdatasync", syncs.append)
    owner.disk.write_at("log", 0, b"before")
    owner.disk.write_durably("log", 6, b"behind", owner.answered(1))
    owner.wait_for(1)
    assert len(syncs) == 1
    again = Owner(owner.directory)
    for number in range(2):
        again.disk.write_durably("log", 0, b"x", again.answered(number))
    again.wait_for(2)
    again.disk.close()
    assert len(syncs) == 2


def test_several_answers_come_in_one_call(owner: Owner) -> None:
    """The owner is called once for all the syncs that ended meanwhile."""
    owner.disk.append("log", b"x")
    for token in range(20):
        owner.disk.sync("log", token)
    owner.disk.read("log", 0, 1)
    until = time.monotonic() + WAIT_S
    while owner.disk.oldest_sync_age_ns() and time.monotonic() < until:
        time.sleep(0.001)
    assert owner.calls.qsize() == 1
    assert [token for token, _ in owner.wait_for(20)] == list(range(20))


def test_open_files_are_bounded(owner: Owner) -> None:
    """More files than may be open are written, synced and read back correctly."""
    count, open_before = 2 * OPEN_FILES_MAX + 5, len(os.listdir("/proc/self/fd"))
    for number in range(count):
        owner.disk.append(f"f{number}", b"%d" % number)
        owner.disk.sync(f"f{number}", number)
    owner.wait_for(count)
    assert all(owner.disk.read(f"f{number}", 0, 9) == b"%d" % number for number in range(count))
    opened = len(os.listdir("/proc/self/fd")) - open_before
    assert opened <= 2 * OPEN_FILES_MAX, "so many to write, and so many to read"
    # not synced: the kernel reports errors of these only to a descriptor that stays open
    for number in range(count):
        owner.disk.append(f"f{number}", b"!")
    assert owner.disk.read("f0", 0, 9) == b"0!"


def test_errors_of_the_system_never_cross(owner: Owner, tmp_path: Path) -> None:
    """System errors become Holdfast errors: an absent file, a directory that is a file, a failing read."""
    with pytest.raises(DiskFailed):
        owner.disk.read("absent", 0, 1)
    (tmp_path / "plain").write_bytes(b"")
    with pytest.raises(DiskFailed):
        FileDisk(tmp_path / "plain", lambda token, ok: None, lambda call: None)


def test_a_failing_read_is_reported(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sector that cannot be read raises DiskFailed."""
    owner.disk.append("log", b"x")
    owner.disk.sync("log", 1)
    owner.wait_for(1)

    def fail(*_: object) -> bytes:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(disk_module, "os", SimpleNamespace(**{**vars(os), "pread": fail}))
    with pytest.raises(DiskFailed):
        owner.disk.read("log", 0, 1)


def test_nothing_is_called_back_after_close(owner: Owner) -> None:
    """A closed disk does nothing any more, but everything passed to it before was done."""
    owner.disk.append("log", b"kept")
    owner.disk.sync("log", 1)
    owner.disk.close()
    while not owner.calls.empty():
        owner.calls.get()()
    assert owner.answers == []
    assert (owner.directory / "log").read_bytes() == b"kept"
    with pytest.raises(DiskFailed):
        owner.disk.append("log", b"x")


def test_the_space_on_the_disk_is_looked_up_by_the_disks_thread(tmp_path: Path) -> None:
    """What is returned is what the system said lately; the next question finds what it says now (D5)."""
    disk = FileDisk(tmp_path / "store", lambda token, ok: None, lambda work: None)
    try:
        found = disk.space()
        assert found is not None
        assert 0 < found.free <= found.total
        assert found.total == os.statvfs(tmp_path).f_blocks * os.statvfs(tmp_path).f_frsize
    finally:
        disk.close()
