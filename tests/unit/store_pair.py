"""Two stores of the embedded authority, of which the first has a domain that may move to the second."""

from collections.abc import Callable
from itertools import count
from pathlib import Path

from holdfast.authority import keys
from holdfast.authority.contract import (
    LeaseGrant,
    LeaseGranted,
    List,
    Listed,
    Put,
    Request,
    Result,
    Txn,
    Under,
)
from holdfast.authority.move.mover import Mover, Progress
from holdfast.authority.move.place import Place, sqlite_at
from holdfast.authority.move.seat import MoveRecipe
from holdfast.authority.sqlite import SqliteStore
from holdfast.model.ids import Nonce, Revision

A, B = sqlite_at("a:1"), sqlite_at("b:1")


class Pair:
    """Two stores, of which the first has a domain; recipes are stopped after some requests."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.stores: dict[Place, SqliteStore] = {}
        for place in (A, B):
            self.open(place)
        granted = self.ask(A, LeaseGrant(6))
        assert isinstance(granted, LeaseGranted)
        self.ask(A, Txn((), tuple(Put(f"k/{number}", b"v") for number in range(110))))
        self.ask(A, Txn((), (Put("sessions/h", b"s", granted.lease),)))
        self.numbers = count()
        self.steps: list[str] = []

    def open(self, place: Place) -> None:
        file = str(self.directory / place.address[0])
        self.stores[place] = SqliteStore(file, now_ns=0, new_id=place.address)

    def ask(self, place: Place, request: Request) -> Result:
        (result,) = self.stores[place].apply([request], 0)
        return result

    def mover(
        self, id: str, source: Place = A, target: Place = B, now: Callable[[], int] = lambda: 0
    ) -> Mover:
        return Mover(source, target, id=id, nonce=self.nonce, now=now, tell=lambda each: self._tell(each))

    def nonce(self) -> Nonce:
        return Nonce(str(next(self.numbers)))

    def run(self, recipe: MoveRecipe[object], requests: int | None = None) -> object:
        """What *recipe* comes to; None if it is stopped after so many requests."""
        try:
            asked = next(recipe)
            for number in count():
                if number == requests:
                    return None
                asked = recipe.send(self.ask(asked.place, asked.request))
        except StopIteration as done:
            return done.value
        raise AssertionError("count() ended")

    def contents(self, place: Place) -> dict[str, tuple[bytes, bool]]:
        seat = self.stores[place].seat
        revision = Revision(0) if seat is None else seat.modified
        listed = self.ask(place, Under(revision, List("")))
        assert isinstance(listed, Listed)
        own = (keys.IDENTITY, keys.SEAT)
        return {
            item.key: (item.value, bool(item.lease))
            for item in listed.items
            if item.key not in own and not keys.is_of_moves(item.key)
        }

    def close(self) -> None:
        for store in self.stores.values():
            store.close()

    def _tell(self, progress: Progress) -> None:
        self.steps.append(progress.step)
