"""Random schedules of commits, failovers, crashes, checkpoints and retries, for every style."""

from collections.abc import Callable

import pytest
from group_schedule import (
    InterleavedJournal,
    InterleavedUpdatingJournal,
    Journal,
    Schedule,
    UpdatingJournal,
    check,
)


@pytest.mark.covers("FTC-8", "FTC-9", "FTC-14", "FTC-20", "FTC-22", "FTC-97", "FTC-101", "FTC-130")
@pytest.mark.covers("FTC-138", "FTC-139", "FTC-140")
@pytest.mark.parametrize("cls", [Journal, UpdatingJournal, InterleavedJournal, InterleavedUpdatingJournal])
@pytest.mark.parametrize("style", ["cold", "warm", "active"])
def test_every_call_is_executed_once_and_members_agree(
    style: str, cls: type, rounds: Callable[..., int]
) -> None:
    """Whatever happens: each call is in the state once, a retry gets the first reply, queries miss nothing
    acknowledged before them, timers fire once, nested calls are answered once, and digests agree."""
    for seed in range(rounds(short=40, long=2000)):
        schedule = Schedule(seed, style, cls)
        try:
            schedule.live(steps=150)
            check(schedule)
        except BaseException as error:
            error.add_note(f"seed {seed}, style {style}, class {cls.__name__}")
            raise
