"""What both authorities have committed, as an observer next to their stores sees it, and what must hold (A8).

:class:`MoveTruth` knows the domain's keys as the authority that serves has them. It requires that only one
serves, that only that one changes, that an authority which is released or unsealed holds exactly the domain's
keys, and that every number is issued once, wherever.
"""

from collections.abc import Sequence

from holdfast.authority import keys
from holdfast.authority.contract import Events, KeyValue, List, Listed, Request, Result, Under
from holdfast.authority.move.revisions import Translation, table_of
from holdfast.authority.move.seat import NEVER_MOVED, Seat, SeatState, seat_of
from holdfast.authority.sqlite import SqliteStore
from holdfast.model.ids import SECOND, LeaseId, Revision
from holdfast.sim.engine.world import World
from holdfast.sim.scenarios.authority.observer import Truth


class MoveStore(SqliteStore):
    """A store that reports what it commits."""

    truth: "MoveTruth"
    place: str

    def apply(self, requests: Sequence[Request], now_ns: int) -> list[Result]:
        self.truth.committing[self.place] = True
        return super().apply(requests, now_ns)

    def expire(self, now_ns: int) -> list[LeaseId]:
        self.truth.committing[self.place] = True
        seconds = {lease: seconds for lease, seconds, _ in self.leases(now_ns)}
        ended = super().expire(now_ns)
        for lease in ended:
            self.truth.lease_ended(self.place, lease, seconds[lease])
        return ended

    def take_events(self) -> list[Events]:
        fresh = super().take_events()
        self.truth.committed(self, fresh)
        return fresh

    def contents(self) -> dict[str, KeyValue]:
        """Everything in the file."""
        seat = self.seat
        (listed,) = super().apply([Under(Revision(0) if seat is None else seat.modified, List(""))], now_ns=0)
        assert isinstance(listed, Listed)
        return {item.key: item for item in listed.items}


class MoveTruth(Truth):
    """The domain's history over both authorities."""

    def __init__(self, world: World, places: Sequence[str], first: str) -> None:
        super().__init__(world)
        self.committing = dict.fromkeys(places, False)
        self.seats: dict[str, Seat] = {}
        self.moves = 0
        """How many moves were released."""
        self._translations: dict[str, Translation] = {}
        self._first = first
        self._revisions_at: dict[str, Revision] = dict.fromkeys(places, Revision(0))
        self._serving_since = dict.fromkeys(places, 0)

    def open_store(self, store: MoveStore) -> None:
        """Check the opened store: what it had committed is there, at most one commit more is."""
        known = self._revisions_at[store.place]
        if store.revision < known:
            self._world.violation(
                "A6", f"{store.place}: revision {known} was committed, {store.revision} is there"
            )
        elif store.revision > known and known and not self.committing[store.place]:
            self._world.violation("A6", f"{store.place}: revision {store.revision} was never committed")
        self._serving_since[store.place] = self._world.now
        self.committed(store, store.history(max(Revision(known + 1), store.oldest), 1_000_000))

    def committed(self, store: MoveStore, fresh: Sequence[Events]) -> None:
        """Record revisions that the store at *place* reports as durable."""
        self.committing[store.place] = False
        for number, events in enumerate(fresh):
            self._revisions_at[store.place] = events.revision
            self._one(store, events, is_last=number == len(fresh) - 1)

    def serving(self) -> list[str]:
        """The places that serve; one that nobody ever moved to serves nobody."""
        return [place for place, seat in self.seats.items() if seat.state is SeatState.SERVING]

    def lease_ended(self, place: str, lease: LeaseId, seconds: int) -> None:
        seat = self.seats.get(place, NEVER_MOVED)
        since = self._world.now - self._serving_since[place]
        if seat.state is SeatState.SERVING and since < seconds * SECOND:
            self._world.violation(
                "A4", f"lease {lease} ended {since / SECOND:.3f} s after {place} began to serve"
            )

    def _one(self, store: MoveStore, events: Events, *, is_last: bool) -> None:
        place = store.place
        changed = {change.key: change.item for change in events.changes}
        before = self.seats.get(place)
        if keys.SEAT in changed:
            after = seat_of(changed[keys.SEAT])
            self.seats[place] = after
            self._world.sometimes(f"a seat became {after.state}")
            if after.state is SeatState.SERVING:
                self._begins_to_serve(store, after, events, is_last=is_last)
            return
        if before is None:
            if place == self._first or keys.IDENTITY not in changed:
                self.seats[place] = before = NEVER_MOVED
            else:
                return  # a new file, which nobody uses yet
        if before.state is SeatState.SERVING:
            self._check_alone(place)
            self._append(self._translations.get(place, Translation()).events(events))
        elif before.state is SeatState.GIVEN_UP and not any(changed.values()):
            return  # leases of the copy that nobody will use end
        elif before.state is not SeatState.ARRIVING:
            self._world.violation("A8", f"{place} is {before.state} and changed: {sorted(changed)[:5]}")

    def _begins_to_serve(self, store: MoveStore, seat: Seat, events: Events, *, is_last: bool) -> None:
        self._serving_since[store.place] = self._world.now
        self._check_alone(store.place)
        if self.items and is_last:
            self._check_complete(store)
        if events.revision + seat.offset <= self.revision:
            self._world.violation(
                "A8", f"{store.place} serves from revision {events.revision + seat.offset}, not new"
            )
        self.moves = max(self.moves, seat.stay - 1)
        translation = Translation(seat.offset, seat.base, table_of(store.contents().values()))
        self._translations[store.place] = translation
        self.revision = translation.events(events).revision

    def _check_alone(self, place: str) -> None:
        others = [each for each in self.serving() if each != place]
        if others:
            self._world.violation("A8", f"{place} serves, and so does {others[0]}")

    def _check_complete(self, store: MoveStore) -> None:
        everything = store.contents()
        seat = seat_of(everything[keys.SEAT])
        listed = Listed(tuple(everything.values()), Revision(0))
        translated = Translation(seat.offset, seat.base, table_of(listed.items)).result(listed)
        assert isinstance(translated, Listed)
        found = {item.key: item for item in translated.items if not keys.is_of_moves(item.key)}
        wrong = [
            key
            for key in sorted({*found, *self.items})
            if _content(found.get(key)) != _content(self.items.get(key))
        ]
        if wrong:
            self._world.violation(
                "A8", f"{store.place} begins to serve, and these keys are not as they were: {wrong[:5]}"
            )

    def _append(self, events: Events) -> None:
        if events.revision <= self.revision and self.revision:
            self._world.violation("A8", f"revision {events.revision} follows {self.revision}")
        self.revision = Revision(events.revision - 1)  # revisions may skip from stay to stay
        super()._append(events)


def _content(item: KeyValue | None) -> tuple[bytes, int, int, bool] | None:
    return None if item is None else (item.value, item.created, item.modified, bool(item.lease))
