"""Recovery: torn tails, damage, and what a scan may trust (D2)."""

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from storage_machine import FIRST, SALT, A, B, Machine, MemoryFiles

from holdfast.model.errors import Corruption
from holdfast.model.ids import GroupId, Position
from holdfast.storage.record_map import read_records
from holdfast.storage.recovery import Recovered, scan
from holdfast.storage.segments import file_name

LOG1 = file_name(1)


def last_batch(machine: Machine) -> tuple[str, int]:
    """File and offset of the last batch with records."""
    end = machine.log.mark
    data = machine.files()[file_name(end.file)]
    return file_name(end.file), data.rindex(b"HfB1", 0, end.offset)


def test_an_empty_disk_is_an_empty_log() -> None:
    found = scan(MemoryFiles({}), salt=SALT, sector=512)
    assert (found.groups, found.is_doubtful, found.damage) == ({}, False, [])


def test_a_clean_end_is_not_doubted() -> None:
    machine = Machine()
    machine.open()
    machine.write(b"one")
    host = machine.restart(power_cut=True)
    assert not host.recovered.is_doubtful
    assert not host.recovered.damage


@pytest.mark.parametrize("shift", [0, 100, 512, 1000])
def test_a_damaged_last_batch_is_cut_in_doubt(shift: int) -> None:
    """D2: nobody can say whether the batch is torn or rotted: it is cut, the log works and reports doubt."""
    machine = Machine()
    machine.open()
    machine.write(b"one")
    machine.write(b"x" * 900)
    name, offset = last_batch(machine)
    machine.overwrite(name, offset + shift, b"\xff" * 8)
    host = machine.restart()
    assert host.recovered.is_doubtful
    assert not host.recovered.damage
    machine.open()
    assert machine.bodies() == [b"one"]
    machine.write(b"two")
    assert machine.bodies() == [b"one", b"two"]


@pytest.mark.parametrize("above", [0, 1, 512, 700])
def test_a_file_cut_above_its_last_record_is_a_tail_in_doubt(above: int) -> None:
    """D2: all records are there, and nothing says whether more were. The log works on in what is left."""
    machine = Machine()
    machine.open()
    machine.write(b"one")
    machine.write(b"two")
    end = machine.log.mark
    machine.truncate(file_name(end.file), end.offset + above)
    host = machine.restart()
    assert (host.recovered.is_doubtful, host.recovered.damage) == (True, [])
    machine.open()
    for number in range(6):
        machine.write(bytes([65 + number]) * 700)
    assert machine.bodies()[:3] == [b"one", b"two", b"A" * 700]
    assert machine.restart(power_cut=True).recovered.damage == []
    machine.open()
    assert len(machine.bodies()) == 8


