"""The steps of a move between two stores, interrupted everywhere, and what processes see of it (A8)."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from holdfast.authority import keys
from holdfast.authority.contract import (
    Applied,
    Elsewhere,
    Get,
    Got,
    KeyValue,
    LeaseGrant,
    LeaseGranted,
    List,
    Listed,
    Older,
    Put,
    Request,
    Result,
    Txn,
    Unchanged,
    Under,
)
from holdfast.authority.move.copying import BATCH_BYTES_MAX, batches
from holdfast.authority.move.finding import Serving, Undecided, find_serving, give_up
from holdfast.authority.move.mover import Moved, Mover, Progress, StaysHere
from holdfast.authority.move.place import EtcdSettings, Place, moved_to, parse_endpoints, sqlite_at
from holdfast.authority.move.revisions import Translation
from holdfast.authority.move.seat import MoveRecipe, SeatState
from holdfast.authority.sqlite import SqliteStore
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import LeaseId, Nonce, Revision

A, B = sqlite_at("a:1"), sqlite_at("b:1")


class Pair:
    """Two stores, of which the first has a domain; recipes are stopped after some requests."""

    def __init__(self, directory: Path) -> None:
        self.stores = {
            place: SqliteStore(str(directory / place.address[0]), now_ns=0, new_id=place.address)
            for place in (A, B)
        }
        granted = self.ask(A, LeaseGrant(6))
        assert isinstance(granted, LeaseGranted)
        self.ask(A, Txn((), tuple(Put(f"k/{number}", b"v") for number in range(110))))
        self.ask(A, Txn((), (Put("sessions/h", b"s", granted.lease),)))
        self.numbers = count()
        self.steps: list[str] = []

    def ask(self, place: Place, request: Request) -> Result:
        (result,) = self.stores[place].apply([request], 0)
        return result

    def mover(self, id: str, source: Place = A, target: Place = B) -> Mover:
        return Mover(
            source, target, id=id, nonce=self.nonce, now=lambda: 0, tell=lambda each: self._tell(each)
        )

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


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path)
    yield made
    made.close()


def test_a_move_takes_everything_along_and_leaves_a_sealed_signpost(pair: Pair) -> None:
    before = pair.contents(A)
    ended = pair.run(pair.mover("m").run())
    assert isinstance(ended, Moved)
    assert pair.contents(B) == before
    assert list(dict.fromkeys(pair.steps)) == [
        "reserved",
        "sealed",
        "copied",
        "verified",
        "renewed",
        "released",
    ]
    refused = pair.ask(A, Txn((), (Put("k/1", b"late"),)))
    assert isinstance(refused, Elsewhere)
    found = pair.run(find_serving(A))
    assert isinstance(found, Serving)
    assert (found.seen.place, found.seen.seat.stay) == (B, 2)
    # And back again, over what the first stay left there.
    pair.ask(B, Under(found.seen.revision, Txn((), (Put("k/new", b"n"),))))
    assert isinstance(pair.run(pair.mover("n", B, A).run()), Moved)
    assert pair.contents(A) == {**before, "k/new": (b"n", False)}


@pytest.mark.parametrize("way", ["give up", "take over"])
def test_a_mover_may_end_after_any_request(tmp_path: Path, way: str) -> None:
    """Whoever comes next finds the domain at one of the two, or brings it there, with everything it had."""
    for requests in count(1):
        pair = Pair(_made(tmp_path / f"{requests}"))
        before = pair.contents(A)
        is_over = pair.run(pair.mover("m").run(), requests) is not None
        found = pair.run(find_serving(A))
        if isinstance(found, Undecided):
            if way == "give up":
                pair.run(give_up(found, nonce=pair.nonce()))
            else:
                assert isinstance(pair.run(pair.mover("second").run()), Moved)
            found = pair.run(find_serving(A))
        assert isinstance(found, Serving)
        assert pair.contents(found.seen.place) == before
        serving = [
            place
            for place, store in pair.stores.items()
            if store.seat is not None and b'"serving"' in store.seat.value
        ]
        assert serving in ([], [found.seen.place])
        pair.close()
        if is_over:
            assert requests > 8
            return


def test_a_move_that_was_given_up_is_never_released(pair: Pair) -> None:
    """A mover that slept goes on after its move was given up: it finds itself stopped."""
    recipe = pair.mover("m").run()
    asked = next(recipe)
    while "verified" not in pair.steps:
        asked = recipe.send(pair.ask(asked.place, asked.request))
    found = pair.run(find_serving(A))
    assert isinstance(found, Undecided)
    pair.run(give_up(found, nonce=pair.nonce()))
    with pytest.raises(StopIteration) as ended:
        while True:
            asked = recipe.send(pair.ask(asked.place, asked.request))
    assert isinstance(ended.value.value, StaysHere)
    assert isinstance(pair.run(find_serving(B)), Serving)
    seat = pair.stores[B].seat
    assert seat is not None
    assert SeatState.GIVEN_UP.encode() in seat.value


def test_a_place_in_use_is_refused(pair: Pair) -> None:
    pair.ask(B, Txn((), (Put("theirs", b"x"),)))
    ended = pair.run(pair.mover("m").run())
    assert isinstance(ended, StaysHere)
    assert "in use" in ended.reason
    assert isinstance(pair.ask(A, Get("k/1")), Got)


def test_a_sealed_store_ends_no_lease_and_gives_full_time_when_unsealed(pair: Pair) -> None:
    """Nobody could renew a lease meanwhile (A4)."""
    recipe = pair.mover("m").run()
    asked = next(recipe)
    while "sealed" not in pair.steps:
        asked = recipe.send(pair.ask(asked.place, asked.request))
    late = 3_600_000_000_000
    assert pair.stores[A].expire(late) == []
    found = pair.run(find_serving(A))
    assert isinstance(found, Undecided)
    seal = pair.stores[A].seat
    assert seal is not None
    unseal = Under(seal.modified, Txn((), (Put(keys.SEAT, b'{"type":"seat"}'),)))
    assert isinstance(pair.stores[A].apply([unseal], late)[0], Applied)
    assert pair.stores[A].expire(late + 5_000_000_000) == []


def test_revisions_mean_the_same_after_a_move() -> None:
    """An unchanged key shows what it had; a comparison with an older revision never holds by accident."""
    moved = Translation(offset=100, base=9, table={"k": (3, 7)}, leases={LeaseId(1): LeaseId(55)})
    asked = moved.request(Txn((Unchanged("k", Revision(7)), Unchanged("k", Revision(6))), ()))
    assert asked == Txn((Older("k", Revision(10)), Unchanged("k", Revision(-1))), ())
    assert moved.request(Txn((Unchanged("k", Revision(120)),), ())) == Txn(
        (Unchanged("k", Revision(20)),), ()
    )
    copied = KeyValue("k", b"", Revision(5), Revision(6), LeaseId(55))
    assert moved.result(Got(copied, Revision(12))) == Got(
        KeyValue("k", b"", Revision(3), Revision(7), LeaseId(1)), Revision(112)
    )
    changed = KeyValue("k", b"", Revision(5), Revision(11), LeaseId(0))
    assert moved.revisions_of(changed) == (3, 111)


def test_a_copy_is_cut_into_parts_that_fit() -> None:
    changes = [Put(f"k{number}", b"x" * size) for number, size in enumerate([900_000, 10, 499_990, 600_000])]
    parts = list(batches(changes))
    assert [change for part in parts for change in part] == changes
    assert all(sum(len(each.value) for each in part) <= 2 * BATCH_BYTES_MAX for part in parts)  # type: ignore[union-attr]


def test_an_etcd_is_named_by_its_endpoints() -> None:
    assert parse_endpoints("etcd://a:1,b,[::1]", is_tls=True) == (
        "https://a:1",
        "https://b:2379",
        "https://[::1]:2379",
    )
    with pytest.raises(InvalidRequest, match="names no etcd"):
        parse_endpoints("etcd://", is_tls=False)
    settings = EtcdSettings(endpoints=("a:1",), prefix="x", certificate="/c", user="u")
    assert len(settings.problems()) == 6
    there = moved_to(Place(kind="etcd", etcd=EtcdSettings(endpoints=("http://a:1",), prefix="d/")), 3)
    assert there.etcd is not None
    assert there.etcd.prefix == "d.3/"


def _made(directory: Path) -> Path:
    directory.mkdir()
    return directory
