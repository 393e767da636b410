"""The synchronous client: nobody waits for ever when the domain is left or the process is forked."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from call_server import Cluster

import holdfast as hf
from holdfast.client.sync import LoopThread
from holdfast.model.calls import CallOutcomeUnknown
from holdfast.model.errors import OutcomeUnknown, Unavailable

WAIT_S = 60


class Counter:
    def __init__(self) -> None:
        self.count = 0

    def add(self, by: int) -> int:
        self.count += by
        return self.count

    def spell(self, by: int) -> int:
        self.count += by
        return f"{self.count}!"  # type: ignore[return-value]  # a class that does not keep its word


def tell(story: Callable[[Cluster], None]) -> None:
    """Run *story* in a thread, beside three hosts."""

    async def run() -> None:
        async with asyncio.timeout(2 * WAIT_S), Cluster(Counter()) as cluster:
            await asyncio.to_thread(story, cluster)

    asyncio.run(run())


class Asker(threading.Thread):
    """Asks once; ``ended`` is the outcome."""

    def __init__(self, ask: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self._ask = ask
        self.ended: object = None

    def run(self) -> None:
        try:
            self.ended = self._ask()
        except Exception as error:
            self.ended = error


def test_a_thread_that_waits_is_let_go_when_another_leaves_the_domain() -> None:
    def story(cluster: Cluster) -> None:
        with hf.connect_sync(cluster.url) as domain:
            for host in cluster.hosts.values():
                host.drops_frames = True
            asker = Asker(lambda: domain.group("nobody answers"))
            asker.start()
            while not any(host.frames for host in cluster.hosts.values()):
                asker.join(0.01)
        asker.join(WAIT_S)
        assert isinstance(asker.ended, Unavailable)
        with pytest.raises(Unavailable, match="within `with`"):
            domain.group("ledger")

    tell(story)


def test_a_call_that_may_have_run_is_unknown_to_whoever_waits_as_the_domain_is_left() -> None:
    def story(cluster: Cluster) -> None:
        with hf.connect_sync(cluster.url) as domain:
            counter: Any = domain.group("ledger")
            cluster.hosts["a"].holds_replies = True
            asker = Asker(lambda: counter.add(1))
            asker.start()
            while not cluster.state.executed:
                asker.join(0.01)
        asker.join(WAIT_S)
        assert isinstance(asker.ended, CallOutcomeUnknown)
        assert asker.ended.request_id.number == 1

    tell(story)


@pytest.mark.parametrize(("is_question", "kind"), [(True, Unavailable), (False, OutcomeUnknown)])
def test_what_is_ended_with_its_loop_says_no_more_than_is_known(
    is_question: bool, kind: type[Exception]
) -> None:
    begun = threading.Event()

    async def forever() -> None:
        begun.set()
        await asyncio.Event().wait()

    thread = LoopThread()
    asker = Asker(lambda: thread.run(forever(), is_question=is_question))
    asker.start()
    assert begun.wait(WAIT_S)
    thread.stop()
    asker.join(WAIT_S)
    assert isinstance(asker.ended, kind)
    with pytest.raises(Unavailable):
        thread.run(forever())


FORKS = """
import os, signal, sys
import holdfast as hf

with hf.connect_sync(sys.argv[1]) as domain:
    counter = domain.group("ledger")
    assert counter.add(1) == 1
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # nobody is left behind
        try:
            with domain:
                assert domain.group("ledger").add(0) == 1
        except BaseException:
            os._exit(2)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # nobody is left behind
        try:
            counter.add(1)
        except hf.Unavailable:
            domain.__exit__(None, None, None)
            os._exit(0)
        os._exit(3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert counter.add(1) == 2
"""
"""Run in a separate process: forking one with threads, such as the tests' own, causes a warning."""


def test_a_forked_process_can_connect_anew_and_leaves_its_parents_domain_alone() -> None:
    def story(cluster: Cluster) -> None:
        command = [sys.executable, "-W", "ignore", "-c", FORKS, cluster.url]
        done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
        assert (done.returncode, done.stderr) == (0, "")

    tell(story)


def test_a_value_that_does_not_fit_raises_with_the_value_and_the_id() -> None:
    def story(cluster: Cluster) -> None:
        with hf.connect_sync(cluster.url) as domain:
            group = domain.group("ledger", Counter)
            with pytest.raises(hf.ResultDoesNotFit) as told:
                group.spell(3)
            assert told.value.value == "3!"
            assert domain.outcome(told.value.request_id) == "3!"
            with pytest.raises(hf.ResultDoesNotFit) as asked:
                domain.outcome(told.value.request_id, int)
            assert (asked.value.value, asked.value.request_id) == ("3!", told.value.request_id)
            assert group.add(1) == 4

    tell(story)
