"""Slow methods on threads (E15): one at a time for each group, a few at a time for a host."""

import asyncio
import sys
import threading
from collections.abc import Awaitable, Callable

import pytest
from structlog.testing import capture_logs

from holdfast.machine.process_tuning import SHORT_NS, ask_for_slices, slice_ns, timer_slack_ns
from holdfast.model.errors import BrokenInvariant
from holdfast.model.ids import MICROSECOND
from holdfast.node.slow_threads import SWITCH_S, SlowThreads

WAIT_S = 30.0


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(WAIT_S):
            await work()

    asyncio.run(main())


async def until(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(0.001)


def test_the_loop_goes_on_while_a_method_computes() -> None:
    async def work() -> None:
        found: list[bytes] = []
        go_on = threading.Event()

        def compute() -> bytes:
            assert threading.current_thread() is not threading.main_thread()
            assert go_on.wait(WAIT_S)
            return b"outcome"

        threads = SlowThreads()
        usual_s = sys.getswitchinterval()
        threads.of("a").run(compute, found.append)
        await asyncio.sleep(0.01)
        assert (found, threads.running) == ([], 1)
        assert sys.getswitchinterval() == pytest.approx(SWITCH_S)
        assert timer_slack_ns() == MICROSECOND
        go_on.set()
        await until(lambda: bool(found))
        assert found == [b"outcome"]
        assert threads.running == 0
        assert sys.getswitchinterval() == pytest.approx(usual_s)

    run(work)


def test_the_threads_that_serve_are_let_in_before_one_that_computes() -> None:
    """They ask for short slices, which a thread inherits from the one that starts it."""

    async def work() -> None:
        found: list[bytes] = []
        before = slice_ns()
        if not ask_for_slices(SHORT_NS) or slice_ns() != SHORT_NS:
            return  # an older kernel knows no slices, and there is nothing to inherit
        try:
            SlowThreads().of("a").run(lambda: str(slice_ns()).encode(), found.append)
            await until(lambda: bool(found))
        finally:
            ask_for_slices(before)
        assert int(found[0]) > SHORT_NS

    run(work)


def test_a_group_has_one_at_a_time_and_a_host_a_few() -> None:
    async def work() -> None:
        order: list[str] = []
        gates = {name: threading.Event() for name in ("a1", "a2", "b1", "c1")}

        def compute(name: str) -> Callable[[], bytes]:
            def work() -> bytes:
                order.append(name)
                assert gates[name].wait(WAIT_S)
                return name.encode()

            return work

        ended: list[bytes] = []
        threads = SlowThreads(threads_max=2)
        for name in gates:
            threads.of(name[0]).run(compute(name), ended.append)
        await until(lambda: len(order) == 2)
        await asyncio.sleep(0.01)
        assert sorted(order) == ["a1", "b1"], "a2 waits for a1, c1 for a thread"
        gates["b1"].set()
        await until(lambda: "c1" in order)
        assert "a2" not in order
        gates["a1"].set()
        await until(lambda: "a2" in order)
        gates["a2"].set()
        gates["c1"].set()
        await until(lambda: len(ended) == 4)

    run(work)


def test_what_is_no_outcome_is_raised_on_the_loop() -> None:
    """Where it ends the process: a broken invariant must not be taken for a method's reply."""

    async def work() -> None:
        raised: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, about: raised.append(about["exception"]))

        def broken() -> bytes:
            raise BrokenInvariant("it does not hold")

        SlowThreads().of("a").run(broken, lambda _: None)
        await until(lambda: bool(raised))
        assert isinstance(raised[0], BrokenInvariant)

    run(work)


def test_one_that_does_not_end_is_named() -> None:
    async def work() -> None:
        go_on = threading.Event()
        threads = SlowThreads(named_s=0.01)
        with capture_logs() as logs:
            threads.of("a").run(lambda: b"" if go_on.wait(WAIT_S) else b"late", lambda _: None)
            await until(lambda: len(logs) > 1)
        go_on.set()
        assert {each["group"] for each in logs} == {"a"}
        assert logs[0]["event"] == "a slow method has not ended"
        await until(lambda: threads.running == 0)

    run(work)
