"""The write-ahead log: when records are durable, what stops the log, and what it keeps."""

import pytest
from storage_machine import FIRST, SMALL, A, B, C, Machine

from holdfast.model.errors import Conflict, DiskFailed, InvalidRequest, NoSpace, Overloaded, Unavailable
from holdfast.model.ids import Epoch, GroupId, Position
from holdfast.storage.record import ORIGIN, Point
from holdfast.storage.segments import LogConfig
from holdfast.storage.writer import Phase


def test_a_record_is_durable_only_after_its_sync() -> None:
    """S5: nothing is reported durable before the end of a sync that began after the record was written."""
    machine = Machine()
    log = machine.open()
    number = log.append(A, FIRST, b"one")
    machine.run()
    assert machine.host.durable == []
    log.flush()
    assert machine.host.durable == []
    machine.run()
    assert machine.host.durable == [number]
    assert log.durable == number


def test_what_gathers_while_a_sync_runs_goes_down_as_one_batch() -> None:
    """S5: there is one sync at a time, which covers what was there when it began. A batch as large as the one
    being written waits at the disk for its turn, and the rest follows as one batch."""
    machine = Machine()
    log = machine.open()
    first = log.append(A, FIRST, b"one")
    log.flush()
    second = log.append(A, FIRST, b"two")
    log.flush()
    for body in (b"three", b"four", b"five"):
        last = log.append(A, FIRST, body)
        log.flush()
    machine.run()
    assert machine.host.durable == [first, second, last]
    assert machine.bodies() == [b"one", b"two", b"three", b"four", b"five"]


def test_records_survive_a_power_cut_once_durable() -> None:
    """After the cut the log holds at least what was durable, in order, and knows the tail's checksum."""
    machine = Machine()
    machine.open()
    machine.write(b"one", b"two")
    machine.write(b"other", group=B)
    tail = machine.log.tail(A)
    machine.log.append(A, FIRST, b"never flushed")
    machine.restart(power_cut=True)
    machine.open()
    assert machine.bodies(A) == [b"one", b"two"]
    assert machine.bodies(B) == [b"other"]
    assert machine.log.tail(A) == tail == Point(Position(2), FIRST, tail.checksum)
    assert machine.log.groups() == [A, B]


def test_a_failed_sync_stops_the_log_for_good() -> None:
    """D1: everyone is told once, nothing is reported durable or accepted any more, no sync is retried."""
    machine = Machine()
    log = machine.open()
    log.append(A, FIRST, b"lost")
    machine.disk.failing_syncs = 1
    log.flush()
    log.append(A, FIRST, b"waiting")
    machine.run()
    assert machine.host.durable == []
    assert [type(error) for error in machine.host.stopped] == [DiskFailed]
    assert log.phase is Phase.STOPPED
    for attempt in (
        lambda: log.append(A, FIRST, b"more"),
        lambda: log.drop(A, Position(0), FIRST),
        lambda: log.settle(),
    ):
        with pytest.raises(DiskFailed):
            attempt()
    log.flush()
    machine.run()
    assert machine.host.durable == []


def test_a_full_disk_stops_the_log() -> None:
    """D1: the next file cannot be made, so the log stops with that reason; nothing durable is lost."""
    machine = Machine()
    machine.open()
    machine.write(b"kept")
    machine.disk.bytes_max = machine.disk.used()
    body = bytes(1500)
    for _ in range(20):
        if machine.log.phase is Phase.OPEN:
            machine.write(body)
    assert [type(error) for error in machine.host.stopped] == [NoSpace]
    told = machine.host.durable[-1]
    machine.disk.bytes_max = None
    machine.restart(power_cut=True)
    machine.open()
    assert machine.bodies()[0] == b"kept"
    assert len(machine.bodies()) >= told - 1  # the opening counts as one record


def test_nothing_is_taken_before_the_log_is_open() -> None:
    machine = Machine()
    with pytest.raises(Unavailable):
        machine.log.append(A, FIRST, b"early")


def test_a_received_record_must_continue_the_chain() -> None:
    """S2: bytes from another member are kept unchanged; a record that does not follow the tail is refused."""
    here, there = Machine(), Machine()
    here.open()
    there.open()
    here.write(b"one", b"two", b"three")
    records = here.log.read(A, Position(1), Position(3))
    there.log.append_received(records[0].encoded())
    with pytest.raises(Conflict):
        there.log.append_received(records[2].encoded())
    with pytest.raises(Conflict):
        there.log.append_received(records[0].encoded())
    with pytest.raises(InvalidRequest):
        there.log.append_received(records[1].encoded()[:-1])
    there.log.append_received(records[1].encoded())
    there.log.append_received(records[2].encoded())
    there.log.flush()
    there.run()
    assert there.log.tail(A) == here.log.tail(A)
    assert there.bodies() == here.bodies()


