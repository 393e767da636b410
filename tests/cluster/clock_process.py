"""A process with a generator on the machine's own disk and clock, made to be killed.

``python clock_process.py DIRECTORY PEER_CSN CLOCK_OFFSET_S SEED`` writes to stdout, unbuffered, one line for
each CSN it assigns, and ``known CSN`` once the CSN received from the peer is certain to survive a crash.
"""

import asyncio
import os
import random
import sys
from collections.abc import Iterable
from pathlib import Path

from holdfast.clock import ClockConfig, ClockPorts, Generator
from holdfast.machine import LoopTimers, MachineClock
from holdfast.model.csn import Csn, parse
from holdfast.model.errors import Unavailable
from holdfast.model.ids import SECOND, ReplicaId
from holdfast.model.ports import NoTrace
from holdfast.storage.disk import FileDisk

BATCH = 50


class MovedClock(MachineClock):
    """The machine's clock, some seconds off, and moved again while it is used."""

    def __init__(self, offset_s: int) -> None:
        self.offset_ns = offset_s * SECOND

    def wall(self) -> int:
        return super().wall() + self.offset_ns


async def hand_out(directory: Path, peer_csn: Csn, clock: MovedClock, rng: random.Random) -> None:
    loop = asyncio.get_running_loop()
    is_new = not (directory / "clock").exists()
    disk = FileDisk(directory, lambda token, ok: generator.on_synced(token, ok), loop.call_soon_threadsafe)
    timers = LoopTimers(loop, lambda tag: generator.on_timer(tag))
    generator = Generator(
        ClockPorts(clock, timers, disk, NoTrace()),
        ReplicaId(1),
        ClockConfig(store_interval_s=1, store_spare_s=1),
    )
    generator.open(is_new=is_new)
    while True:
        await asyncio.sleep(0.001)
        try:
            if generator.observe("b", peer_csn):
                say([f"known {peer_csn}"])
            say(str(take(generator)) for _ in range(BATCH))
        except Unavailable:
            continue
        if rng.random() < 0.05:
            clock.offset_ns += rng.randint(-3, 3) * SECOND


def take(generator: Generator) -> Csn:
    csn = generator.take()
    generator.commit(csn)
    return csn


def say(lines: Iterable[str]) -> None:
    for line in lines:
        os.write(1, line.encode() + b"\n")


if __name__ == "__main__":
    asyncio.run(
        hand_out(
            Path(sys.argv[1]), parse(sys.argv[2]), MovedClock(int(sys.argv[3])), random.Random(sys.argv[4])
        )
    )
