"""Tracks each CSN from its assignment until it is committed or aborted, exactly once (CSN-46..50).

:class:`Callbacks` tells registered listeners when a CSN is assigned, committed or aborted (CSN-46..49).
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from holdfast.model.csn import Csn
from holdfast.model.errors import InvalidRequest, Overloaded
from holdfast.model.ports import Trace

CsnCallback = Callable[[Csn, Any], None]
"""Called with the CSN and the argument given at registration."""


@dataclass(frozen=True, slots=True, eq=False)
class Registration:
    """One set of registered callbacks; also the handle with which to unregister them."""

    assigned: CsnCallback | None
    committed: CsnCallback | None
    aborted: CsnCallback | None
    argument: object


class Callbacks:
    """The registered callbacks, in order. If one fails, the failure is reported; generation and the other
    callbacks go on."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        # Replaced as a whole, never changed in place, because another thread may be iterating over a tuple.
        self._registered: tuple[Registration, ...] = ()
        self.assigned: tuple[tuple[CsnCallback, object], ...] = ()
        self.committed: tuple[tuple[CsnCallback, object], ...] = ()
        self.aborted: tuple[tuple[CsnCallback, object], ...] = ()
        self.failures = 0

    def register(
        self,
        assigned: CsnCallback | None = None,
        committed: CsnCallback | None = None,
        aborted: CsnCallback | None = None,
        *,
        argument: object = None,
    ) -> Registration:
        registration = Registration(assigned, committed, aborted, argument)
        self._replace((*self._registered, registration))
        return registration

    def unregister(self, registration: Registration) -> None:
        """Stop calling *registration*; unregistering twice does nothing."""
        self._replace(tuple(kept for kept in self._registered if kept is not registration))

    def call(self, callbacks: tuple[tuple[CsnCallback, object], ...], csn: Csn) -> None:
        for callback, argument in callbacks:
            try:
                callback(csn, argument)
            except Exception as error:
                self.failures += 1
                self._trace.note(
                    "csn_callback_failed", csn=csn.text(), error=f"{type(error).__name__}: {error}"
                )

    def _replace(self, registered: tuple[Registration, ...]) -> None:
        self._registered = registered
        self.assigned = tuple((r.assigned, r.argument) for r in registered if r.assigned)
        self.committed = tuple((r.committed, r.argument) for r in registered if r.committed)
        self.aborted = tuple((r.aborted, r.argument) for r in registered if r.aborted)


class Assignments:
    """The CSNs in flight, in order, and the callbacks for them. May be used from any thread.

    Callbacks run outside the lock, so those of two threads may overtake each other; :meth:`oldest_in_flight`
    is correct all the same.
    """

    def __init__(self, trace: Trace, *, lock: AbstractContextManager[object], in_flight_max: int) -> None:
        self._lock = lock
        self._callbacks = Callbacks(trace)
        self._in_flight: dict[Csn, Csn] = {}
        self._in_flight_max = in_flight_max
        self.assigned = self.committed = self.aborted = 0

    @property
    def in_flight(self) -> int:
        return len(self._in_flight)

    @property
    def callback_failures(self) -> int:
        return self._callbacks.failures

    def oldest_in_flight(self) -> Csn | None:
        """The smallest CSN that is assigned and neither committed nor aborted yet."""
        with self._lock:
            return next(iter(self._in_flight), None)

    def add(self, csn: Csn) -> None:
        """Record that *csn* is assigned. The caller holds the lock, and calls :meth:`announce` after
        releasing it."""
        if len(self._in_flight) >= self._in_flight_max:
            raise Overloaded(f"{len(self._in_flight)} CSNs are in flight; none may be added before some end")
        self._in_flight[csn] = csn
        self.assigned += 1

    def note_committed(self, csn: Csn) -> None:
        """Record that *csn* is assigned and committed at once: whoever has it needs no vector."""
        with self._lock:
            self.assigned += 1
            self.committed += 1
        for callbacks in (self._callbacks.assigned, self._callbacks.committed):
            if callbacks:
                self._callbacks.call(callbacks, csn)

    def announce(self, csn: Csn) -> None:
        if self._callbacks.assigned:
            self._callbacks.call(self._callbacks.assigned, csn)

    def commit(self, csn: Csn) -> None:
        """Record that the operation of *csn* is durable. Raises :class:`InvalidRequest` unless *csn* is in
        flight."""
        with self._lock:
            self._end(csn)
            self.committed += 1
        if self._callbacks.committed:
            self._callbacks.call(self._callbacks.committed, csn)

    def abort(self, csn: Csn) -> None:
        """Record that *csn* will never be committed. Raises :class:`InvalidRequest` unless it is in
        flight."""
        with self._lock:
            self._end(csn)
            self.aborted += 1
        if self._callbacks.aborted:
            self._callbacks.call(self._callbacks.aborted, csn)

    def register(
        self,
        assigned: CsnCallback | None = None,
        committed: CsnCallback | None = None,
        aborted: CsnCallback | None = None,
        *,
        argument: object = None,
    ) -> Registration:
        """Call these with (csn, *argument*) whenever a CSN is assigned, committed, aborted.

        A callback that raises is reported to the trace and counted; the CSN is assigned all the same.
        """
        with self._lock:
            return self._callbacks.register(assigned, committed, aborted, argument=argument)

    def unregister(self, registration: Registration) -> None:
        """Stop calling *registration*; unregistering twice does nothing."""
        with self._lock:
            self._callbacks.unregister(registration)

    def _end(self, csn: Csn) -> None:
        if self._in_flight.pop(csn, None) is None:
            raise InvalidRequest(f"CSN {csn} is not in flight: it has ended, or was never assigned here")
