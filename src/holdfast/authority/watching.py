"""The watches of the embedded authority's clients, fed from its history.

No watch has a queue. Each remembers the next revision to look at; what is new is offered to those
that are up to date, and one that is behind (just started, or its window was full) reads the history
from where it stands when its client acknowledges. History that is gone by then is *compacted* (A3).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from holdfast.authority.contract import KEY_BYTES_MAX, Compacted, Events, WatchEvent
from holdfast.authority.sqlite import SqliteStore
from holdfast.authority.wire import WATCH_WINDOW, WATCHES_MAX, WatchEvents, WatchStart
from holdfast.model.ids import Revision
from holdfast.model.ports import Network

HISTORY_PAGE: Final = 64
"""Revisions read at a time by a watch that is behind."""


@dataclass(slots=True)
class _Watch:
    session: int
    number: int
    peer: str
    prefix: str
    next: Revision
    """The first revision not yet looked at."""
    sent: int = 0
    acknowledged: int = 0
    is_over: bool = False
    """Its client has been told Compacted; nothing follows."""

    @property
    def has_room(self) -> bool:
        return not self.is_over and self.sent - self.acknowledged < WATCH_WINDOW


class Watching:
    def __init__(self, store: SqliteStore, network: Network) -> None:
        self._store = store
        self._network = network
        self._watches: dict[int, dict[int, _Watch]] = {}

    def start(self, peer: str, start: WatchStart) -> None:
        """Begin a watch. A repeated start, or one too many, is passed over; the client's ping finds out."""
        watches = self._watches.setdefault(start.session, {})
        if start.watch in watches or len(watches) >= WATCHES_MAX or len(start.prefix) > KEY_BYTES_MAX:
            return
        watch = _Watch(start.session, start.watch, peer, start.prefix, start.revision)
        watches[start.watch] = watch
        self._catch_up(watch)

    def stop(self, session: int, number: int) -> None:
        self._watches.get(session, {}).pop(number, None)

    def stop_all(self, session: int) -> None:
        self._watches.pop(session, None)

    def acknowledge(self, session: int, received: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
        """Take note of what arrived, send on, and say how much has been sent on each watch.

        A watch that is not mentioned was given up; its stop went missing.
        """
        watches = self._watches.get(session, {})
        counts = dict(received)
        for number, watch in list(watches.items()):
            if number not in counts:
                del watches[number]
            elif watch.acknowledged < counts[number] <= watch.sent:
                watch.acknowledged = counts[number]
                self._catch_up(watch)
        return tuple([(watch.number, watch.sent) for watch in watches.values()])

    def publish(self, fresh: list[Events]) -> None:
        """Send the newly committed revisions to every watch that is up to date with those before."""
        if not fresh:
            return
        for watches in self._watches.values():
            for watch in watches.values():
                if watch.next == fresh[0].revision:
                    self._offer(watch, fresh)

    def _catch_up(self, watch: _Watch) -> None:
        while watch.has_room and watch.next != self._store.revision + 1:
            # A revision yet to come is one of a history this file has lost (A5): as good as compacted.
            if not self._store.oldest <= watch.next <= self._store.revision:
                self._send(watch, Compacted(self._store.oldest))
                watch.is_over = True
            else:
                self._offer(watch, self._store.history(watch.next, HISTORY_PAGE))

    def _offer(self, watch: _Watch, revisions: list[Events]) -> None:
        for events in revisions:
            if not watch.has_room:
                return
            watch.next = Revision(events.revision + 1)
            changes = tuple([changed for changed in events.changes if changed.key.startswith(watch.prefix)])
            if changes:
                self._send(watch, Events(events.revision, changes))

    def _send(self, watch: _Watch, event: WatchEvent) -> None:
        watch.sent += 1
        self._network.send(watch.peer, WatchEvents(watch.session, watch.number, watch.sent, event))
