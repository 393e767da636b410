"""The steps of a move between two stores, interrupted everywhere, and what processes see of it (A8)."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from store_pair import A, B, Pair

from holdfast.authority import keys
from holdfast.authority.contract import (
    Applied,
    Elsewhere,
    Get,
    Got,
    KeyValue,
    LeaseGrant,
    LeaseGranted,
    Older,
    Put,
    Txn,
    Unchanged,
    Under,
)
from holdfast.authority.move.copying import batches
from holdfast.authority.move.filling import BATCH_BYTES_MAX
from holdfast.authority.move.finding import Serving, Undecided, find_serving, give_up
from holdfast.authority.move.follower import FollowerConfig
from holdfast.authority.move.mover import Moved, StaysHere
from holdfast.authority.move.place import EtcdSettings, Place, moved_to, parse_endpoints
from holdfast.authority.move.revisions import Translation
from holdfast.authority.move.seat import SeatState
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import LeaseId, Revision


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
        "continued",
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


class SlowPair:
    """A move of 200 sessions in which every request takes a while."""

    def __init__(self, pair: Pair, request_ns: int) -> None:
        self._pair = pair
        self._request_ns = request_ns
        self.now_ns = 0
        self.pauses_ns: list[int] = []
        """The times between two changes of the target's seat."""
        for host in range(200):
            granted = pair.ask(A, LeaseGrant(6))
            assert isinstance(granted, LeaseGranted)
            pair.ask(A, Txn((), (Put(f"sessions/{host}", b"s", granted.lease),)))

    def move(self) -> object:
        recipe = self._pair.mover("m", now=lambda: self.now_ns).run()
        asked = next(recipe)
        seat, changed_at = self._pair.stores[B].seat, 0
        try:
            for _ in range(10_000):
                self.now_ns += self._request_ns
                self._pair.stores[B].expire(self.now_ns)
                (result,) = self._pair.stores[asked.place].apply([asked.request], self.now_ns)
                if seat != self._pair.stores[B].seat:
                    self.pauses_ns.append(self.now_ns - changed_at)
                    seat, changed_at = self._pair.stores[B].seat, self.now_ns
                asked = recipe.send(result)
        except StopIteration as done:
            return done.value
        raise AssertionError("the move does not end")


def test_a_slow_move_shows_life_keeps_its_leases_and_ends(pair: Pair) -> None:
    """Renewing all leases takes as long as each of them lasts at the source. No process may see the mover
    without a sign of life for long, and no lease may end at the target."""
    slow = SlowPair(pair, 18_000_000)
    assert isinstance(slow.move(), Moved)
    assert sum(1 for _, leased in pair.contents(B).values() if leased) == 201
    assert max(slow.pauses_ns) < FollowerConfig().give_up_ns // 2


def test_a_move_that_cannot_keep_its_leases_is_given_up(pair: Pair) -> None:
    ended = SlowPair(pair, 200_000_000).move()
    assert isinstance(ended, StaysHere)
    assert "faster than they can be renewed" in ended.reason
    found = pair.run(find_serving(A))
    assert isinstance(found, Serving)
    assert found.seen.place == A


def test_more_than_can_be_moved_is_refused_before_anything_is_sealed(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.authority.move.copying.LEASES_MAX", 0)
    ended = pair.run(pair.mover("m").run())
    assert isinstance(ended, StaysHere)
    assert "1 leases; a move takes 0" in ended.reason
    assert isinstance(pair.ask(A, Get("k/1")), Got)


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
