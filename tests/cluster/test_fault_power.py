"""The faulty disk's power cuts keep what was synced and lose what was not."""

import errno
import os
from pathlib import Path

import pytest
from faults.content import SECTOR_BYTES
from faults.disk import FaultyDisk
from faults.files import close_dead, sync_directory, write, write_durably
from faults.machine import require_fuse

pytestmark = pytest.mark.cluster


def test_synced_data_survives_and_unsynced_is_lost(faulty_disk: FaultyDisk) -> None:
    """Before the cut readers see everything; after it only what was synced."""
    path = write_durably(faulty_disk.path / "file", b"synced")
    write(path, b"SYNCED, and more", sync=False)
    assert path.read_bytes() == b"SYNCED, and more"
    report = faulty_disk.power_cut()
    assert path.read_bytes() == b"synced"
    assert (report.sectors_kept, report.sectors_lost) == (0, 1)


def test_a_torn_write_keeps_some_sectors_whole_and_loses_others(faulty_disk: FaultyDisk) -> None:
    """After a torn cut each unsynced sector is wholly old or wholly new, and over a few cuts both occur."""
    sectors = 64
    kept = lost = 0
    for round_ in range(6):
        old, new = bytes([2 * round_]), bytes([2 * round_ + 1])
        path = write_durably(faulty_disk.path / "file", old * sectors * SECTOR_BYTES)
        write(path, new * sectors * SECTOR_BYTES, sync=False)
        report = faulty_disk.power_cut(torn=True)
        found = path.read_bytes()
        each = [found[at : at + SECTOR_BYTES] for at in range(0, len(found), SECTOR_BYTES)]
        assert len(each) == sectors
        assert set(each) <= {old * SECTOR_BYTES, new * SECTOR_BYTES}
        assert each.count(new * SECTOR_BYTES) == report.sectors_kept
        kept, lost = kept + report.sectors_kept, lost + report.sectors_lost
    assert kept > sectors
    assert lost > sectors


def test_the_seed_decides_what_tears(tmp_path: Path) -> None:
    """The same seed and the same calls leave the same bytes; another seed leaves others."""
    require_fuse()
    remains = []
    for name, seed in [("first", 5), ("again", 5), ("other", 6)]:
        with FaultyDisk(tmp_path / name, seed=seed) as disk:
            path = write_durably(disk.path / "file", b"")
            write(path, bytes(range(256)) * 128, sync=False)
            disk.power_cut(torn=True)
            remains.append(path.read_bytes())
    assert remains[0] == remains[1] != remains[2]


def test_a_new_file_needs_a_sync_of_its_directory(faulty_disk: FaultyDisk) -> None:
    """A synced file whose name was not synced is gone after a cut (D3)."""
    write(faulty_disk.path / "unnamed", b"synced", sync=True)
    report = faulty_disk.power_cut()
    assert os.listdir(faulty_disk.path) == []
    assert report.names_lost == 1


def test_a_rename_needs_a_sync_of_its_directory(faulty_disk: FaultyDisk) -> None:
    """Without it the old name and the file that the new name had return; with it the rename stays."""
    path = write_durably(faulty_disk.path / "file", b"old")
    aside = faulty_disk.path / "aside"
    write(aside, b"new", sync=True)
    sync_directory(faulty_disk.path)
    os.rename(aside, path)
    assert os.listdir(faulty_disk.path) == ["file"]
    faulty_disk.power_cut()
    assert (path.read_bytes(), aside.read_bytes()) == (b"old", b"new")
    os.rename(aside, path)
    sync_directory(faulty_disk.path)
    faulty_disk.power_cut()
    assert path.read_bytes() == b"new"
    assert not aside.exists()


def test_a_removal_needs_a_sync_of_its_directory(faulty_disk: FaultyDisk) -> None:
    """A removed file returns with its synced bytes unless the directory was synced."""
    path = write_durably(faulty_disk.path / "file", b"bytes")
    path.unlink()
    assert not path.exists()
    faulty_disk.power_cut()
    assert path.read_bytes() == b"bytes"
    path.unlink()
    sync_directory(faulty_disk.path)
    faulty_disk.power_cut()
    assert not path.exists()


def test_torn_directories_keep_a_beginning_of_their_changes(faulty_disk: FaultyDisk) -> None:
    """Unsynced names survive up to some point; a rename is there or not, never half."""
    kept = lost = 0
    for round_ in range(8):
        folder = faulty_disk.path / str(round_)
        folder.mkdir()
        sync_directory(faulty_disk.path)
        for number in range(5):
            write(folder / f"aside{number}", b"", sync=True)
            os.rename(folder / f"aside{number}", folder / f"{number}")
        report = faulty_disk.power_cut(torn=True)
        renamed, half = divmod(report.names_kept, 2)
        expected = [str(number) for number in range(renamed)] + [f"aside{renamed}"] * half
        assert sorted(os.listdir(folder)) == expected
        kept, lost = kept + report.names_kept, lost + report.names_lost
    assert kept > 8
    assert lost > 8


