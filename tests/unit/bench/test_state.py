"""Which calls during checkpoints are compared with which calls without."""

import asyncio
import time
from pathlib import Path
from random import Random

from holdfast.bench.measuring.callers import Callers
from holdfast.bench.measuring.checkpoints import Witness, witnessing
from holdfast.bench.measuring.usage import SLICE_NS, Pair, Window, paired
from holdfast.machine import MachineClock
from holdfast.model.errors import Unavailable


def seconds(start: float, end: float) -> Window:
    return Window(round(start * SLICE_NS), round(end * SLICE_NS))


def test_an_event_is_held_against_as_much_quiet_time_around_it() -> None:
    (pair,) = paired([seconds(10, 12)], seconds(0, 20))
    assert pair == Pair(seconds(10, 12), (seconds(9, 10), seconds(12, 13)))


def test_events_that_overlap_are_one_and_no_time_with_one_is_quiet() -> None:
    (pair,) = paired([seconds(6, 8), seconds(4, 7)], seconds(0, 10))
    assert pair.during == seconds(4, 8)
    assert sorted(each.start_ns for each in pair.quiet) == [
        2 * SLICE_NS,
        3 * SLICE_NS,
        8 * SLICE_NS,
        9 * SLICE_NS,
    ]


def test_an_event_without_an_end_or_without_quiet_time_is_no_pair() -> None:
    assert paired([seconds(4, 11)], seconds(0, 10)) == []
    assert paired([seconds(0, 10)], seconds(0, 10)) == []


def test_what_callers_saw_is_kept_call_by_call() -> None:
    """A failed call is counted and not timed; a gap is a time without any answer."""

    async def run() -> tuple[Callers, Window]:
        ended = asyncio.Event()

        async def call(random: Random) -> None:
            assert isinstance(random, Random)
            await asyncio.sleep(0)
            if len(callers) == 3:
                ended.set()
                await asyncio.sleep(3600)
            if len(callers) == 1 and not callers.failed:
                raise Unavailable("once")

        callers, began = Callers(call), MachineClock().now()
        async with callers.calling(1):
            await ended.wait()
        return callers, Window(began, MachineClock().now())

    callers, window = asyncio.run(run())
    assert (len(callers), callers.failed) == (3, 1)
    assert len(callers.took_ms([window])) == 3
    assert callers.took_ms([Window(0, window.start_ns)]) == []
    answered = callers.answered_again_ns(window.start_ns)
    assert answered is not None
    assert window.start_ns < answered < window.end_ns
    assert callers.answered_again_ns(window.end_ns) is None
    later = Window(window.end_ns, window.end_ns + SLICE_NS)
    assert callers.longest_gap_ms(later) == 1000.0
    assert callers.longest_gap_ms(window) <= window.length_ns / 1_000_000


def test_what_the_disk_stood_still_is_told_for_any_stretch() -> None:
    witness = Witness([seconds(1, 2), seconds(4, 7)])
    assert witness.stalled_ns(seconds(2, 4)) == 0
    assert witness.stalled_ns(seconds(1.5, 5)) == round(1.5 * SLICE_NS)
    assert witness.stalled_ns(seconds(5, 6)) == SLICE_NS
    assert witness.longest_ns([seconds(0, 3), seconds(4.5, 9)]) == SLICE_NS
    assert witness.longest_ns([seconds(2, 4)]) == 0


def test_a_witness_looks_at_a_real_disk_and_is_gone_afterwards(tmp_path: Path) -> None:
    began = MachineClock().now()
    with witnessing(tmp_path) as testimony:
        until = time.monotonic() + 60.0
        while not (tmp_path / "seen").exists() and time.monotonic() < until:
            time.sleep(0.01)
        seen = testimony.read()
    assert (tmp_path / "synced").exists()
    assert seen.stalled_ns(Window(0, began)) == 0