def test_histories_that_differ_have_different_checksums() -> None:
    """S2, M3: the same position and epoch with a different past is a different point."""
    here, there = Machine(), Machine()
    for machine, body in ((here, b"x"), (there, b"y")):
        machine.open()
        machine.write(body, b"same")
    assert here.log.tail(A) != there.log.tail(A)
    assert here.log.point_at(A, Position(1)) != there.log.point_at(A, Position(1))


def test_a_drop_is_durable_with_what_follows_it() -> None:
    """S6, M3, V3: after a restart the records beyond the point are gone, and the new epoch is remembered."""
    machine = Machine()
    machine.open()
    machine.write(b"one", b"two", b"three")
    machine.log.drop(A, Position(1), Epoch(2))
    machine.log.append(A, Epoch(2), b"two again")
    machine.log.flush()
    machine.run()
    machine.restart(power_cut=True)
    machine.open()
    assert machine.bodies() == [b"one", b"two again"]
    assert machine.log.followed(A) == 2
    with pytest.raises(InvalidRequest):
        machine.log.drop(A, Position(7), Epoch(3))


def test_an_epoch_is_followed_without_dropping_anything() -> None:
    """V3: the highest epoch followed is durable even before a record carries it."""
    machine = Machine()
    machine.open()
    machine.write(b"one")
    machine.log.drop(A, Position(1), Epoch(9))
    machine.log.drop(B, Position(0), Epoch(4))
    machine.log.flush()
    machine.run()
    machine.restart(power_cut=True)
    machine.open()
    assert (machine.log.followed(A), machine.log.followed(B)) == (9, 4)
    assert machine.bodies() == [b"one"]


def test_one_record_holds_several_positions() -> None:
    """A frame with several calls is one record; a range that begins inside it returns the whole record."""
    machine = Machine()
    log = machine.open()
    log.append(A, FIRST, b"three calls", count=3)
    log.append(A, FIRST, b"one call")
    log.flush()
    machine.run()
    assert log.tail(A).position == 4
    assert [record.first for record in log.read(A, Position(2), Position(4))] == [1, 4]
    assert log.point_at(A, Position(2)) is None
    assert log.point_at(A, Position(3)) is not None


def test_reads_see_what_is_not_durable_yet() -> None:
    machine = Machine()
    log = machine.open()
    log.append(A, FIRST, b"one")
    log.flush()
    log.append(A, FIRST, b"two")
    assert [record.body for record in log.read(A, Position(1), Position(2))] == [b"one", b"two"]
    assert machine.host.durable == []


def test_a_rotted_record_is_not_served() -> None:
    """Bytes that changed since they were written raise Corruption that names the place."""
    machine = Machine()
    machine.open()
    machine.write(b"precious")
    name, data = next((name, data) for name, data in machine.files().items() if b"precious" in data)
    machine.overwrite(name, data.index(b"precious"), b"Precious")
    with pytest.raises(Exception, match=rf"{name} at byte \d+"):
        machine.log.read(A, Position(1), Position(1))


def test_a_group_over_its_limit_is_refused_alone() -> None:
    """D4: log_bytes_max is exceeded; other groups continue, and a checkpoint makes room again."""
    machine = Machine()
    log = machine.open()
    body = bytes(1000)
    with pytest.raises(Overloaded):
        for _ in range(100):
            machine.write(body)
    log.append(B, FIRST, body)
    log.set_floor(A, log.tail(A).position)
    log.append(A, FIRST, body)


def test_a_record_has_a_largest_size() -> None:
    machine = Machine()
    log = machine.open()
    with pytest.raises(InvalidRequest):
        log.append(A, FIRST, bytes(SMALL.batch_bytes_max))
    assert log.tail(A) == ORIGIN


def test_appends_are_refused_when_too_much_waits_for_the_disk() -> None:
    """A hung disk cannot exhaust memory: beyond gather_bytes_max appends are refused for a while."""
    machine = Machine()
    log = machine.open()
    machine.disk.hung_until_ns = machine.world.now + 10**9
    with pytest.raises(Overloaded):
        for number in range(1000):
            log.append(GroupId(number % 40), FIRST, bytes(1000))
            log.flush()
    machine.run(2000)
    log.append(A, FIRST, b"again")


