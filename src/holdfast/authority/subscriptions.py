"""A client's watches at the embedded authority, across sessions, without gap or repetition.

Each subscription knows the first revision it has not seen. Events that overtook others wait for them. When
events are still missing at the second Pong that mentions them, or when a session begins, the watch is started
again there under a new number, so that nothing of the old watch can be mistaken. (Starting again at the
first gap would make a network that reorders send the whole window again for every event.)
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from holdfast.authority.contract import KEY_BYTES_MAX, Events, WatchEvent
from holdfast.authority.wire import WATCH_WINDOW, WATCHES_MAX, WatchEvents, WatchStart, WatchStop
from holdfast.model.errors import InvalidRequest, Overloaded
from holdfast.model.ids import Revision


@dataclass(slots=True)
class _Subscription:
    token: Hashable
    prefix: str
    next: Revision
    """The first revision not seen."""
    number: int = 0
    received: int = 0
    """Events of watch *number* taken, all in order."""
    acknowledged: int = 0
    owed: int = 0
    """How many had been sent by the last Pong: they must be there by the next."""
    early: dict[int, WatchEvent] = field(default_factory=dict)
    """Events that overtook others, by index: fewer than the window."""

    def accept(self, index: int, event: WatchEvent) -> list[WatchEvent]:
        """What can be passed on now, in order."""
        if self.received < index <= self.received + WATCH_WINDOW:
            self.early[index] = event
        news: list[WatchEvent] = []
        while self.received + 1 in self.early:
            self.received += 1
            due = self.early.pop(self.received)
            if not isinstance(due, Events):
                news.append(due)
            elif due.revision >= self.next:
                self.next = Revision(due.revision + 1)
                news.append(due)
        return news


class Subscriptions:
    def __init__(self, send: Callable[[WatchStart | WatchStop], None]) -> None:
        self._send = send
        self._by_token: dict[Hashable, _Subscription] = {}
        self._by_number: dict[int, _Subscription] = {}
        self._number = 0

    def add(self, token: Hashable, prefix: str, revision: Revision, session: int | None) -> None:
        if len(prefix) > KEY_BYTES_MAX:
            raise InvalidRequest(f"a prefix of {len(prefix)} characters; at most {KEY_BYTES_MAX}")
        if len(self._by_token) >= WATCHES_MAX:
            raise Overloaded(f"{WATCHES_MAX} watches at the authority already")
        self._by_token[token] = subscription = _Subscription(token, prefix, revision)
        if session is not None:
            self._start(subscription, session)

    def remove(self, token: Hashable, session: int | None) -> None:
        subscription = self._by_token.pop(token, None)
        if subscription is not None:
            self._by_number.pop(subscription.number, None)
            if session is not None:
                self._send(WatchStop(session, subscription.number))

    def start_all(self, session: int) -> None:
        """A session begins: start every watch in it."""
        self._by_number.clear()
        for subscription in self._by_token.values():
            self._start(subscription, session)

    def take(self, message: WatchEvents) -> tuple[Hashable, list[WatchEvent]]:
        """Whose events are due now, and which: none when it is repeated, too early, or of an old watch."""
        subscription = self._by_number.get(message.watch)
        if subscription is None:
            return None, []
        return subscription.token, subscription.accept(message.index, message.event)

    def received(self) -> tuple[tuple[int, int], ...]:
        """What a ping says: how many events of each watch have been taken."""
        for subscription in self._by_number.values():
            subscription.acknowledged = subscription.received
        return tuple([(number, each.received) for number, each in self._by_number.items()])

    def unacknowledged(self, number: int) -> int:
        subscription = self._by_number.get(number)
        return 0 if subscription is None else subscription.received - subscription.acknowledged

    def compare(self, sent: tuple[tuple[int, int], ...], session: int) -> None:
        """Start again every watch of which events, or the start itself, are missing since the last Pong."""
        known = dict(sent)
        for number, subscription in list(self._by_number.items()):
            if subscription.received < subscription.owed:
                self._restart(subscription, session)
            else:
                subscription.owed = known.get(number, subscription.received + 1)

    def _restart(self, subscription: _Subscription, session: int) -> None:
        self._by_number.pop(subscription.number, None)
        self._send(WatchStop(session, subscription.number))
        self._start(subscription, session)

    def _start(self, subscription: _Subscription, session: int) -> None:
        self._number += 1
        subscription.number = self._number
        subscription.received = subscription.acknowledged = subscription.owed = 0
        subscription.early.clear()
        self._by_number[subscription.number] = subscription
        self._send(WatchStart(session, subscription.number, subscription.prefix, subscription.next))
