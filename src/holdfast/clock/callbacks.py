"""Who is told when a CSN is assigned, committed or aborted (CSN-46..49)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from holdfast.model.csn import Csn
from holdfast.model.ports import Trace

CsnCallback = Callable[[Csn, Any], None]
"""Called with the CSN and the argument given at registration."""


@dataclass(frozen=True, slots=True, eq=False)
class Registration:
    """One registrant; also the handle by which it is unregistered."""

    assigned: CsnCallback | None
    committed: CsnCallback | None
    aborted: CsnCallback | None
    argument: object


class Callbacks:
    """The registrants, in order. A failing one is reported and disturbs neither generation nor the others."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        # Replaced as a whole, never changed in place: another thread may be calling its way through one.
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
        """From now on *registration* is not called; unregistering twice does nothing."""
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
