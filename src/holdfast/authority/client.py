"""The client of the embedded authority: a core that turns requests and watches into messages, and back.

Every request is answered within its deadline, if necessary with ``Unknown`` (A1, A2). A change is sent only
once: if it were sent twice, a refusal of the second copy would not say whether the first was applied. A read
may be sent again, and is sent again whenever a new session begins.

:class:`Subscriptions` keeps the client's watches across sessions, without gap or repetition. Each
subscription knows the first revision it has not seen, and holds back events that arrived out of order. The
client starts a watch again at that revision when a session begins, or when events are still missing at the
second Pong that mentions them. The new watch has a new number, so that no late message of the old one is
taken for its own. (Starting again at the first gap would make a network that reorders send the whole window
again for every event.) :mod:`.wire` says how lost and repeated messages are noticed.
"""

from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Final

from msgspec import Struct

from holdfast.authority.contract import (
    KEY_BYTES_MAX,
    Compacted,
    Events,
    Get,
    List,
    Request,
    Result,
    Unknown,
    WatchEvent,
    plain,
)
from holdfast.authority.wire import (
    REQUESTS_IN_FLIGHT_MAX,
    WATCH_WINDOW,
    WATCHES_MAX,
    Answer,
    Ask,
    Hello,
    Ping,
    Pong,
    Stale,
    WatchEvents,
    WatchStart,
    WatchStop,
    Welcome,
)
from holdfast.model.errors import InvalidRequest, Overloaded
from holdfast.model.ids import MILLISECOND, SECOND, Revision
from holdfast.model.ports import Clock, Network, Random, Timers, Trace
from holdfast.model.validation import Problem, below


@dataclass(slots=True)
class _Subscription:
    token: Hashable
    prefix: str
    next: Revision
    """The first revision this subscription has not seen."""
    seat: Revision
    """The seat under which it was asked for."""
    number: int = 0
    received: int = 0
    """How many events of watch *number* have arrived, counted without gaps."""
    acknowledged: int = 0
    owed: int = 0
    """How many events the server had sent by the last Pong. They must have arrived by the next one."""
    early: dict[int, WatchEvent] = field(default_factory=dict)
    """Events that arrived before their predecessors, by index; always fewer than the window."""

    def accept(self, index: int, event: WatchEvent) -> list[WatchEvent]:
        """Take event *index* and return the events that can be passed on now, in order."""
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
    """The client's watches by token, started again in every new session."""

    def __init__(self, send: Callable[[WatchStart | WatchStop], None]) -> None:
        self._send = send
        self._by_token: dict[Hashable, _Subscription] = {}
        self._by_number: dict[int, _Subscription] = {}
        self._number = 0

    def add(
        self, token: Hashable, prefix: str, revision: Revision, seat: Revision, session: int | None
    ) -> None:
        if len(prefix) > KEY_BYTES_MAX:
            raise InvalidRequest(f"a prefix of {len(prefix)} characters; at most {KEY_BYTES_MAX}")
        if len(self._by_token) >= WATCHES_MAX:
            raise Overloaded(f"{WATCHES_MAX} watches at the authority already")
        self._by_token[token] = subscription = _Subscription(token, prefix, revision, seat)
        if session is not None:
            self._start(subscription, session)

    def remove(self, token: Hashable, session: int | None) -> None:
        subscription = self._by_token.pop(token, None)
        if subscription is not None:
            self._by_number.pop(subscription.number, None)
            if session is not None:
                self._send(WatchStop(session, subscription.number))

    def start_all(self, session: int) -> None:
        """Start every watch in a session that has just begun."""
        self._by_number.clear()
        for subscription in self._by_token.values():
            self._start(subscription, session)

    def take(self, message: WatchEvents) -> tuple[Hashable, list[WatchEvent]]:
        """Return the watch's token and the events that can be passed on now.

        The list is empty when the event is a repetition, arrived too early, or belongs to an old watch.
        """
        subscription = self._by_number.get(message.watch)
        if subscription is None:
            return None, []
        return subscription.token, subscription.accept(message.index, message.event)

    def received(self) -> tuple[tuple[int, int], ...]:
        """How many events of each watch have arrived: what the next ping acknowledges."""
        for subscription in self._by_number.values():
            subscription.acknowledged = subscription.received
        return tuple([(number, each.received) for number, each in self._by_number.items()])

    def unacknowledged(self, number: int) -> int:
        subscription = self._by_number.get(number)
        return 0 if subscription is None else subscription.received - subscription.acknowledged

    def compare(self, sent: tuple[tuple[int, int], ...], session: int) -> None:
        """Start again every watch that still misses events, or its own start, since the last Pong."""
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
        where = (subscription.prefix, subscription.next, subscription.seat)
        self._send(WatchStart(session, subscription.number, *where))


