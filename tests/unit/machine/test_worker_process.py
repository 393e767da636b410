"""What a host knows of a worker's process."""

import asyncio
import time
from pathlib import Path

import pytest

from holdfast.machine.worker_process import WorkerProcess

WAIT_S = 60.0
PROGRAM = """
import os, sys, time
from holdfast.machine.pipe_frames import framed

os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
sys.stdout.buffer.write(framed(b"begun"))
sys.stdout.flush()
if sys.argv[2] == "sleep":
    time.sleep(600)
while True:
    pass
"""


def test_who_waits_for_a_core_is_told_from_who_sleeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two that would both use one core wait for it in turn; one that sleeps waits for none."""
    (tmp_path / "one_core.py").write_text(PROGRAM)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    async def watched() -> None:
        busy = [await WorkerProcess.start("one_core", "spin") for _ in range(2)]
        idle = await WorkerProcess.start("one_core", "sleep")
        try:
            for each in (*busy, idle):
                assert await each.read() == b"begun"
            await asyncio.sleep(0.2)  # it sleeps by now
            slept_s = idle.without_core_s()
            deadline = time.monotonic() + WAIT_S
            while any(each.without_core_s() < 0.3 for each in busy):
                assert time.monotonic() < deadline
                await asyncio.sleep(0.02)
            assert idle.without_core_s() - slept_s < 0.2
        finally:
            for each in (*busy, idle):
                await each.end()
        assert idle.without_core_s() == 0.0  # nobody knows of it any more

    asyncio.run(watched())