def test_pruning_removes_files_that_checkpoints_cover() -> None:
    """D4: when floors advance, the log stays short."""
    machine = Machine()
    log = machine.open()
    for _ in range(60):
        machine.write(bytes(1000))
        log.set_floor(A, log.tail(A).position)
    machine.run()
    assert len(log.files) <= SMALL.files_max + 1
    assert log.files[0] > 3


@pytest.mark.covers("FTC-287")
def test_a_quiet_group_is_copied_forward() -> None:
    """D4: old records of a group without checkpoints neither keep old files nor are lost with them."""
    machine = Machine()
    log = machine.open()
    machine.write(b"old one", b"old two", group=B)
    log.drop(C, Position(0), Epoch(7))
    point = log.tail(B)
    for _ in range(80):
        machine.write(bytes(1000))
        log.set_floor(A, log.tail(A).position)
    machine.run()
    assert log.files[0] > 1
    assert machine.bodies(B) == [b"old one", b"old two"]
    machine.restart(power_cut=True)
    machine.open()
    assert machine.bodies(B) == [b"old one", b"old two"]
    assert machine.log.tail(B) == point
    assert machine.log.followed(C) == 7


def test_a_log_that_is_to_be_short_keeps_no_file_for_a_quiet_group() -> None:
    """D5: on a disk that is short of space fewer files than usual are too many, if there is room for a copy
    of what keeps them."""
    machine = Machine()
    log = machine.open()
    machine.write(b"old", group=B)
    while len(log.files) < SMALL.files_max:
        machine.write(bytes(1000))
        log.set_floor(A, log.tail(A).position)
        machine.run()
    assert log.oldest_first()[0] == B
    assert log.files[0] == 1, "as many files are usual"
    log.shorten(SMALL.file_bytes)
    machine.run()
    assert log.files[0] == 1, "a copy may need another file, and there is no room for it"
    log.shorten(SMALL.file_bytes + 1)
    machine.run()
    assert log.files[0] > 1
    assert log.bytes_on_disk == len(log.files) * SMALL.file_bytes
    assert len(log.files) <= 3
    assert machine.bodies(B) == [b"old"]


def test_a_checkpoint_from_another_member_may_lie_beyond_the_tail() -> None:
    """M3: the log continues from the installed point; a point inside the history must match it."""
    machine = Machine()
    log = machine.open()
    machine.write(b"one", b"two")
    beyond = Point(Position(50), Epoch(3), 12345)
    log.install(A, beyond)
    log.append(A, Epoch(3), b"fifty-one")
    log.flush()
    machine.run()
    machine.restart(power_cut=True)
    log = machine.open()
    assert log.floor(A) == beyond
    assert machine.bodies() == [b"fifty-one"]
    with pytest.raises(Conflict):
        log.install(A, Point(Position(51), Epoch(3), 1))


def test_a_forgotten_group_is_gone_after_a_restart() -> None:
    machine = Machine()
    machine.open()
    machine.write(b"one")
    machine.log.forget(A)
    machine.write(b"two", group=B)
    machine.restart(power_cut=True)
    assert machine.open().groups() == [B]


def test_a_forgotten_group_can_begin_anew() -> None:
    """V4: after a forced recovery a member follows another history of the same group, from its origin."""
    machine = Machine()
    machine.open()
    machine.write(b"one", b"two")
    machine.log.forget(A)
    assert (machine.log.tail(A), machine.log.followed(A)) == (ORIGIN, ORIGIN.epoch)
    machine.write(b"other")
    machine.restart(power_cut=True)
    machine.open()
    assert machine.bodies() == [b"other"]
    assert machine.log.floor(A) == ORIGIN


def test_another_file_size_takes_effect_with_the_next_file() -> None:
    """Files of the old size stay readable; a file made ahead in the wrong size is made again."""
    machine = Machine()
    machine.open()
    machine.write(*(bytes([number]) * 500 for number in range(10)))
    machine.restart()
    bigger = LogConfig(
        file_bytes=32 << 10,
        batch_bytes_max=8192,
        gather_bytes_max=64 << 10,
        group_bytes_max=32 << 10,
        files_max=3,
    )
    machine.config = bigger
    machine.restart()
    machine.open()
    machine.write(*(bytes([number]) * 6000 for number in range(10, 13)))
    machine.restart(power_cut=True)
    machine.open()
    assert [body[0] for body in machine.bodies()] == list(range(13))


def test_the_configuration_reports_all_problems() -> None:
    problems = LogConfig(sector_bytes=100, file_bytes=10, files_max=1, batch_bytes_max=10).validate()
    assert [name for name, _ in problems] == ["sector_bytes", "file_bytes", "batch_bytes_max", "files_max"]
