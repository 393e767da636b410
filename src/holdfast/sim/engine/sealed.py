"""Sealed mode: while a simulation runs, any access to the real world raises an error.

It catches the machine's clocks, sleep, module-level randomness, new threads, sockets, files and subprocesses,
also where a module of Holdfast imported the function by name. It cannot catch ``datetime.now``, ``Random()``
without a seed, ``hash`` and ``id``. The lint of the core packages and the comparison of two processes with
different hash seeds cover those.
"""

import os
import random
import secrets
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, ModuleType
from typing import Any, Final

from holdfast.model.errors import EndsProcess

FORBIDDEN: Final[tuple[tuple[Any, tuple[str, ...]], ...]] = (
    (
        time,
        (
            "time",
            "time_ns",
            "monotonic",
            "monotonic_ns",
            "perf_counter",
            "perf_counter_ns",
            "clock_gettime",
            "clock_gettime_ns",
            "sleep",
        ),
    ),
    (os, ("urandom", "getrandom")),
    (random, ("_urandom", *(name for name in random.__all__ if name[0].islower()))),
    (secrets, ("token_bytes", "token_hex", "token_urlsafe", "randbits", "randbelow", "choice")),
    (uuid, ("uuid1", "uuid4")),
    (threading.Thread, ("start",)),
)
FORBIDDEN_EVENTS: Final = ("socket.", "subprocess.", "os.fork", "os.posix_spawn", "os.exec", "os.system")
"""Prefixes of the audit events that are refused. Opening a file is refused too, except to import a module."""
OURS: Final = "holdfast."
OUTSIDE: Final = ("holdfast.sim.runner.runner", "holdfast.sim.engine.sealed", "holdfast.cli")
"""Modules of Holdfast that are not part of any simulation."""


class SealBroken(EndsProcess):
    """Raised when simulated code accesses the real world."""


class _Seal:
    """Knows which thread is sealed now, if any."""

    def __init__(self) -> None:
        self.thread: int | None = None
        self.is_listening = False

    def holds_here(self) -> bool:
        return self.thread is not None and self.thread == threading.get_ident()

    def on_audit(self, event: str, args: tuple[object, ...]) -> None:
        if self.thread is None or not self.holds_here():
            return
        if event.startswith(FORBIDDEN_EVENTS) or (event == "open" and not _is_importing()):
            raise SealBroken(f"{event} {args[:1]}")


_seal = _Seal()


@contextmanager
def sealed() -> Iterator[None]:
    """Seal this thread; other threads are not affected. Seals do not nest."""
    if not _seal.is_listening:
        # An audit hook cannot be removed, so one hook is installed once and ignores unsealed threads.
        sys.addaudithook(_seal.on_audit)
        _seal.is_listening = True
    undo = _replace_all()
    _seal.thread = threading.get_ident()
    try:
        yield
    finally:
        _seal.thread = None
        for owner, name, original in undo:
            setattr(owner, name, original)


def _replace_all() -> list[tuple[Any, str, Any]]:
    undo: list[tuple[Any, str, Any]] = []
    guards: dict[int, Any] = {}
    for owner, names in FORBIDDEN:
        for name in names:
            original = vars(owner)[name]
            guard = _guard(f"{owner.__name__}.{name}", original)
            # One function may have two names (os.urandom, random._urandom); either guard will do.
            guards.setdefault(id(original), guard)
            undo.append((owner, name, original))
            setattr(owner, name, guard)
    for module in _our_modules():
        for name, value in list(vars(module).items()):
            if id(value) in guards:
                undo.append((module, name, value))
                setattr(module, name, guards[id(value)])
    return undo


def _our_modules() -> list[ModuleType]:
    return [
        module
        for name, module in list(sys.modules.items())
        if name.startswith(OURS) and not name.startswith(OUTSIDE)
    ]


def _guard(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    def guarded(*args: Any, **kwargs: Any) -> Any:
        if _seal.holds_here():
            raise SealBroken(name)
        return original(*args, **kwargs)

    return guarded


def _is_importing() -> bool:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not frame.f_code.co_filename.startswith("<frozen importlib"):
        frame = frame.f_back
    return frame is not None