NEVER_SEATED: Final = Revision(0)
"""The seat of an authority to which nothing was ever moved (A8)."""
REQUESTS_MAX: Final = 16_384
"""The most requests that may be unanswered at once, whether sent or waiting to be sent."""

DEADLINE_NS_MAX: Final = 2 * SECOND
"""A third of what a host's session lasts."""
_PING: Final = "ping"
_DEADLINE: Final = "deadline"


class ClientConfig(Struct, frozen=True, kw_only=True):
    """The waiting times of a client of the embedded authority."""

    deadline_ns: int = 2 * SECOND
    """A request unanswered for this long ends as Unknown. Keep it below a third of the dependent leases."""
    ping_ns: int = 500 * MILLISECOND
    """The time between two pings. The next ping reveals a lost watch event."""
    silence_ns: int = 1500 * MILLISECOND
    """When the server has been silent for this long, the client asks for a new session."""

    def validate(self) -> list[Problem]:
        problems = below(self, 1, self.__struct_fields__)
        if self.deadline_ns > DEADLINE_NS_MAX:
            problems.append(("deadline_ns", "must be at most 2 s, a third of a host's session"))
        if self.ping_ns * 2 > self.silence_ns:
            problems.append(("silence_ns", "must be at least twice ping_ns"))
        return problems


@dataclass(slots=True)
class _Pending:
    request: Request
    token: Hashable
    deadline: int

    @property
    def is_read(self) -> bool:
        return isinstance(plain(self.request)[1], Get | List)


