"""A slow operation between its start and its end (E15).

A method that is marked with :func:`holdfast.execution.interface.slow` computes for so long that it must not
keep the host's loop. Its call is ordered, and from there on the operation has started: nothing else of the
group runs. A record, `Ran`, says where it takes effect. What it does to the object, its timers and its outbox
happens there, on every member and in every replay, whenever it was computed.

The primary computes it first, beside the loop, and orders `Ran` when it is done. Other members compute it
when they reach that record: a call that crashes its process never runs on all members at once (E4).
"""

from collections.abc import Callable
from typing import Any

from holdfast.execution.context import Scope, scope_now
from holdfast.execution.effects import Job
from holdfast.execution.method import Encode, all_awaited, call
from holdfast.model.calls import Request


class SlowRun:
    """One slow operation that has started and has not taken effect."""

    __slots__ = ("_work", "is_ahead", "is_begun", "is_ordered", "job", "outcome")

    def __init__(self, job: Job, work: Callable[[], bytes]) -> None:
        self.job = job
        self._work = work
        self.is_begun = False
        """Whether it is being computed here, or was: the object is changed, and only `Ran` makes that
        right."""
        self.is_ahead = False
        """Whether that began before it was known that it takes effect: as only a primary may."""
        self.is_ordered = False
        """Whether this primary has ordered its end."""
        self.outcome: bytes | None = None
        """What it came to; None until it has been computed."""

    @property
    def request(self) -> Request:
        return self.job.request

    def begin(self, *, is_ahead: bool) -> Callable[[], bytes]:
        """Return what computes it: to be called once, on any thread."""
        self.is_begun, self.is_ahead = True, is_ahead
        return self._work

    def take(self) -> bytes:
        """What it came to; computes it now where nobody did."""
        if self.outcome is None:
            self.outcome = self.begin(is_ahead=False)()
        return self.outcome


def computed(
    method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], encode: Encode, scope: Scope
) -> bytes:
    """Run a slow method, on whatever thread, and return its outcome."""
    token = scope_now.set(scope)
    try:
        return all_awaited(call(method, args, kwargs, encode), scope)
    finally:
        scope_now.reset(token)
