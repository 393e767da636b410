"""The client of a domain's authority, wherever that is: it follows the domain from place to place (A8).

Every request goes out under the seat that was seen last. An authority that refuses it because its seat has
changed has not carried it out, so the request is held, the one that serves is found, and the request is sent
there. What is held too long ends as ``Unknown``, as if the authority were away; a request whose outcome is in
doubt is never sent again (A1).

A move whose mover shows no life for a while is given up by whichever process notices, so that no domain stays
between two authorities because somebody's terminal was closed.
"""

from collections.abc import Callable, Generator, Hashable
from dataclasses import dataclass
from typing import Any, Final

from msgspec import Struct

from holdfast.authority.contract import (
    Elsewhere,
    LeaseGone,
    LeaseGranted,
    LeaseKeep,
    LeaseRevoke,
    Plain,
    Request,
    Result,
    Under,
    Unknown,
    plain,
)
from holdfast.authority.move.finding import Serving, Undecided, find_serving, give_up
from holdfast.authority.move.place import Place
from holdfast.authority.move.revisions import Translation
from holdfast.authority.move.seat import NEVER_MOVED, At, SeenSeat
from holdfast.model.errors import Overloaded
from holdfast.model.ids import MILLISECOND, SECOND, LeaseId, Nonce, Revision
from holdfast.model.ports import Clock, Timers, Trace
from holdfast.model.validation import Problem, below

REQUESTS_MAX: Final = 16_384
"""The most requests that may be unanswered at once."""
HOLD_NS_MAX: Final = 2 * SECOND
"""A third of what a host's session lasts."""
_FIND: Final = "find"
_HELD: Final = "held"


class FollowerConfig(Struct, frozen=True, kw_only=True):
    """The waiting times of a follower."""

    hold_ns: int = 2 * SECOND
    """A request is held this long while a move is under way. Keep it below a third of the shortest lease."""
    find_ns: int = 200 * MILLISECOND
    """The time between two looks at a move that is under way."""
    give_up_ns: int = 5 * SECOND
    """A move is given up when its mover has shown no life for so long. It shows some with every part that it
    copies; longer pauses are a list of all keys, or one request without an answer."""

    def validate(self) -> list[Problem]:
        problems = below(self, 1, self.__struct_fields__)
        if self.hold_ns > HOLD_NS_MAX:
            problems.append(("hold_ns", "must be at most 2 s, a third of a host's session"))
        return problems


@dataclass(slots=True)
class _Pending:
    request: Plain
    token: Hashable
    deadline: int
    sent: tuple[Place, Revision] | None = None
    """Where, and under which seat."""
    translation: Translation | None = None