class AuthorityClient:
    """An ``AuthorityPort`` for one server. It calls *on_authority* and *on_watch* with the results."""

    def __init__(
        self,
        *,
        server: str,
        clock: Clock,
        timers: Callable[[Callable[[Hashable], None]], Timers],
        network: Network,
        random: Random,
        trace: Trace,
        on_authority: Callable[[Hashable, Result], None],
        on_watch: Callable[[Hashable, WatchEvent], None],
        config: ClientConfig | None = None,
    ) -> None:
        self._server = server
        self._clock = clock
        self._timers = timers(self.on_timer)
        self._network = network
        self._nonces = random.stream("authority-nonces")
        self._trace = trace
        self._on_authority = on_authority
        self._on_watch = on_watch
        self._config = config or ClientConfig()
        self._subscriptions = Subscriptions(self._send)
        self._session: int | None = None
        self._nonce = 0
        self._heard_at = clock.now()
        self._number = 0
        self._unsent: deque[_Pending] = deque()
        self._sent: dict[int, _Pending] = {}  # by number; numbers only grow, so the first key is the floor
        self._deadline_is_set = False

    def start(self) -> None:
        self._ask_for_session()
        self._timers.set(self._config.ping_ns, _PING)

    # --- requests of a core

    def request(self, request: Request, token: Hashable) -> None:
        """Send *request*; ``on_authority(token, result)`` follows exactly once, within the deadline."""
        pending = _Pending(request, token, self._clock.now() + self._config.deadline_ns)
        if len(self._unsent) + len(self._sent) >= REQUESTS_MAX:
            raise Overloaded(f"{REQUESTS_MAX} requests to the authority are unanswered")
        self._unsent.append(pending)
        self._send_waiting()
        self._set_deadline(pending.deadline)

    def watch(self, prefix: str, revision: Revision, token: Hashable, seat: Revision = NEVER_SEATED) -> None:
        """Start a watch: ``on_watch(token, event)`` follows for each change from *revision* on.

        The last event is ``Compacted``, which also comes when the authority has another seat than *seat*.
        """
        self._subscriptions.add(token, prefix, revision, seat, self._session)

    def unwatch(self, token: Hashable) -> None:
        self._subscriptions.remove(token, self._session)

    # --- events

    def on_message(self, peer: str, message: object) -> None:
        if isinstance(message, Welcome):
            self._on_welcome(message)
        elif isinstance(message, Answer | WatchEvents | Pong | Stale) and message.session == self._session:
            self._heard_at = self._clock.now()
            self._on_session_message(message)

    def on_timer(self, tag: Hashable) -> None:
        if tag == _PING:
            self._ping()
            self._timers.set(self._config.ping_ns, _PING)
        else:
            self._give_up_overdue()

    def on_connected(self) -> None:
        """Begin a new session on a new connection: nothing sent on the old one will be answered."""
        self._lose_session("a new connection")
        self._ask_for_session()

    def on_disconnected(self) -> None:
        self._lose_session("the connection to the authority was lost")

    # --- sessions

    def _ask_for_session(self) -> None:
        if self._nonce == 0:
            self._nonce = self._nonces.getrandbits(62) | 1
        self._network.send(self._server, Hello(self._nonce))

    def _on_welcome(self, welcome: Welcome) -> None:
        if welcome.nonce != self._nonce:
            return
        self._nonce = 0
        self._session = welcome.session
        self._heard_at = self._clock.now()
        self._send_waiting()
        self._subscriptions.start_all(welcome.session)

    def _lose_session(self, why: str) -> None:
        """End the session: reads are sent again, changes end as Unknown, as nobody knows their fate (A1)."""
        if self._session is None:
            return
        self._trace.note("authority_session_lost", why=why)
        self._session = None
        sent, self._sent = self._sent, {}
        self._unsent.extendleft(reversed([pending for pending in sent.values() if pending.is_read]))
        for pending in sent.values():
            if not pending.is_read:
                self._on_authority(pending.token, Unknown(why))

    def _ping(self) -> None:
        if self._session is not None and self._clock.now() - self._heard_at > self._config.silence_ns:
            self._lose_session("the authority is silent")
        if self._session is None:
            self._ask_for_session()
        else:
            self._send(Ping(self._session, self._subscriptions.received()))

    def _on_session_message(self, message: Answer | WatchEvents | Pong | Stale) -> None:
        if isinstance(message, Answer):
            pending = self._sent.pop(message.number, None)
            if pending is not None:
                self._send_waiting()
                self._on_authority(pending.token, message.result)
        elif isinstance(message, WatchEvents):
            self._on_watch_events(message)
        elif isinstance(message, Pong):
            self._subscriptions.compare(message.sent, message.session)
        else:
            self._lose_session("the authority has restarted")
            self._ask_for_session()

    def _on_watch_events(self, message: WatchEvents) -> None:
        token, events = self._subscriptions.take(message)
        if self._subscriptions.unacknowledged(message.watch) >= WATCH_WINDOW // 2:
            self._send(Ping(message.session, self._subscriptions.received()))
        for event in events:
            if isinstance(event, Compacted):
                self._subscriptions.remove(token, self._session)
            self._on_watch(token, event)

    # --- requests

    def _send_waiting(self) -> None:
        while self._unsent and self._session is not None:
            number = self._number + 1
            floor = next(iter(self._sent), number)
            if number - floor >= REQUESTS_IN_FLIGHT_MAX:
                return
            pending = self._unsent.popleft()
            self._number = number
            self._sent[number] = pending
            self._send(Ask(self._session, floor, number, pending.request))

    def _set_deadline(self, deadline: int) -> None:
        # One timer serves all requests, set to the earliest deadline; later requests have later ones.
        if not self._deadline_is_set:
            self._deadline_is_set = True
            self._timers.set(max(0, deadline - self._clock.now()), _DEADLINE)

    def _give_up_overdue(self) -> None:
        now = self._clock.now()
        overdue = [pending for pending in (*self._sent.values(), *self._unsent) if pending.deadline <= now]
        self._sent = {number: pending for number, pending in self._sent.items() if pending.deadline > now}
        self._unsent = deque(pending for pending in self._unsent if pending.deadline > now)
        self._deadline_is_set = False
        waiting = [pending.deadline for pending in (*self._sent.values(), *self._unsent)]
        if waiting:
            self._set_deadline(min(waiting))
        self._send_waiting()
        waited_s = self._config.deadline_ns / SECOND
        for pending in overdue:
            self._on_authority(pending.token, Unknown(f"no answer within {waited_s:g} s"))

    def _send(self, message: object) -> None:
        self._network.send(self._server, message)
