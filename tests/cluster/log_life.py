"""One life of a process that appends to the real log (``log_writer.py``), and what it promised."""

import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from faults.signals import Victim
from log_verify import Promises

WORDS_TIMEOUT_S = 120.0
WRITER = Path(__file__).with_name("log_writer.py")


class LogLife:
    """Runs the writer on *directory*; when it has ended, its output is in *promises*."""

    def __init__(
        self, directory: Path, promises: Promises, *options: str, env: Mapping[str, str] | None = None
    ) -> None:
        self._promises = promises
        command = [sys.executable, str(WRITER), str(directory), str(promises.seed), *options]
        self.victim = Victim(command, env=env)

    def __enter__(self) -> "LogLife":
        self.victim.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.victim.kill()
        before = dict(self._promises.acknowledged)
        self._promises.read("".join(f"{line}\n" for line in self.victim.lines).encode())
        # A position was acknowledged in an earlier life and again now: the log had lost it and assigned it
        # again.
        again = [place for place, serial in before.items() if self._promises.acknowledged[place] != serial]
        assert not again, f"acknowledged twice: {again[:5]}"

    @property
    def last_words(self) -> str:
        """Return ``stopped CODE`` of a writer that ended itself."""
        return self.victim.lines[-1] if self.victim.lines else ""
