"""Counts what Python does in the processes of a domain: calls of functions, encodings, checksums.

Counts are what load cannot disturb: a busy machine makes a call slower, and no longer. A counted process has
a profiler in every thread, which adds to numbers in a file that the counting process maps as well, so that it
reads them at any moment and asks the counted process for nothing. The processes of a domain are started by
its agent; :func:`counted` has each of them begin to count as its interpreter starts.
"""

import mmap
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

DIRECTORY: Final = "HOLDFAST_CALL_COUNTS"
"""The environment variable that says where a process keeps its counts."""
PYTHON: Final = "Python calls"
BUILTINS: Final = "builtin calls"
KINDS: Final = (PYTHON, BUILTINS, "encodes", "decodes", "checksums")
_KIND_OF_BUILTIN: Final = {"encode": 2, "encode_into": 2, "decode": 3, "crc32": 4}
_BYTES: Final = 8 * len(KINDS)
_HARNESS: Final = str(Path(__file__).parent)

Counts = dict[str, int]


@contextmanager
def counted(directory: Path) -> Iterator[None]:
    """Count in this process, and in all that are started meanwhile; the counts are kept in *directory*."""
    (directory / "sitecustomize.py").write_text(f"from {__name__} import begin\nbegin()\n")
    before = {name: os.environ.get(name) for name in (DIRECTORY, "PYTHONPATH")}
    path = before["PYTHONPATH"]
    os.environ[DIRECTORY] = str(directory)
    os.environ["PYTHONPATH"] = f"{directory}{os.pathsep}{path}" if path else str(directory)
    try:
        begin()
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def begin() -> None:
    """Count in this process from now on, in this thread and in those that it starts."""
    path = Path(os.environ[DIRECTORY]) / str(os.getpid())
    path.write_bytes(bytes(_BYTES))
    with path.open("r+b") as file:
        counts = memoryview(mmap.mmap(file.fileno(), _BYTES)).cast("Q")

    def on_event(frame: FrameType, event: str, what: object) -> None:
        if event == "call":
            if not frame.f_code.co_filename.startswith(_HARNESS):
                counts[0] += 1
        elif event == "c_call":
            counts[1] += 1
            kind = _KIND_OF_BUILTIN.get(getattr(what, "__name__", ""))
            if kind is not None:
                counts[kind] += 1

    threading.setprofile(on_event)
    sys.setprofile(on_event)


def read_counts(directory: Path, pid: int) -> Counts:
    """What the process has counted so far."""
    kept = memoryview((directory / str(pid)).read_bytes()).cast("Q")
    return dict(zip(KINDS, kept, strict=True))
