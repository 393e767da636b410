"""A thread asks for short scheduling slices and passes them on to what it starts."""

import os
import platform
import threading
from collections.abc import Callable
from typing import TypeVar

import pytest

from holdfast.machine import process_tuning
from holdfast.machine.process_tuning import (
    SHORT_NS,
    USUAL_NS,
    ask_for_slices,
    slice_ns,
    timer_slack_ns,
    wake_on_time,
)
from holdfast.model.ids import MICROSECOND

T = TypeVar("T")


def in_a_thread(work: Callable[[], T]) -> T:
    """Run *work* in a thread, so that its settings end with it."""
    found: list[T] = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join()
    return found[0]


def asks_and_sees() -> tuple[bool, int]:
    return ask_for_slices(SHORT_NS), slice_ns()


@pytest.fixture
def usual_ns() -> int:
    """The length of slices without a request, on a kernel that supports requests."""
    if in_a_thread(asks_and_sees) != (True, SHORT_NS):
        pytest.skip("this kernel grants no slices (Linux before 6.12, or forbidden here)")
    return in_a_thread(slice_ns)


def test_short_slices_are_granted_to_the_thread_that_asks_and_to_no_other(usual_ns: int) -> None:
    assert usual_ns > SHORT_NS
    assert slice_ns() == usual_ns


def test_what_a_thread_starts_has_slices_like_its_own(usual_ns: int) -> None:
    def starts_another() -> int:
        assert ask_for_slices(SHORT_NS)
        return in_a_thread(slice_ns)

    assert in_a_thread(starts_another) == SHORT_NS < usual_ns


def test_slices_can_be_given_back(usual_ns: int) -> None:
    def asks_and_gives_back() -> tuple[bool, bool, int]:
        return ask_for_slices(SHORT_NS), ask_for_slices(USUAL_NS), slice_ns()

    assert in_a_thread(asks_and_gives_back) == (True, True, usual_ns)


def test_niceness_stays_as_it_was(usual_ns: int) -> None:
    def is_nice_and_asks() -> tuple[int, int]:
        # niceness is per thread in the kernel
        before = os.nice(3)
        assert ask_for_slices(SHORT_NS)
        return before, os.nice(0)

    before, after = in_a_thread(is_nice_and_asks)
    assert before == after
    assert usual_ns > 0


def test_a_thread_that_was_given_a_policy_keeps_it() -> None:
    def is_batch_and_asks() -> tuple[bool, int]:
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        return ask_for_slices(SHORT_NS), os.sched_getscheduler(0)

    assert in_a_thread(is_batch_and_asks) == (False, os.SCHED_BATCH)


def test_an_unknown_machine_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "abacus")
    assert in_a_thread(asks_and_sees) == (False, 0)


def test_a_system_that_forbids_it_is_taken_calmly(monkeypatch: pytest.MonkeyPatch) -> None:
    """An invalid system call number answers as a system call filter does."""
    monkeypatch.setattr(process_tuning, "_CALLS", {platform.machine(): (9_999, 9_999)})
    assert in_a_thread(asks_and_sees) == (False, 0)


def test_who_wants_to_wake_on_time_passes_it_on_and_changes_no_other() -> None:
    def asks_and_starts_another() -> tuple[bool, int, int]:
        return wake_on_time(), timer_slack_ns(), in_a_thread(timer_slack_ns)

    usual_ns = timer_slack_ns()
    assert in_a_thread(asks_and_starts_another) == (True, MICROSECOND, MICROSECOND)
    assert timer_slack_ns() == usual_ns
