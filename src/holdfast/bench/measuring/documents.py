"""Documents that benchmarks put into an archive, and how they are read back.

What a document holds follows from its number, so that each can be compared later with what was put.
"""

import asyncio
from collections.abc import Iterator, Sequence
from hashlib import sha256
from random import Random
from typing import Final

from holdfast.bench.objects import Documents
from holdfast.client.proxy import Group
from holdfast.machine import MachineClock

BODY_BYTES: Final = 64 << 10
FEEDING: Final = 4
"""How many callers feed at a steady rate, together."""
COMPARING: Final = 4
"""How many callers read documents back, each so many at a time."""
AT_A_TIME: Final = 16

_clock = MachineClock()


def name_of(number: int) -> str:
    return f"document {number}"


def body_of(number: int) -> bytes:
    return Random(number).randbytes(BODY_BYTES)


class Feed:
    """Puts documents at a steady rate, and counts what was acknowledged."""

    def __init__(self, group: Group[Documents], first: int) -> None:
        self._group = group
        self._next = first
        self.put_numbers: list[int] = []
        """The documents that were acknowledged."""

    @property
    def bytes(self) -> int:
        return len(self.put_numbers) * BODY_BYTES

    async def put(self, count: int) -> None:
        for _ in range(count):
            self._next += 1
            number = self._next
            await self._group.call(Documents.put, name_of(number), body_of(number))
            self.put_numbers.append(number)

    async def steadily(self, bytes_per_s: float) -> None:
        began, begun = _clock.now(), 0

        async def feed() -> None:
            nonlocal begun
            while True:
                due = bytes_per_s * (_clock.now() - began) / 1e9
                if begun < due:
                    begun += BODY_BYTES
                    await self.put(1)
                else:
                    await asyncio.sleep(BODY_BYTES / bytes_per_s / 4)

        await asyncio.gather(*(feed() for _ in range(FEEDING)))


async def differing(group: Group[Documents], numbers: Sequence[int]) -> list[int]:
    """Which of these documents the group's primary has not as they were put."""
    found: list[int] = []

    async def compare_some(parts: Iterator[Sequence[int]]) -> None:
        for part in parts:
            digests = await group.call(Documents.digests, [name_of(each) for each in part])
            for number, digest in zip(part, digests, strict=True):
                if digest != sha256(body_of(number)).digest():
                    found.append(number)

    parts = (numbers[first : first + AT_A_TIME] for first in range(0, len(numbers), AT_A_TIME))
    await asyncio.gather(*(compare_some(parts) for _ in range(COMPARING)))
    return sorted(found)
