"""Ports: everything a core may ask of the outside world.

A core is built on ports and driven by events; it runs each event to its end and never waits.
Production binds the ports to the machine, the simulator binds them to a seed, and nothing else differs.
Call-backs are bound when a port is made: whoever builds a core gives its timers the core's
``on_timer``, its network the core's ``on_message``, its disk the core's ``on_synced``.
A port belongs to one incarnation of one node: after that node has ended, it does nothing.
"""

import random
from collections.abc import Hashable
from typing import NewType, Protocol

TimerId = NewType("TimerId", int)
Token = Hashable
"""What a core hands to a port to recognise the answer."""


class Clock(Protocol):
    """Time, as this node believes it to be."""

    def now(self) -> int:
        """Local nanoseconds: monotonic, counting suspended time, possibly skewed in rate."""
        ...

    def wall(self) -> int:
        """Nanoseconds since the Unix epoch; may jump either way."""
        ...


class Timers(Protocol):
    """One-shot timers; each calls ``on_timer(tag)`` once, unless cancelled first: perhaps late, and on a real
    machine perhaps a millisecond and a half early. Who finds that it is not time yet sets another."""

    def set(self, delay_ns: int, tag: Hashable) -> TimerId: ...

    def cancel(self, timer: TimerId) -> None:
        """Make sure the timer does not fire. Cancelling one that has fired does nothing."""
        ...


class Network(Protocol):
    """Messages to peers: may be lost, repeated, delayed, reordered; ``on_message(peer, message)``."""

    def send(self, peer: str, message: object) -> None: ...


class Disk(Protocol):
    """One directory of a disk. Nothing is durable until a sync that covers it answers ok.

    Names are plain file names. ``allocate``, ``append`` and ``write_at`` raise ``NoSpace`` when full; any
    failure the disk notices only later makes the next sync of that file answer ``ok=False``.
    ``on_synced(token, ok)`` follows every ``sync``, ``sync_dir`` and ``write_durably``, in the order of the
    calls for each file. After ``ok=False`` nothing is known of what that file holds, and the owner must stop
    (D1).
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

    def write_durably(self, name: str, offset: int, data: bytes, token: Token) -> None:
        """Write within *name* and sync it, in turn: not a byte reaches the disk before every earlier
        ``write_durably`` is durable, and none does once one of them has failed. Reads see it at once."""
        ...

    def truncate(self, name: str, size: int) -> None: ...

    def rename(self, old: str, new: str) -> None:
        """Atomic; replaces *new*. Durable after ``sync_dir``."""
        ...

    def remove(self, name: str) -> None: ...

    def sync(self, name: str, token: Token) -> None:
        """Cover everything written to *name* before this call (not what is written while it runs)."""
        ...

    def sync_dir(self, token: Token) -> None:
        """Cover every create, rename and remove before this call."""
        ...


class Random(Protocol):
    """Named seeded streams: what one core draws does not shift what another draws."""

    def stream(self, name: str) -> random.Random: ...


class Trace(Protocol):
    """Feeds the trace hash, the structured log and the metrics. Trace a batch, not its items."""

    def note(self, kind: str, **fields: object) -> None: ...


class Fault(Protocol):
    """Places where the simulator may make a core take its rare path; constantly False elsewhere."""

    def maybe(self, point: str) -> bool: ...


class NoFault:
    """The Fault port of production."""

    def maybe(self, point: str) -> bool:
        return False


class NoTrace:
    """A Trace port that keeps nothing."""

    def note(self, kind: str, **fields: object) -> None:
        return None
