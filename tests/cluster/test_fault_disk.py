"""The faulty disk fails, fills up and is corrupted as told, and is otherwise an ordinary file system."""

import errno
import fcntl
import os
import sqlite3
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest
from faults.disk import FaultyDisk
from faults.files import close_dead, sync_directory, write, write_durably
from faults.machine import require_fuse
from faults.signals import Victim

pytestmark = pytest.mark.cluster

PYTHONPATH = str(Path(__file__).parent)


# -- failing, lying and hanging syncs ------------------------------------------------------------


def test_a_failed_sync_is_told_once_and_its_data_is_lost(faulty_disk: FaultyDisk) -> None:
    """EIO is reported once; the next sync succeeds and writes nothing; readers see the data until the power
    fails."""
    path = write_durably(faulty_disk.path / "file", b"old")
    descriptor = os.open(path, os.O_RDWR)
    os.pwrite(descriptor, b"new", 0)
    faulty_disk.fail_syncs(1)
    with pytest.raises(OSError) as raised:
        os.fdatasync(descriptor)
    assert raised.value.errno == errno.EIO
    os.fdatasync(descriptor)
    os.close(descriptor)
    assert path.read_bytes() == b"new"
    assert faulty_disk.counters()["failed_syncs"] == 1
    faulty_disk.power_cut()
    assert path.read_bytes() == b"old"


def test_what_is_written_again_after_a_failed_sync_is_durable(faulty_disk: FaultyDisk) -> None:
    """Only the data of the failed sync is lost; the disk itself continues to work."""
    path = write_durably(faulty_disk.path / "file", b"old")
    faulty_disk.fail_syncs(1)
    with pytest.raises(OSError):
        write(path, b"new", sync=True)
    write(path, b"new", sync=True)
    faulty_disk.power_cut()
    assert path.read_bytes() == b"new"


def test_the_sync_that_fails_can_be_chosen(faulty_disk: FaultyDisk) -> None:
    """After two good syncs the third fails, the fourth does not; or all fail from now on."""
    path = write_durably(faulty_disk.path / "file", b"")
    faulty_disk.fail_syncs(1, after=2)
    outcomes = []
    for number in range(4):
        try:
            write(path, b"%d" % number, sync=True, offset=number)
            outcomes.append(True)
        except OSError:
            outcomes.append(False)
    assert outcomes == [True, True, False, True]
    faulty_disk.fail_every_sync()
    for _ in range(3):
        with pytest.raises(OSError):
            write(path, b"x", sync=True)
    with pytest.raises(OSError):
        sync_directory(faulty_disk.path)


def test_a_lying_disk_says_synced_and_loses(faulty_disk: FaultyDisk) -> None:
    """Ignored syncs succeed and keep nothing, neither bytes nor names."""
    path = write_durably(faulty_disk.path / "file", b"old")
    faulty_disk.ignore_syncs()
    write(path, b"new", sync=True)
    write(faulty_disk.path / "other", b"", sync=True)
    sync_directory(faulty_disk.path)
    faulty_disk.power_cut()
    assert path.read_bytes() == b"old"
    assert os.listdir(faulty_disk.path) == ["file"]


def test_a_hanging_sync_ends_when_resumed(faulty_disk: FaultyDisk) -> None:
    """Other calls continue while it hangs; resumed, it is done and durable."""
    path = write_durably(faulty_disk.path / "file", b"")
    faulty_disk.hang_syncs()
    syncing = threading.Thread(target=write, args=(path, b"slow"), kwargs={"sync": True})
    syncing.start()
    syncing.join(timeout=0.2)
    assert syncing.is_alive()
    assert path.read_bytes() == b"slow"
    faulty_disk.resume_syncs()
    syncing.join(timeout=60)
    assert not syncing.is_alive()
    faulty_disk.power_cut()
    assert path.read_bytes() == b"slow"


def test_a_synced_write_fails_and_hangs_like_a_sync(faulty_disk: FaultyDisk) -> None:
    """RWF_DSYNC: the write itself returns EIO, or does not return."""
    path = write_durably(faulty_disk.path / "file", b"old")
    descriptor = os.open(path, os.O_RDWR)
    faulty_disk.fail_syncs(1)
    with pytest.raises(OSError) as raised:
        os.pwritev(descriptor, [b"bad"], 0, os.RWF_DSYNC)
    assert raised.value.errno == errno.EIO

    faulty_disk.hang_syncs()
    written: list[int] = []
    writing = threading.Thread(
        target=lambda: written.append(os.pwritev(descriptor, [b"new"], 0, os.RWF_DSYNC))
    )
    writing.start()
    writing.join(timeout=0.2)
    assert writing.is_alive()
    faulty_disk.resume_syncs()
    writing.join(timeout=30)
    assert written == [3]
    os.close(descriptor)
    faulty_disk.power_cut()
    assert path.read_bytes() == b"new"


