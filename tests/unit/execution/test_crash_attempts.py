"""Calls that crashed processes: a whole frame becomes suspect, but only a single call is given up (E4)."""

from pathlib import Path

from msgspec import Raw
from slot_notes import Notes

from holdfast.execution.crash_attempts import SUSPECTS_MAX, Attempt, CrashSuspicions
from holdfast.execution.records import Call
from holdfast.groups.crash_suspects import CrashSuspects
from holdfast.model.calls import Request
from holdfast.model.ids import HOUR, ClientId, GroupId, HostId, Incarnation
from holdfast.node.crash_note import BESIDE_MAX, open_slot, read_slot

GROUP, A, B = GroupId(1), ClientId("a"), ClientId("b")


class Clock:
    time_ns = 0

    def now(self) -> int:
        return self.time_ns

    def wall(self) -> int:
        return self.time_ns


def calls(*numbers: int) -> list[Call]:
    return [Call(number, "write", Raw(b"\x90"), 1000) for number in numbers]


def test_a_frame_is_noted_as_a_whole_until_there_are_suspects() -> None:
    notes = Notes()
    attempts = CrashSuspicions(GROUP, slot=notes, clock=Clock())
    assert attempts.enter(A, calls(7, 9, 5)) is None
    attempts.leave()
    assert notes.written == [(A, 5, 9, 1), None]


def test_a_call_that_is_noted_by_itself_leaves_the_note_of_its_frame() -> None:
    """*Without it:* the calls that run later in the frame are not suspected."""
    notes = Notes()
    attempts = CrashSuspicions(GROUP, slot=notes, clock=Clock())
    attempts.enter(A, calls(5, 6, 7))
    attempts.enter_one(A, 6)
    attempts.leave_one()
    attempts.leave()
    attempts.enter_one(A, 8)
    attempts.leave_one()
    assert notes.written == [(A, 5, 7, 1), (A, 6, 6, 1), (A, 5, 7, 1), None, (A, 8, 8, 1), None]


def test_after_a_death_calls_are_noted_one_by_one_with_what_they_ended_before() -> None:
    notes = Notes()
    attempts = CrashSuspicions(GROUP, slot=notes, clock=Clock())
    attempts.ended(Attempt(GROUP, A, 5, 9, 1))
    tell = attempts.enter(A, calls(9, 10))
    assert tell is not None
    tell(9)
    tell(10)
    assert notes.written == [(A, 9, 9, 2), (A, 10, 10, 1)]


def test_a_call_is_given_up_at_the_limit_and_its_neighbours_are_not() -> None:
    attempts = CrashSuspicions(GROUP, clock=Clock())
    attempts.ended(Attempt(GROUP, A, 5, 9, 1))
    assert [attempts.given_up(Request(A, number)) for number in (4, 5, 9)] == [0, 0, 0]
    attempts.ended(Attempt(GROUP, A, 7, 7, 2))
    assert [attempts.given_up(Request(A, number)) for number in (6, 7, 8)] == [0, 2, 0]
    assert attempts.given_up(Request(B, 7)) == 0


def test_frames_that_overlap_prove_nothing_against_what_they_share() -> None:
    """Two hosts were killed, each in the middle of a long frame."""
    attempts = CrashSuspicions(GROUP, clock=Clock())
    attempts.ended(Attempt(GROUP, A, 1, 9, 1))
    attempts.ended(Attempt(GROUP, A, 5, 20, 1))
    assert attempts.of(Request(A, 7)) == 1


def test_processes_that_died_of_it_without_knowing_of_each_other_count() -> None:
    attempts = CrashSuspicions(GROUP, clock=Clock())
    attempts.ended(Attempt(GROUP, A, 7, 7, 1))
    attempts.ended(Attempt(GROUP, A, 7, 7, 1))
    assert attempts.given_up(Request(A, 7)) == 2