def test_a_directory_in_a_directory(faulty_disk: FaultyDisk) -> None:
    """Each level needs its own sync; one that has it survives with its content."""
    inner = faulty_disk.path / "outer" / "inner"
    inner.mkdir(parents=True)
    write(inner / "file", b"deep", sync=True)
    for directory in (faulty_disk.path, inner.parent, inner):
        sync_directory(directory)
    (faulty_disk.path / "outer" / "late").mkdir()
    faulty_disk.power_cut()
    assert (inner / "file").read_bytes() == b"deep"
    assert os.listdir(faulty_disk.path / "outer") == ["inner"]


def test_a_preallocated_file_keeps_its_size_and_loses_unsynced_writes(faulty_disk: FaultyDisk) -> None:
    """Allocation is durable with its sync; unsynced parts are zeros again."""
    size = 64 << 20
    path = faulty_disk.path / "log"
    with open(path, "xb", buffering=0) as file:
        os.posix_fallocate(file.fileno(), 0, size)
        os.fsync(file.fileno())
        sync_directory(faulty_disk.path)
        os.pwrite(file.fileno(), b"first", 0)
        os.fdatasync(file.fileno())
        os.pwrite(file.fileno(), b"second", 5)
    faulty_disk.power_cut()
    assert path.stat().st_size == size
    with open(path, "rb") as file:
        assert file.read(16) == b"first" + bytes(11)


def test_a_truncation_needs_a_sync(faulty_disk: FaultyDisk) -> None:
    """An unsynced truncation is undone, including the bytes."""
    path = write_durably(faulty_disk.path / "file", b"x" * 2000)
    os.truncate(path, 100)
    assert path.stat().st_size == 100
    faulty_disk.power_cut()
    assert path.read_bytes() == b"x" * 2000


def test_writes_through_a_synchronous_descriptor_are_durable(faulty_disk: FaultyDisk) -> None:
    """O_DSYNC syncs with each write, so the data must survive without any further call."""
    path = write_durably(faulty_disk.path / "file", b"")
    descriptor = os.open(path, os.O_WRONLY | os.O_DSYNC)
    os.write(descriptor, b"at once")
    os.close(descriptor)
    faulty_disk.power_cut()
    assert path.read_bytes() == b"at once"


def test_a_write_that_asks_to_be_synced_is_durable(faulty_disk: FaultyDisk) -> None:
    """RWF_DSYNC does for one write what O_DSYNC does for all writes of a descriptor; the log relies on it.
    What a plain write left unsynced in the same file may be lost."""
    path = write_durably(faulty_disk.path / "file", bytes(2048))
    descriptor = os.open(path, os.O_RDWR)
    os.pwrite(descriptor, b"later", 1024)
    before = faulty_disk.counters()["syncs"]
    assert os.pwritev(descriptor, [b"at once"], 0, os.RWF_DSYNC) == 7
    assert faulty_disk.counters()["syncs"] == before + 1
    os.close(descriptor)
    faulty_disk.power_cut()
    assert path.read_bytes()[:7] == b"at once"


def test_the_power_may_go_between_a_write_and_its_sync(faulty_disk: FaultyDisk) -> None:
    """It is one call to the program but two changes to the disk: otherwise no such write could ever be
    torn."""
    path = write_durably(faulty_disk.path / "file", bytes(4096))
    descriptor = os.open(path, os.O_RDWR)
    faulty_disk.power_off_after(changes=1)
    with pytest.raises(OSError):
        os.pwritev(descriptor, [b"x" * 4096], 0, os.RWF_DSYNC)
    close_dead(descriptor)
    report = faulty_disk.power_on()
    assert report.sectors_lost == 8
    assert path.read_bytes() == bytes(4096)


def test_files_open_at_the_cut_stay_dead(faulty_disk: FaultyDisk) -> None:
    """A process from before the cut cannot use the disk after it."""
    path = write_durably(faulty_disk.path / "file", b"alive")
    descriptor = os.open(path, os.O_RDWR)
    faulty_disk.power_cut()
    with pytest.raises(OSError) as raised:
        os.pwrite(descriptor, b"ghost", 0)
    assert raised.value.errno == errno.ENOTCONN
    close_dead(descriptor)
    assert path.read_bytes() == b"alive"


def test_the_power_goes_at_an_exact_change(faulty_disk: FaultyDisk) -> None:
    """Told to let two changes pass, it fails the third and all after it, and keeps those that passed."""
    path = write_durably(faulty_disk.path / "file", b"")
    descriptor = os.open(path, os.O_RDWR)
    faulty_disk.power_off_after(changes=2)
    os.pwrite(descriptor, b"one", 0)
    os.fsync(descriptor)
    assert faulty_disk.is_on()
    with pytest.raises(OSError):
        os.pwrite(descriptor, b"two", 0)
    assert not faulty_disk.is_on()
    close_dead(descriptor)
    faulty_disk.power_on()
    assert path.read_bytes() == b"one"
