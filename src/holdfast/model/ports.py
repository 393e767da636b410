"""Ports: the interfaces through which a core uses the outside world.

A core is built on ports and driven by events; it runs each event to its end and never waits. Production binds
the ports to the machine, the simulator binds them to a seed, and nothing else differs. Callbacks are bound
when a port is created: the code that builds a core gives its timers the core's ``on_timer``, its network the
core's ``on_message``, its disk the core's ``on_synced``. A port belongs to one incarnation of one node and
does nothing after that node has ended.
"""

import random
from collections.abc import Callable, Hashable
from typing import NewType, Protocol

TimerId = NewType("TimerId", int)
Token = Hashable
"""What a core passes to a port to recognise the answer."""


class Clock(Protocol):
    """The time, as this node sees it."""

    def now(self) -> int:
        """Local nanoseconds: monotonic, counting suspended time; the rate may be wrong."""
        ...

    def wall(self) -> int:
        """Nanoseconds since the Unix epoch; may jump either way."""
        ...


class Timers(Protocol):
    """One-shot timers. Each calls ``on_timer(tag)`` once, unless cancelled first; it may be late and, on a
    real machine, up to a millisecond and a half early. A core that finds that it is not time yet sets
    another."""

    def set(self, delay_ns: int, tag: Hashable) -> TimerId: ...

    def cancel(self, timer: TimerId) -> None:
        """Make sure that the timer does not fire. Cancelling a timer that has fired does nothing."""
        ...


class Network(Protocol):
    """Sends messages to peers, which may be lost, repeated, delayed or reordered; calls ``on_message(peer,
    message)`` for those received."""

    def send(self, peer: str, message: object) -> None: ...


class Disk(Protocol):
    """One directory of a disk. Nothing is durable until a sync that covers it reports ok.

    Names are plain file names. ``allocate``, ``append`` and ``write_at`` raise ``NoSpace`` when the disk is
    full; a failure that the disk notices only later makes the next sync of that file report ``ok=False``.
    ``on_synced(token, ok)`` follows every ``sync`` and ``sync_dir``, and ``then(ok)`` every
    ``write_durably``, in the order of the calls for each file. After ``ok=False`` the content of that file is
    unknown, and the owner must stop (D1).
    """

    def list(self) -> list[str]:
        """The names of the files, sorted."""
        ...

    def size(self, name: str) -> int: ...

    def read(self, name: str, offset: int, length: int) -> bytes:
        """At most *length* bytes, fewer at the end of the file. Raises ``DiskFailed``."""
        ...

    def allocate(self, name: str, size: int) -> None:
        """Create *name* with *size* reserved zero bytes; durable once it and the directory are synced."""
        ...

    def append(self, name: str, data: bytes) -> None:
        """Write at the end of *name*, creating it when absent."""
        ...

    def write_at(self, name: str, offset: int, data: bytes) -> None: ...

    def write_durably(self, name: str, offset: int, data: bytes, then: Callable[[bool], None]) -> None:
        """Write within *name* and sync it, in order: no byte reaches the disk before every earlier
        ``write_durably`` is durable, and none does once one of them has failed. Reads see the data at
        once. Then call *then*, which must not raise."""
        ...

    def truncate(self, name: str, size: int) -> None: ...

    def rename(self, old: str, new: str) -> None:
        """Rename atomically, replacing *new*. Durable after ``sync_dir``."""
        ...

    def remove(self, name: str) -> None: ...

    def sync(self, name: str, token: Token) -> None:
        """Make everything durable that was written to *name* before this call (not what is written while it
        runs)."""
        ...

    def sync_dir(self, token: Token) -> None:
        """Make every create, rename and remove before this call durable."""
        ...


class Random(Protocol):
    """Named, seeded random streams: what one core draws does not affect what another draws."""

    def stream(self, name: str) -> random.Random: ...


class Trace(Protocol):
    """Feeds the trace hash, the structured log and the metrics. Trace a batch, not its items."""

    def note(self, kind: str, **fields: object) -> None: ...


class Fault(Protocol):
    """Points where the simulator may make a core take its rare path; always False elsewhere."""

    def maybe(self, point: str) -> bool: ...


class NoFault:
    """The Fault port of production, which injects nothing."""

    def maybe(self, point: str) -> bool:
        return False


class NoTrace:
    """A Trace port that records nothing."""

    def note(self, kind: str, **fields: object) -> None:
        return None
