"""A thread asks for short scheduling slices and passes them on to what it starts."""

import os
import platform
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from holdfast.machine import process_tuning
from holdfast.machine.process_tuning import (
    SHORT_NS,
    USUAL_NS,
    ask_for_slices,
    is_share_of_session,
    slice_ns,
)

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


PASSES = """
import os
from holdfast.machine.process_tuning import let_everybody_pass, lower_priority
alone = let_everybody_pass()
lower_priority(10)
done = let_everybody_pass()
print(alone, done, os.sched_getscheduler(0) == os.SCHED_IDLE, os.nice(0) >= 10)
"""


def test_a_process_with_a_session_of_its_own_lets_everybody_pass() -> None:
    """Another has no share of its own to keep, so it stays as it was."""
    if Path("/proc/sys/kernel/sched_autogroup_enabled").read_text(encoding="ascii").strip() != "1":
        pytest.skip("this kernel does not share the processor by session")
    if not is_share_of_session(Path("/proc/self/cgroup").read_text(encoding="ascii"), Path("/sys/fs/cgroup")):
        pytest.skip("the tests run in a control group with a share of the processor")
    done = subprocess.run([sys.executable, "-c", PASSES], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True", "True", "True"]


@pytest.mark.parametrize(
    ("cgroups", "is_shared"),
    [
        ("0::/\n", True),
        ("0::/system.slice/holdfast.service\n", True),
        ("0::/weighed\n", False),
        ("4:memory:/some\n1:cpu:/\n0::/\n", True),
        ("2:cpu,cpuacct:/docker/abc\n", False),
        ("2:cpuset:/docker/abc\n", True),
    ],
)
def test_a_control_group_with_a_share_comes_before_the_session(
    cgroups: str, is_shared: bool, tmp_path: Path
) -> None:
    (tmp_path / "weighed").mkdir()
    (tmp_path / "weighed" / "cpu.weight").write_text("100")
    assert is_share_of_session(cgroups, tmp_path) == is_shared
