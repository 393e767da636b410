"""The trace of a run: every note in order, as one running hash and, on demand, as readable lines."""

from collections.abc import Callable
from hashlib import blake2b
from typing import TYPE_CHECKING, Final
from zlib import crc32

if TYPE_CHECKING:
    from holdfast.sim.engine.node import Life


LINES_PER_UPDATE: Final = 512
"""Lines are hashed in batches: one call of the hash per line would cost more than the line."""
TEXT_MAX: Final = 2000
"""A description of a message longer than this is cut, and its checksum is added."""


class Trace:
    """The Trace port of a whole world. Equal hashes mean equal runs."""

    __slots__ = ("_digest", "_lines", "_now", "kept")

    def __init__(self, now: Callable[[], int], *, keep: bool = False) -> None:
        self._now = now
        self._digest = blake2b(digest_size=16)
        self._lines: list[str] = []
        self.kept: list[str] | None = [] if keep else None

    def note(self, kind: str, **fields: object) -> None:
        self.add(f"{self._now()} {kind} {fields}")

    def add(self, line: str) -> None:
        """Add one finished line. It must not depend on memory addresses or on the order of a set."""
        lines = self._lines
        lines.append(line)
        if len(lines) >= LINES_PER_UPDATE:
            self._flush()

    def hash(self) -> str:
        """The hash over all lines so far."""
        self._flush()
        return self._digest.hexdigest()

    def _flush(self) -> None:
        if self._lines:
            if self.kept is not None:
                self.kept.extend(self._lines)
            self._digest.update(("\n".join(self._lines) + "\n").encode())
            self._lines.clear()


class NodeTrace:
    """The Trace port of one process."""

    __slots__ = ("_life", "_name", "_now", "_trace")

    def __init__(self, trace: Trace, name: str, now: Callable[[], int], life: "Life") -> None:
        self._trace = trace
        self._name = name
        self._now = now
        self._life = life

    def note(self, kind: str, **fields: object) -> None:
        if not self._life.over:
            self._trace.add(f"{self._now()} {self._name} {kind} {fields}")


def describe(message: object) -> str:
    """Return *message* as the trace shows it: a bulky message is shown by its length and checksum."""
    if isinstance(message, bytes):
        return f"{len(message)} bytes {crc32(message):08x}"
    text = repr(message)
    if len(text) <= TEXT_MAX:
        return text
    return f"{text[:200]}… {len(text)} characters {crc32(text.encode()):08x}"
