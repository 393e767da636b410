"""The embedded authority's client: a core that turns requests and watches into messages, and back.

Every request is answered within its deadline, if need be with ``Unknown`` (A1, A2). A change is
sent once and never again: who sends it twice cannot say what its refusal means. A read may be sent
again, and is, whenever a new session begins. Watches survive sessions: they are started again
at the first revision not yet seen (:mod:`.wire` says how loss and repetition are noticed).
"""

from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final

from msgspec import Struct

from holdfast.authority.contract import Compacted, Get, List, Request, Result, Unknown, WatchEvent
from holdfast.authority.subscriptions import Subscriptions
from holdfast.authority.wire import (
    REQUESTS_IN_FLIGHT_MAX,
    WATCH_WINDOW,
    Answer,
    Ask,
    Hello,
    Ping,
    Pong,
    Stale,
    WatchEvents,
    Welcome,
)
from holdfast.model.errors import Overloaded
from holdfast.model.ids import Revision
from holdfast.model.ports import Clock, Network, Random, Timers, Trace
from holdfast.model.units import MILLISECOND, SECOND

REQUESTS_MAX: Final = 16_384
"""Requests not yet answered, sent or waiting to be."""

_PING: Final = "ping"
_DEADLINE: Final = "deadline"


class ClientConfig(Struct, frozen=True, kw_only=True):
    """How long a client of the embedded authority waits for what."""

    deadline_ns: int = 2 * SECOND
    """A request unanswered for so long is Unknown. Shorter than a third of the leases that depend on it."""
    ping_ns: int = 500 * MILLISECOND
    """Between two pings. Each lost watch event is noticed by the next one."""
    silence_ns: int = 1500 * MILLISECOND
    """A server unheard for so long is asked for a new session."""


@dataclass(slots=True)
class _Pending:
    request: Request
    token: Hashable
    deadline: int

    @property
    def is_read(self) -> bool:
        return isinstance(self.request, Get | List)


class AuthorityClient:
    """An ``AuthorityPort`` on one server. *on_authority* and *on_watch* are called with its results."""

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
        self._sent: dict[int, _Pending] = {}  # by number, which only grows: the first is the floor
        self._deadline_is_set = False

    def start(self) -> None:
        self._ask_for_session()
        self._timers.set(self._config.ping_ns, _PING)

    # --- what a core asks

    def request(self, request: Request, token: Hashable) -> None:
        """``on_authority(token, result)`` follows, once, within the deadline."""
        pending = _Pending(request, token, self._clock.now() + self._config.deadline_ns)
        if len(self._unsent) + len(self._sent) >= REQUESTS_MAX:
            raise Overloaded(f"{REQUESTS_MAX} requests to the authority are unanswered")
        self._unsent.append(pending)
        self._send_waiting()
        self._set_deadline(pending.deadline)

    def watch(self, prefix: str, revision: Revision, token: Hashable) -> None:
        """``on_watch(token, event)`` follows for every change from *revision* on, until ``Compacted``."""
        self._subscriptions.add(token, prefix, revision, self._session)

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
        """The transport has a new connection: nothing sent on an old one will be answered."""
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
        """Reads will be sent again; what became of the changes nobody can say (A1)."""
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
        # One timer for all: it stands at the earliest deadline, and later requests have later ones.
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