def test_a_file_cut_in_the_middle_of_the_log_is_damage() -> None:
    machine = Machine()
    machine.open()
    for number in range(10):
        machine.write(bytes([number]) * 1500)
    files = machine.files()
    files[file_name(2)] = files[file_name(2)][: len(files[file_name(2)]) // 3]
    found = scan(MemoryFiles(files), salt=SALT, sector=512)
    assert found.damage[0].file == file_name(2)


@pytest.mark.parametrize("sector", [0, 1])
def test_one_blank_sector_is_never_taken_for_the_end(sector: int) -> None:
    """Even the smallest batch has two sectors: with either of them blank, the log is in doubt."""
    machine = Machine()
    machine.open()
    machine.write(b"x")
    name, offset = last_batch(machine)
    machine.overwrite(name, offset + 512 * sector, bytes(512))
    assert machine.restart().recovered.is_doubtful


def test_doubt_outlives_restarts_until_it_is_cleared() -> None:
    """D2: a crash after the cut must not make the log look clean."""
    machine = Machine()
    machine.open()
    machine.write(b"one")
    machine.write(b"two")
    name, offset = last_batch(machine)
    machine.overwrite(name, offset + 70, b"\xff")
    machine.restart()
    machine.open()
    machine.write(b"three")
    for power_cut in (False, True):
        assert machine.restart(power_cut=power_cut).recovered.is_doubtful
        assert machine.open().is_doubtful
    machine.log.clear_doubt()
    machine.run()
    assert not machine.restart(power_cut=True).recovered.is_doubtful


def test_damage_below_the_mark_is_never_cut() -> None:
    """D2: the report names the place, the group and the positions, and nothing may be written any more."""
    machine = Machine()
    machine.open()
    machine.write(b"one", b"two")
    machine.write(b"other", group=B)
    machine.write(b"three")
    data = machine.files()[LOG1]
    machine.overwrite(LOG1, data.index(b"two"), b"TWO")
    host = machine.restart()
    found = host.recovered
    assert found.is_damaged
    assert [(hit.group, hit.first, hit.last) for hit in found.damage if hit.first] == [(A, 2, 2), (A, 2, 2)]
    assert found.damage[0].file == LOG1
    assert found.hit() == [A]
    with pytest.raises(Corruption):
        machine.log.open()
    assert machine.files()[LOG1].count(b"TWO") == 1, "nothing was cut"


def test_healthy_groups_stay_readable_in_a_damaged_log() -> None:
    """Records in a damaged batch are proven by their own checksums."""
    machine = Machine()
    log = machine.open()
    log.append(A, FIRST, b"bad")
    log.append(B, FIRST, b"good")
    log.flush()
    machine.run()
    machine.write(b"better", group=B)
    machine.overwrite(LOG1, machine.files()[LOG1].index(b"bad"), b"sad")
    found = machine.restart().recovered
    assert found.hit() == [A]
    disk = MemoryFiles(machine.files())
    read = read_records(disk, B, found.groups[B], Position(1), Position(2))
    assert [record.body for record in read] == [b"good", b"better"]


def test_a_missing_file_is_damage() -> None:
    """A crash cannot leave a gap between two files: files are removed one at a time, oldest first."""
    machine = Machine()
    machine.open()
    for number in range(10):
        machine.write(bytes([number]) * 1500)
    files = machine.files()
    assert len(files) > 3
    del files[file_name(2)]
    found = scan(MemoryFiles(files), salt=SALT, sector=512)
    assert found.damage[0].file == file_name(2)


def test_records_before_the_oldest_file_are_missed() -> None:
    """When a needed oldest file is gone, the report names the groups that lack records."""
    machine = Machine()
    machine.open()
    machine.write(b"first", group=B)
    for number in range(10):
        machine.write(bytes([number]) * 1500)
    files = machine.files()
    del files[file_name(1)]
    assert A in scan(MemoryFiles(files), salt=SALT, sector=512).hit()


def test_another_stores_files_are_not_believed() -> None:
    machine = Machine()
    machine.open()
    machine.write(b"one")
    found = scan(MemoryFiles(machine.files()), salt=SALT + 1, sector=512)
    assert found.groups == {}
    assert found.files == []
    assert found.unusable == sorted(machine.files())


# --- any bytes at all


@cache
def sample() -> tuple[dict[str, bytes], dict[tuple[GroupId, int], bytes]]:
    """A log with every kind of record in it, and all bodies ever written by (group, position)."""
    machine = Machine()
    log = machine.open()
    written: dict[tuple[GroupId, int], bytes] = {}
    for number in range(60):
        group = GroupId(1 + number % 3)
        body = b"%d-" % number + bytes([number]) * (number * 37 % 700)
        written[group, log.tail(group).position + 1] = body
        log.append(group, FIRST, body)
        if number % 10 == 9:
            log.set_floor(group, Position(log.tail(group).position - 1))
            log.drop(A, log.tail(A).position, FIRST)
        log.flush()
        machine.run()
    return machine.files(), written


def check(files: dict[str, bytes], written: dict[tuple[GroupId, int], bytes]) -> Recovered:
    """Scan the files and check that every readable record is one that was written there."""
    disk = MemoryFiles(files)
    found = scan(disk, salt=SALT, sector=512)
    for group, index in found.groups.items():
        if index.records:
            first, last = Position(index.floor.position + 1), Position(index.position)
            try:
                records = read_records(disk, group, index, first, last)
            except Corruption:
                continue
            for record in records:
                assert written[group, record.first] == record.body
    return found


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_mutated_logs_never_give_what_was_not_written(data: st.DataObject) -> None:
    """Whatever the disk does to the files, there is no foreign exception and no invented record."""
    files, written = dict(sample()[0]), sample()[1]
    for _ in range(data.draw(st.integers(1, 4))):
        name = data.draw(st.sampled_from(sorted(files)))
        content = bytearray(files[name])
        used = len(bytes(content).rstrip(b"\0"))
        at = data.draw(st.integers(0, max(0, used)))
        match data.draw(st.sampled_from(["flip", "zero", "cut", "swap", "insert"])):
            case "flip" if at < used:
                content[at] ^= 1 << data.draw(st.integers(0, 7))
            case "zero":
                content[at - at % 512 : at - at % 512 + 512] = bytes(512)
            case "cut":
                del content[at:]
            case "swap":
                other = data.draw(st.integers(0, max(0, used))) // 512 * 512
                content[at // 512 * 512 : at // 512 * 512 + 512] = files[name][other : other + 512]
            case _:
                content[at:at] = data.draw(st.binary(max_size=20))
        files[name] = bytes(content)
    check(files, written)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.sampled_from([LOG1, file_name(2), "log-x"]), st.binary(max_size=3000)))
def test_random_bytes_are_no_log(files: dict[str, bytes]) -> None:
    assert check(files, {}).groups == {}


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 7))
def test_one_flipped_bit_loses_nothing_silently(where: int, bit: int) -> None:
    """A flipped bit changes nothing that is read, or is reported, or puts the tail in doubt."""
    files, written = dict(sample()[0]), sample()[1]
    whole = check(dict(files), written)
    names = sorted(files)
    name = names[where % len(names)]
    content = bytearray(files[name])
    content[where * 7919 % len(content)] ^= 1 << bit
    files[name] = bytes(content)
    found = check(files, written)
    same = {group: index.tail for group, index in found.groups.items()} == {
        group: index.tail for group, index in whole.groups.items()
    }
    assert same or found.is_damaged or found.is_doubtful