def test_suspicion_ends_and_is_bounded() -> None:
    clock = Clock()
    attempts = CrashSuspicions(GROUP, clock=clock)
    attempts.ended(Attempt(GROUP, A, 7, 7, 2))
    clock.time_ns = 2 * HOUR
    attempts.ended(Attempt(GROUP, A, 8, 8, 2))
    assert attempts.given_up(Request(A, 7)) == 0
    for number in range(100, 100 + SUSPECTS_MAX):
        attempts.ended(Attempt(GROUP, A, number, number, 2))
    assert attempts.given_up(Request(A, 8)) == 0
    assert attempts.given_up(Request(A, 100)) == 2


def test_suspicion_ends_by_itself_and_calls_are_noted_by_the_frame_again() -> None:
    """Suspicion must not last until another crash, which may never come."""
    clock, notes = Clock(), Notes()
    attempts = CrashSuspicions(GROUP, slot=notes, clock=clock)
    attempts.ended(Attempt(GROUP, A, 7, 7, 2))
    clock.time_ns = HOUR // 2
    attempts.ended(Attempt(GROUP, A, 8, 8, 2))
    clock.time_ns = HOUR
    assert [attempts.given_up(Request(A, number)) for number in (7, 8)] == [0, 2]
    clock.time_ns = 2 * HOUR
    assert not attempts.has_suspects
    assert attempts.given_up(Request(A, 8)) == 0
    assert attempts.enter(A, calls(8, 9)) is None
    assert notes.written == [(A, 8, 9, 1)]


def test_a_death_counts_once_whoever_tells_of_it() -> None:
    suspects = CrashSuspects(Notes(), Clock())
    for _ in range(3):
        suspects.on_death(HostId("h"), Incarnation(4), Attempt(GROUP, A, 7, 7, 1))
    assert suspects.of(GROUP).of(Request(A, 7)) == 1
    suspects.on_death(HostId("h"), Incarnation(5), Attempt(GROUP, A, 7, 7, 1))
    assert suspects.of(GROUP).of(Request(A, 7)) == 2


def test_what_was_noted_can_be_read_by_others_without_a_sync(tmp_path: Path) -> None:
    slot = open_slot(tmp_path, Incarnation(3))
    assert read_slot(tmp_path) is None
    slot.note(GROUP, ClientId("1:abc:7"), 5, 9, 1)
    assert read_slot(tmp_path) == (3, (Attempt(GROUP, ClientId("1:abc:7"), 5, 9, 1),))
    slot.clear()
    assert read_slot(tmp_path) is None


def test_methods_beside_the_loop_have_notes_of_their_own(tmp_path: Path) -> None:
    """E15: calls of other groups are noted and cleared while a slow method runs."""
    slot = open_slot(tmp_path, Incarnation(3))
    beside = [slot.apart() for _ in range(BESIDE_MAX + 1)]
    for number, each in enumerate(beside):
        each.note(GROUP, A, number, number, 2)
    slot.note(GROUP, ClientId("loop"), 5, 9, 1)
    slot.clear()
    found = read_slot(tmp_path)
    assert found is not None
    assert sorted(each.first for each in found[1]) == list(range(BESIDE_MAX)), "one more is not noted"
    beside[0].clear()
    slot.apart().note(GROUP, A, 77, 77, 1)
    found = read_slot(tmp_path)
    assert found is not None
    assert sorted(each.first for each in found[1]) == [*range(1, BESIDE_MAX), 77]


def test_a_new_process_begins_with_an_empty_slot(tmp_path: Path) -> None:
    open_slot(tmp_path, Incarnation(3)).note(GROUP, A, 5, 9, 1)
    open_slot(tmp_path, Incarnation(4))
    assert read_slot(tmp_path) is None


def test_no_slot_and_a_strange_one_say_nothing(tmp_path: Path) -> None:
    assert read_slot(tmp_path) is None
    (tmp_path / "executing").write_bytes(b"\x07" * 100)
    assert read_slot(tmp_path) is None


def test_a_host_without_room_for_a_slot_goes_on_without(tmp_path: Path) -> None:
    slot = open_slot(tmp_path / "absent", Incarnation(1))
    slot.note(GROUP, A, 1, 1, 1)
    slot.clear()
