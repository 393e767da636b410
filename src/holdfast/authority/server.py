"""The server of the embedded authority: a core between its clients' messages and its store.

Requests that arrive in one turn of the loop are committed together, and their answers leave after the commit.
Whatever arrives during a commit waits in the transport for the next turn. ``StoreFailed`` is not caught here:
it must end the process (A6).

:class:`ClientWatches` feeds the watches from the store's history, each at its own pace and without a queue.
Each watch remembers the next revision to look at. New revisions are sent to watches that are up to date. A
watch that is behind (because it just started, or its window was full) reads the history from where it stands
when its client acknowledges. History that is gone by then is reported as *compacted* (A3).
"""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Final

from holdfast.authority import keys
from holdfast.authority.contract import KEY_BYTES_MAX, Compacted, Events, Unknown, WatchEvent
from holdfast.authority.sqlite import SqliteStore
from holdfast.authority.wire import (
    REQUESTS_IN_FLIGHT_MAX,
    WATCH_WINDOW,
    WATCHES_MAX,
    Answer,
    Ask,
    ClientMessage,
    Hello,
    Ping,
    Pong,
    Stale,
    WatchEvents,
    WatchStart,
    WatchStop,
    Welcome,
)
from holdfast.model.ids import MILLISECOND, Revision
from holdfast.model.pauses import PauseDetector
from holdfast.model.ports import Clock, Network, Random, Timers, Trace

HISTORY_PAGE: Final = 64
"""How many revisions a watch that is behind reads at a time."""


@dataclass(slots=True)
class _Watch:
    session: int
    number: int
    peer: str
    prefix: str
    next: Revision
    """The first revision this watch has not looked at."""
    sent: int = 0
    acknowledged: int = 0
    is_over: bool = False
    """The client has been sent Compacted; nothing follows."""

    @property
    def has_room(self) -> bool:
        return not self.is_over and self.sent - self.acknowledged < WATCH_WINDOW


