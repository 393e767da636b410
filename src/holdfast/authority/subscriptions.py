"""A client's watches at the embedded authority, across sessions, without gap or repetition.

Each subscription knows the first revision it has not seen. Whenever events go missing or a session begins,
it is started again there under a new number, so that nothing of the old watch can be mistaken.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass

from holdfast.authority.contract import Events
from holdfast.authority.wire import WATCHES_MAX, WatchEvents, WatchStart, WatchStop
from holdfast.model.errors import Overloaded
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


class Subscriptions:
    def __init__(self, send: Callable[[WatchStart | WatchStop], None]) -> None:
        self._send = send
        self._by_token: dict[Hashable, _Subscription] = {}
        self._by_number: dict[int, _Subscription] = {}
        self._number = 0

    def add(self, token: Hashable, prefix: str, revision: Revision, session: int | None) -> None:
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

    def take(self, message: WatchEvents) -> Hashable | None:
        """The token to which this event is news, or None when it is for nobody, repeated, or too early."""
        subscription = self._by_number.get(message.watch)
        if subscription is None:
            self._send(WatchStop(message.session, message.watch))
            return None
        if message.index > subscription.received + 1:
            self._restart(subscription, message.session)
        if message.index != subscription.received + 1 or message.watch != subscription.number:
            return None
        subscription.received = message.index
        if isinstance(message.event, Events):
            if message.event.revision < subscription.next:
                return None
            subscription.next = Revision(message.event.revision + 1)
        return subscription.token

    def received(self) -> tuple[tuple[int, int], ...]:
        """What a ping says: how many events of each watch have been taken."""
        for subscription in self._by_number.values():
            subscription.acknowledged = subscription.received
        return tuple([(number, each.received) for number, each in self._by_number.items()])

    def unacknowledged(self, number: int) -> int:
        subscription = self._by_number.get(number)
        return 0 if subscription is None else subscription.received - subscription.acknowledged

    def compare(self, sent: tuple[tuple[int, int], ...], session: int) -> None:
        """Start again every watch that the server does not know, or of which more was sent than taken."""
        known = dict(sent)
        for number, subscription in list(self._by_number.items()):
            if known.get(number) != subscription.received:
                self._restart(subscription, session)

    def _restart(self, subscription: _Subscription, session: int) -> None:
        self._by_number.pop(subscription.number, None)
        self._send(WatchStop(session, subscription.number))
        self._start(subscription, session)

    def _start(self, subscription: _Subscription, session: int) -> None:
        self._number += 1
        subscription.number = self._number
        subscription.received = subscription.acknowledged = 0
        self._by_number[subscription.number] = subscription
        self._send(WatchStart(session, subscription.number, subscription.prefix, subscription.next))