# -- full disks, corrupted disks -------------------------------------------------------------------


def test_a_full_disk_refuses_growth_and_allows_overwriting(faulty_disk: FaultyDisk) -> None:
    """A write at the limit is short, the next fails, allocation is all or nothing; with space again, all
    continues."""
    path = write_durably(faulty_disk.path / "file", b"x" * 1000)
    faulty_disk.fill_up(free_bytes=600)
    descriptor = os.open(path, os.O_RDWR)
    with pytest.raises(OSError) as raised:
        os.posix_fallocate(descriptor, 0, 1601)
    assert raised.value.errno == errno.ENOSPC
    assert os.pwrite(descriptor, b"y" * 1000, 1000) == 600
    with pytest.raises(OSError) as raised:
        os.pwrite(descriptor, b"z", 1600)
    assert raised.value.errno == errno.ENOSPC
    assert os.pwrite(descriptor, b"w" * 1600, 0) == 1600
    os.fsync(descriptor)
    faulty_disk.free_up()
    assert os.pwrite(descriptor, b"z", 1600) == 1
    os.close(descriptor)
    assert path.read_bytes() == b"w" * 1600 + b"z"


def test_removing_a_file_makes_room(faulty_disk: FaultyDisk) -> None:
    """A full disk is usable again once something is removed from it."""
    path = write_durably(faulty_disk.path / "file", b"x" * 1000)
    faulty_disk.fill_up()
    other = faulty_disk.path / "other"
    with pytest.raises(OSError):
        write(other, b"y" * 1000, sync=True)
    path.unlink()
    write(other, b"y" * 1000, sync=True)
    assert other.read_bytes() == b"y" * 1000


def test_a_flipped_bit_is_seen_by_all_and_for_good(faulty_disk: FaultyDisk) -> None:
    """Readers that had the file open see it, and it is still there after a cut; nothing else has changed."""
    path = write_durably(faulty_disk.path / "file", b"abc" * 1000)
    with open(path, "rb", buffering=0) as reader:
        assert os.pread(reader.fileno(), 3, 1500) == b"abc"
        faulty_disk.flip_bits(path, 1501, mask=0x20)
        assert os.pread(reader.fileno(), 3, 1500) == b"aBc"
    faulty_disk.power_cut()
    assert path.read_bytes() == b"abc" * 500 + b"aBc" + b"abc" * 499


def test_a_spoilt_sector_cannot_be_read_until_written(faulty_disk: FaultyDisk) -> None:
    """Its neighbours can; rewritten, it is as good as new."""
    path = write_durably(faulty_disk.path / "file", b"x" * 2048)
    faulty_disk.spoil_sector(path, 700)
    with open(path, "r+b", buffering=0) as file:
        assert os.pread(file.fileno(), 512, 0) == b"x" * 512
        with pytest.raises(OSError) as raised:
            os.pread(file.fileno(), 10, 1000)
        assert raised.value.errno == errno.EIO
        os.pwrite(file.fileno(), b"y" * 512, 512)
        assert os.pread(file.fileno(), 2048, 0) == b"x" * 512 + b"y" * 512 + b"x" * 1024


# -- an ordinary file system ---------------------------------------------------------------------


def test_large_writes_and_long_listings(faulty_disk: FaultyDisk) -> None:
    """More than fits in one request is read back unchanged."""
    data = os.urandom(3 << 20) + b"odd"
    path = write_durably(faulty_disk.path / "file", data)
    assert path.read_bytes() == data
    many = faulty_disk.path / "many"
    many.mkdir()
    names = [f"{'n' * 50}-{number}" for number in range(500)]
    for name in names:
        (many / name).touch()
    assert sorted(os.listdir(many)) == sorted(names)
    with pytest.raises(OSError) as raised:
        many.rmdir()
    assert raised.value.errno == errno.ENOTEMPTY


