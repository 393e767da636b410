"""Getting messages back that are missing here (LOSS-94 to 96).

One place is asked at a time, never all at once, and the wait for an answer doubles with each round, so that a
loss that hits everybody does not become a storm of questions. A recovery ends when everything is here, when
its time is over, or when every place was asked often enough; then it says why it failed. What did come stays.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from holdfast.model.ids import MILLISECOND, HostId
from holdfast.streams.config import LOG, PEERS, SOURCE, StreamSettings
from holdfast.streams.holding import Holding
from holdfast.streams.message import Message, Origin
from holdfast.streams.peers import GIVEN_MAX, Peers, Wanted
from holdfast.streams.ports import NOT_STORED, PEER_GONE, REFUSED, TIMEOUT, MessageStore

RECOVERED_MAX = 64
"""How many of the messages that came are remembered, to be shown."""
SHOWN_BYTES_MAX = 200_000
"""How many bytes of messages the application is shown at a time."""


class Progress(Enum):
    RUNNING = auto()
    DONE = auto()
    FAILED = auto()


@dataclass(slots=True)
class Places:
    """Where messages may be had from."""

    settings: StreamSettings
    holding: Holding
    peers: Peers
    log: MessageStore | None = None
    source: MessageStore | None = None

    def all(self, preferred: list[HostId]) -> list[str]:
        """The places to ask, in this order; those that are known to have messages first."""
        found: list[str] = []
        for each in self.settings.recover_from:
            if each == PEERS:
                heard = [peer.host for peer in self.peers.heard()]
                found += [host for host in preferred if host in heard]
                found += [host for host in heard if host not in preferred]
            elif (each == LOG and self.log is not None) or (each == SOURCE and self.source is not None):
                found.append(f"@{each}")
        return found

    def ask(self, place: str, origin: Origin, first: int, last: int) -> bool:
        store = {f"@{LOG}": self.log, f"@{SOURCE}": self.source}.get(place)
        if store is not None:
            return store.request(origin, first, last)
        return self.peers.tell(HostId(place), Wanted(origin, first, min(last, first + GIVEN_MAX - 1)))


@dataclass(slots=True)
class RecoveryJob:
    """One attempt to get messages *first* to *last*."""

    origin: Origin
    first: int
    last: int
    places: Places
    began_ns: int
    within_ns: int
    attempts: int
    """How often each place is asked."""
    preferred: list[HostId] = field(default_factory=list)
    is_ahead: bool = False
    """Whether each place is asked for what is missing up to the next message that is here. *Without it:* a
    member comes back and lacks the messages of a thousand records that were ordered by their numbers; it asks
    for each when its turn comes, and is never done while the stream flows."""
    recovered: list[Message] = field(default_factory=list)
    reasons: dict[str, str] = field(default_factory=dict)
    """Why each place did not give everything."""
    _order: list[str] = field(default_factory=list)
    _round: int = 0
    _asked: str = ""
    _asked_ns: int = 0
    _is_answered: bool = False

    def missing(self) -> list[tuple[int, int]]:
        held = self.places.holding.life(self.origin)
        return held.missing(self.first, self.last) if held is not None else [(self.first, self.last)]

    def on_given(self, place: str, messages: Sequence[Message]) -> None:
        """*place* has answered with these, which are held by now."""
        for each in messages:
            size = sum(len(one.payload) for one in self.recovered)
            if self.first <= each.number <= self.last and len(self.recovered) < RECOVERED_MAX:
                self.recovered += [each] if size + len(each.payload) <= SHOWN_BYTES_MAX else []
        if place == self._asked:
            self._is_answered = True
            if any(self.first <= each.number <= self.last for each in messages):
                self._order.insert(0, place)  # there may be more where this came from
            else:
                self.reasons[place] = NOT_STORED

    def on_unavailable(self, place: str, reason: str) -> None:
        self.reasons[place] = reason
        if place == self._asked:
            self._is_answered = True

    def step(self, now: int) -> Progress:
        """Do what is due."""
        missing = self.missing()
        if not missing:
            return Progress.DONE
        if now - self.began_ns >= self.within_ns:
            if self._asked and not self._is_answered:
                self.reasons.setdefault(self._asked, TIMEOUT)
            return Progress.FAILED
        if self._asked and not self._is_answered:
            if now < self._asked_ns + self._wait_ns():
                return Progress.RUNNING
            self.reasons[self._asked] = TIMEOUT if self._is_there(self._asked) else PEER_GONE
        return self._ask_next(missing[0], now)

    def due_ns(self) -> int:
        return min(self.began_ns + self.within_ns, self._asked_ns + self._wait_ns())

    @property
    def why(self) -> str:
        """Why it failed, for the application."""
        if not self.reasons:
            return TIMEOUT
        return ", ".join(f"{reason} ({place})" for place, reason in sorted(self.reasons.items()))

    def _ask_next(self, span: tuple[int, int], now: int) -> Progress:
        while True:
            if not self._order:
                if self._round == self.attempts:
                    return Progress.FAILED
                self._round += 1
                self._order = self.places.all(self.preferred)
                if not self._order:
                    self.reasons.setdefault("nobody", PEER_GONE)
                    return Progress.FAILED
            place = self._order.pop(0)
            if self.places.ask(place, self.origin, span[0], self._up_to(span[1])):
                self._asked, self._asked_ns, self._is_answered = place, now, False
                held = self.places.holding.life(self.origin)
                if held is not None:
                    held.figures.asked += 1
                return Progress.RUNNING
            self.reasons[place] = REFUSED

    def _up_to(self, last: int) -> int:
        held = self.places.holding.life(self.origin) if self.is_ahead else None
        after = held.next_after(last) if held is not None else None
        return min(after - 1, last + GIVEN_MAX) if after is not None else last

    def _wait_ns(self) -> int:
        return (self.places.settings.retry_ms * MILLISECOND) << max(0, self._round - 1)

    def _is_there(self, place: str) -> bool:
        return place.startswith("@") or any(each.host == place for each in self.places.peers.heard())
