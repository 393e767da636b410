"""A process that finds an invariant broken ends, though its event loop would have continued."""

import subprocess
import sys

import pytest

from holdfast.machine.process_end import EXIT_BROKEN

pytestmark = pytest.mark.cluster

PROGRAM = """
import asyncio, uvloop
from holdfast.machine import end_on_broken_invariant
from holdfast.model.errors import invariant

async def main():
    loop = asyncio.get_running_loop()
    end_on_broken_invariant(loop)
    loop.call_soon({failure})
    await asyncio.sleep(0.2)
    print("went on")

uvloop.run(main())
"""


@pytest.mark.parametrize(
    ("failure", "code", "said"),
    [
        ("lambda: invariant(False, 'water runs downhill')", EXIT_BROKEN, "water runs downhill"),
        ("lambda: 1 / 0", 0, "division by zero"),
        ("lambda: loop.call_exception_handler({'exception': SystemExit('left')})", EXIT_BROKEN, "left"),
    ],
)
def test_only_a_broken_invariant_ends_the_process(failure: str, code: int, said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(failure=failure)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == code
    assert said in done.stdout + done.stderr
    assert ("went on" in done.stdout) is (code == 0)