def test_links_times_and_modes(faulty_disk: FaultyDisk) -> None:
    """Everything that a state directory may contain besides plain files works as elsewhere."""
    path = write_durably(faulty_disk.path / "file", b"data")
    os.symlink("file", faulty_disk.path / "soft")
    os.link(path, faulty_disk.path / "hard")
    os.chmod(path, 0o600)
    os.utime(path, (1, 2))
    assert (faulty_disk.path / "soft").read_bytes() == b"data"
    status = (faulty_disk.path / "hard").stat()
    assert (status.st_mode & 0o777, status.st_nlink, status.st_mtime) == (0o600, 2, 2)
    with pytest.raises(FileExistsError):
        os.open(path, os.O_CREAT | os.O_EXCL)


def test_a_lock_excludes_until_its_holder_dies(faulty_disk: FaultyDisk) -> None:
    """flock works on it, and kill -9 frees the lock: hosts prove a death by that (K2)."""
    path = write_durably(faulty_disk.path / "file", b"")
    program = (
        "import fcntl, sys, time; file = open(sys.argv[1]); fcntl.flock(file, fcntl.LOCK_EX)\n"
        "print('held', flush=True); time.sleep(60)"
    )
    with Victim([sys.executable, "-S", "-c", program, str(path)]) as holder, open(path) as file:
        assert holder.wait_for_lines(1, timeout_s=120)
        with pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        holder.kill()
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_sqlite_keeps_its_promise_on_it_and_cannot_on_a_lying_one(faulty_disk: FaultyDisk) -> None:
    """An independent program: committed rows survive torn cuts, and do not when syncs are ignored."""
    path = faulty_disk.path / "db"

    def insert_and_cut() -> int:
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            database.execute("PRAGMA journal_mode=WAL")
            database.execute("PRAGMA synchronous=FULL")
            database.execute("CREATE TABLE IF NOT EXISTS t (x)")
            for number in range(20):
                database.execute("INSERT INTO t VALUES (?)", (number,))
            faulty_disk.power_off()
        faulty_disk.power_on(torn=not is_lying)
        with closing(sqlite3.connect(path)) as database:
            rows = database.execute("SELECT count(*) FROM t").fetchone()[0]
            assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return int(rows)

    is_lying = False
    assert insert_and_cut() == 20
    assert insert_and_cut() == 40
    is_lying = True
    faulty_disk.ignore_syncs()
    assert insert_and_cut() == 40


def test_it_counts_a_thousand_synced_appends(faulty_disk: FaultyDisk) -> None:
    path = write_durably(faulty_disk.path / "file", b"")
    count = 1000
    with open(path, "ab", buffering=0) as file:
        for _ in range(count):
            file.write(b"x" * 100)
            os.fdatasync(file.fileno())
    assert path.stat().st_size == 100 * count
    assert faulty_disk.counters()["syncs"] == count + 1


# -- leaving nothing behind ----------------------------------------------------------------------


def is_mounted(path: Path) -> bool:
    return any(line.split()[1] == str(path) for line in Path("/proc/self/mounts").read_text().splitlines())


def test_it_is_unmounted_when_a_test_fails(tmp_path: Path) -> None:
    """It is unmounted whatever happened inside, even with files still open."""
    require_fuse()
    path = tmp_path / "disk"
    with pytest.raises(ZeroDivisionError), FaultyDisk(path, seed=1) as disk:
        descriptor = os.open(disk.path / "open", os.O_WRONLY | os.O_CREAT)
        assert is_mounted(path)
        raise ZeroDivisionError
    assert not is_mounted(path)
    close_dead(descriptor)


def test_it_is_unmounted_when_the_tester_is_killed(tmp_path: Path) -> None:
    """kill -9 of the process that mounted it removes the mount, and the fault process with it."""
    require_fuse()
    path = tmp_path / "disk"
    program = (
        "import sys, time; from pathlib import Path; from faults.disk import FaultyDisk\n"
        "with FaultyDisk(Path(sys.argv[1]), seed=1): print('mounted', flush=True); time.sleep(60)"
    )
    environment = {**os.environ, "PYTHONPATH": PYTHONPATH}
    with Victim([sys.executable, "-c", program, str(path)], env=environment) as tester:
        assert tester.wait_for_lines(1, timeout_s=120)
        assert is_mounted(path)
    deadline = time.monotonic() + 10
    while is_mounted(path) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not is_mounted(path)
