"""The numbers of new groups: each is given once, and concurrent orders share a reservation."""

import asyncio
from pathlib import Path

from holdfast.admin.groups import Numbers
from holdfast.authority.contract import Applied, Request, Result
from holdfast.model.ids import GroupId
from recipe_bench import Bench


class Slow:
    """An authority that yields before each answer."""

    def __init__(self, directory: Path) -> None:
        self.bench = Bench(directory)
        self.changes = 0

    async def ask(self, request: Request) -> Result:
        await asyncio.sleep(0)
        result = self.bench.ask(request)
        self.changes += isinstance(result, Applied)
        return result


def test_orders_that_come_together_get_their_numbers_together(tmp_path: Path) -> None:
    """The counter changes once for the first order, once for all that came meanwhile; no number is
    repeated.
    """
    authority = Slow(tmp_path)
    numbers = Numbers(authority, authority.bench.nonce)  # type: ignore[arg-type]  # it watches nothing

    async def take_many() -> list[GroupId]:
        return list(await asyncio.gather(*(numbers.take() for _ in range(20))))

    assert sorted(asyncio.run(take_many())) == list(range(1, 21))
    assert authority.changes == 2


def test_who_is_gone_leaves_its_number_to_the_next(tmp_path: Path) -> None:
    authority = Slow(tmp_path)
    numbers = Numbers(authority, authority.bench.nonce)  # type: ignore[arg-type]  # it watches nothing

    async def story() -> list[GroupId]:
        first, second = (asyncio.create_task(numbers.take()) for _ in range(2))
        await asyncio.sleep(0)
        second.cancel()
        return [await first, await numbers.take(), await numbers.take()]

    taken = asyncio.run(story())
    assert len(set(taken)) == 3