class ClientWatches:
    """The watches of all clients, fed from the store's history."""

    def __init__(self, store: SqliteStore, network: Network) -> None:
        self._store = store
        self._network = network
        self._watches: dict[int, dict[int, _Watch]] = {}

    def start(self, peer: str, start: WatchStart) -> None:
        """Begin a watch. A repeated or surplus start is ignored; the client notices at its next ping."""
        watches = self._watches.setdefault(start.session, {})
        if start.watch in watches or len(watches) >= WATCHES_MAX or len(start.prefix) > KEY_BYTES_MAX:
            return
        watch = _Watch(start.session, start.watch, peer, start.prefix, start.revision)
        watches[start.watch] = watch
        seat = self._store.seat
        if start.seat != (0 if seat is None else seat.modified):
            # Its client must learn, by listing again, where the domain is now (A8).
            self._end(watch)
        else:
            self._catch_up(watch)

    def stop(self, session: int, number: int) -> None:
        self._watches.get(session, {}).pop(number, None)

    def stop_all(self, session: int) -> None:
        self._watches.pop(session, None)

    def acknowledge(self, session: int, received: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
        """Record what arrived, send what fits, and return how many events were sent on each watch.

        The client has given up a watch that it does not mention; its stop message was lost.
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
        """Send the newly committed revisions to every watch that is up to date with the ones before."""
        if not fresh:
            return
        if any(changed.key == keys.SEAT for events in fresh for changed in events.changes):
            self._end_all()
        for watches in self._watches.values():
            for watch in watches.values():
                if watch.next == fresh[0].revision:
                    self._offer(watch, fresh)

    def _end_all(self) -> None:
        """End every watch: who watches must learn, by listing again, where the domain is now (A8)."""
        for watches in self._watches.values():
            for watch in watches.values():
                if not watch.is_over:
                    self._end(watch)

    def _end(self, watch: _Watch) -> None:
        self._send(watch, Compacted(self._store.oldest))
        watch.is_over = True

    def _catch_up(self, watch: _Watch) -> None:
        while watch.has_room and watch.next != self._store.revision + 1:
            # A future revision belongs to a history that this file has lost (A5): it counts as compacted.
            if not self._store.oldest <= watch.next <= self._store.revision:
                self._end(watch)
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


TICK_NS: Final = 250 * MILLISECOND
"""How often leases are checked: a lease ends at most this much late."""
STALL_NS: Final = 4 * TICK_NS
"""A tick this late means that this process stood still and received nothing: every lease restarts (A4)."""
BATCH_REQUESTS_MAX: Final = 1_024
"""The most requests in one commit."""
WAITING_REQUESTS_MAX: Final = 65_536
"""The most requests waiting for a commit, over all clients."""
SESSIONS_OF_PEER_MAX: Final = 4
"""The most sessions of one peer. A repeated Hello opens an unused one; those in use must survive a few."""

_TICK: Final = "tick"
_COMMIT: Final = "commit"


@dataclass(slots=True)
class _Session:
    peer: str
    floor: int = 1
    taken: set[int] = field(default_factory=set)
    """The request numbers at or above the floor that were accepted."""

    def take(self, ask: Ask) -> bool:
        """Whether this request is new and the client still waits for it."""
        self._raise_floor(ask.floor)
        if not self.floor <= ask.number < self.floor + REQUESTS_IN_FLIGHT_MAX or ask.number in self.taken:
            return False
        self.taken.add(ask.number)
        return True

    def _raise_floor(self, floor: int) -> None:
        if floor - self.floor > REQUESTS_IN_FLIGHT_MAX:
            self.taken.clear()
            self.floor = floor
        while self.floor < floor:
            self.taken.discard(self.floor)
            self.floor += 1


class AuthorityServer:
    """Serves one store. Call :meth:`start` once, then pass it messages and timers."""

    def __init__(
        self,
        *,
        store: SqliteStore,
        clock: Clock,
        timers: Callable[[Callable[[Hashable], None]], Timers],
        network: Network,
        random: Random,
        trace: Trace,
    ) -> None:
        self._store = store
        self._clock = clock
        self._timers = timers(self.on_timer)
        self._network = network
        self._trace = trace
        self._watching = ClientWatches(store, network)
        self._sessions: dict[int, _Session] = {}
        self._sessions_of: dict[str, list[int]] = {}
        # A random start distinguishes the sessions of this process from those of any other.
        self._last_session = random.stream("authority-sessions").getrandbits(40) << 20
        self._waiting: list[tuple[str, Ask]] = []
        self._pauses = PauseDetector(clock, missed=STALL_NS // TICK_NS)

    def start(self) -> None:
        self._pauses.look(TICK_NS)
        self._timers.set(TICK_NS, _TICK)

    # --- events

    def on_message(self, peer: str, message: object) -> None:
        if isinstance(message, Hello):
            self._welcome(peer, message)
        elif isinstance(message, Ask | Ping | WatchStart | WatchStop):
            session = self._sessions.get(message.session)
            if session is None or session.peer != peer:
                self._network.send(peer, Stale(message.session))
            else:
                self._on_session_message(session, message)

    def on_timer(self, tag: Hashable) -> None:
        if tag == _COMMIT:
            self._commit()
        else:
            self._tick()

    def on_disconnected(self, peer: str) -> None:
        """Forget *peer*: its requests are still carried out, but their answers go nowhere."""
        for session in self._sessions_of.pop(peer, ()):
            self._forget(session)

    # --- sessions

    def _welcome(self, peer: str, hello: Hello) -> None:
        self._last_session += 1
        session = self._last_session
        self._sessions[session] = _Session(peer)
        known = self._sessions_of.setdefault(peer, [])
        known.append(session)
        if len(known) > SESSIONS_OF_PEER_MAX:
            self._forget(known.pop(0))
        self._network.send(peer, Welcome(hello.nonce, session))

    def _forget(self, session: int) -> None:
        del self._sessions[session]
        self._watching.stop_all(session)

    def _on_session_message(self, session: _Session, message: ClientMessage) -> None:
        if isinstance(message, Ask):
            if session.take(message):
                self._gather(session.peer, message)
        elif isinstance(message, Ping):
            sent = self._watching.acknowledge(message.session, message.received)
            self._network.send(session.peer, Pong(message.session, sent))
        elif isinstance(message, WatchStart):
            self._watching.start(session.peer, message)
        elif isinstance(message, WatchStop):
            self._watching.stop(message.session, message.watch)

    # --- requests

    def _gather(self, peer: str, ask: Ask) -> None:
        if len(self._waiting) >= WAITING_REQUESTS_MAX:
            self._network.send(peer, Answer(ask.session, ask.number, Unknown("the authority is overloaded")))
            return
        if not self._waiting:
            self._timers.set(0, _COMMIT)
        self._waiting.append((peer, ask))

    def _commit(self) -> None:
        batch, self._waiting = self._waiting[:BATCH_REQUESTS_MAX], self._waiting[BATCH_REQUESTS_MAX:]
        if self._waiting:
            self._timers.set(0, _COMMIT)
        results = self._store.apply([ask.request for _, ask in batch], self._clock.now())
        for (peer, ask), result in zip(batch, results, strict=True):
            self._network.send(peer, Answer(ask.session, ask.number, result))
        self._after_commit()

    def _tick(self) -> None:
        now = self._clock.now()
        if stalled_ns := self._pauses.look(TICK_NS):
            self._trace.note("authority_stalled", stalled_ns=stalled_ns)
            self._store.keep_all_leases(now)
        for lease in self._store.expire(now):
            self._trace.note("lease_expired", lease=lease)
        self._after_commit()
        self._timers.set(TICK_NS, _TICK)

    def _after_commit(self) -> None:
        self._watching.publish(self._store.take_events())
        self._store.maintain()
