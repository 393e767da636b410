"""Documents that are put into an archive are told from others when they are read back."""

import asyncio
from hashlib import sha256
from typing import Any, cast

from holdfast.bench.measuring.documents import AT_A_TIME, Feed, body_of, differing, name_of
from holdfast.bench.objects import Documents
from holdfast.client.proxy import Group


class Kept:
    """A group that keeps documents in memory."""

    def __init__(self) -> None:
        self.bodies: dict[str, bytes] = {}
        self.asked: list[int] = []
        """How many documents each call asked for."""

    async def call(self, method: Any, *arguments: Any) -> Any:
        if method is Documents.put:
            name, body = arguments
            self.bodies[name] = body
            return None
        (ids,) = arguments
        self.asked.append(len(ids))
        return [sha256(self.bodies[each]).digest() if each in self.bodies else b"" for each in ids]


def test_a_document_that_is_another_or_not_there_is_named() -> None:
    kept = Kept()
    group, count = cast(Group[Documents], kept), 3 * AT_A_TIME + 1

    async def work() -> list[int]:
        feed = Feed(group, 100)
        await feed.put(count)
        assert feed.put_numbers == list(range(101, 101 + count))
        assert await differing(group, feed.put_numbers) == []
        flipped = bytearray(kept.bodies[name_of(103)])
        flipped[-1] ^= 1
        kept.bodies[name_of(103)] = bytes(flipped)
        del kept.bodies[name_of(120)]
        kept.bodies[name_of(130)] = body_of(131)
        return await differing(group, feed.put_numbers)

    assert asyncio.run(work()) == [103, 120, 130]
    assert sum(kept.asked) == 2 * count
    assert max(kept.asked) == AT_A_TIME