class Follower:
    """An ``AuthorityPort``. It calls *on_authority* with each result, and *on_moved* when watches must begin
    anew. *ask* sends a request to a place; :meth:`on_result` takes the result."""

    def __init__(
        self,
        start: Place,
        *,
        clock: Clock,
        timers: Callable[[Callable[[Hashable], None]], Timers],
        trace: Trace,
        nonces: Callable[[], Nonce],
        ask: Callable[[Place, Request, Hashable], None],
        on_authority: Callable[[Hashable, Result], None],
        on_moved: Callable[[SeenSeat], None],
        config: FollowerConfig | None = None,
    ) -> None:
        self._clock = clock
        self._timers = timers(self.on_timer)
        self._trace = trace
        self._nonces = nonces
        self._ask = ask
        self._on_authority = on_authority
        self._on_moved = on_moved
        self._config = config or FollowerConfig()
        self.seen = SeenSeat(start, NEVER_MOVED, Revision(0))
        """The authority that served when it was last asked."""
        self.translation = Translation()
        self._number = 0
        self._sent: dict[int, _Pending] = {}
        self._held: list[_Pending] = []
        self._finding: tuple[int, Generator[At, Result, Any], Callable[[Any], None]] | None = None
        self._is_waiting = False
        self._stuck_at: tuple[str, Revision, Revision] | None = None
        self._stuck_since = 0
        self._is_held_timer_set = False

    # --- requests of a core

    def request(self, request: Request, token: Hashable) -> None:
        """Send *request*; ``on_authority(token, result)`` follows exactly once."""
        if len(self._sent) + len(self._held) >= REQUESTS_MAX:
            raise Overloaded(f"{REQUESTS_MAX} requests to the authority are unanswered")
        deadline = self._clock.now() + self._config.hold_ns
        self._send(_Pending(plain(request)[1], token, deadline))

    def look_again(self) -> None:
        """Find out where the domain is, though no request was refused."""
        self._find()

    # --- events

    def on_result(self, token: Hashable, result: Result) -> None:
        if isinstance(token, int) and token in self._sent:
            self._on_answer(self._sent.pop(token), result)
        elif self._finding is not None and token == (_FIND, self._finding[0]):
            self._step(result)

    def on_timer(self, tag: Hashable) -> None:
        if tag == _FIND:
            self._is_waiting = False
            self._find()
        else:
            self._is_held_timer_set = False
            self._let_go_overdue()

    # --- one request

    def _send(self, pending: _Pending) -> None:
        request = pending.request
        if isinstance(request, LeaseKeep | LeaseRevoke) and request.lease not in self.translation.leases:
            # It was granted at an authority that has been left, and nothing continues it here.
            self._on_authority(pending.token, LeaseGone(request.lease))
            return
        self._number += 1
        pending.sent = (self.seen.place, self.seen.revision)
        pending.translation = self.translation
        self._sent[self._number] = pending
        asked = Under(self.seen.revision, self.translation.request(request))
        self._ask(self.seen.place, asked, self._number)

    def _on_answer(self, pending: _Pending, result: Result) -> None:
        is_current = pending.sent == (self.seen.place, self.seen.revision)
        if isinstance(result, Elsewhere):
            if is_current:
                self._held.append(pending)
                self._set_held_timer(pending.deadline)
                self._find()
            else:
                self._send(pending)
            return
        assert pending.translation is not None
        translated = pending.translation.result(result)
        if isinstance(translated, LeaseGranted) and is_current:
            self._hold_lease(translated.lease)
        self._on_authority(pending.token, translated)

    def _hold_lease(self, lease: LeaseId) -> None:
        if lease not in self.translation.leases:
            self._keep_leases({**self.translation.leases, lease: lease})

    def _keep_leases(self, leases: dict[LeaseId, LeaseId]) -> None:
        now = self.translation
        self.translation = Translation(now.offset, now.base, now.table, leases)

    def _set_held_timer(self, deadline: int) -> None:
        if not self._is_held_timer_set:
            self._is_held_timer_set = True
            self._timers.set(max(0, deadline - self._clock.now()), _HELD)

    def _let_go_overdue(self) -> None:
        now = self._clock.now()
        overdue = [each for each in self._held if each.deadline <= now]
        self._held = [each for each in self._held if each.deadline > now]
        if self._held:
            self._set_held_timer(min(each.deadline for each in self._held))
        for pending in overdue:
            self._on_authority(pending.token, Unknown("the authority is being moved"))

    # --- where the domain is

    def _find(self) -> None:
        if self._finding is None and not self._is_waiting:
            self._run(find_serving(self.seen.place), self._on_found)

    def _on_found(self, found: object) -> None:
        if isinstance(found, Serving):
            self._follow(found)
        elif isinstance(found, Undecided) and self._is_stuck(found):
            self._trace.note("authority_move_given_up", move=found.source.seat.move)
            self._stuck_at = None
            self._run(give_up(found, nonce=self._nonces()), lambda _: self._find_later())
        else:
            self._find_later()

    def _is_stuck(self, found: Undecided) -> bool:
        now = self._clock.now()
        standing = (found.source.seat.move, found.source.revision, found.target.revision)
        if standing != self._stuck_at:
            self._stuck_at, self._stuck_since = standing, now
        return now - self._stuck_since >= self._config.give_up_ns

    def _follow(self, found: Serving) -> None:
        before, self.seen = self.seen, found.seen
        self._stuck_at = None
        if found.seen != before:
            leases = self.translation.leases
            if found.seen.seat.stay != before.seat.stay:
                self._trace.note("authority_moved", place=str(found.seen.place), stay=found.seen.seat.stay)
                leases = self._continued(found) if found.seen.seat.stay == before.seat.stay + 1 else {}
            seat = found.seen.seat
            self.translation = Translation(seat.offset, seat.base, found.table, leases)
            self._on_moved(found.seen)
        held, self._held = self._held, []
        for pending in held:
            self._send(pending)

    def _continued(self, found: Serving) -> dict[LeaseId, LeaseId]:
        """The leases of this process that the move to the very next stay took along."""
        held = self.translation.leases
        return {known: found.leases[there] for known, there in held.items() if there in found.leases}

    def _find_later(self) -> None:
        self._is_waiting = True
        self._timers.set(self._config.find_ns, _FIND)

    # --- recipes

    def _run(self, recipe: Generator[At, Result, Any], then: Callable[[Any], None]) -> None:
        self._number += 1
        self._finding = (self._number, recipe, then)
        self._step(None)

    def _step(self, result: Result | None) -> None:
        assert self._finding is not None
        _, recipe, then = self._finding
        try:
            asked = next(recipe) if result is None else recipe.send(result)
        except StopIteration as done:
            self._finding = None
            then(done.value)
            return
        self._number += 1
        self._finding = (self._number, recipe, then)
        self._ask(asked.place, asked.request, (_FIND, self._number))
