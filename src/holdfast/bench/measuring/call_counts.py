"""Counts what Python does in the processes of a domain: calls of functions, encodings, checksums.

Counts are what load hardly disturbs: a busy machine makes a call slower, and no longer. A counted process has
a profiler in every thread, and one more thread that adds up what they counted whenever the counting process
asks for it, in a file that both map. The processes of a domain are started by its agent; :func:`counted` has
each of them begin to count as its interpreter starts.

The profiler is the interpreter's own, in C. *With one in Python* calls are so slow that what a host does by
the clock while they are made falls on few of them: 0.57 sweeps were counted for each call of one caller. On
a busy machine something of that is left.
"""

import cProfile
import mmap
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType
from typing import Final

from holdfast.model.errors import Unavailable

DIRECTORY: Final = "HOLDFAST_CALL_COUNTS"
"""The environment variable that says where a process keeps its counts."""
PYTHON: Final = "Python calls"
BUILTINS: Final = "builtin calls"
KINDS: Final = (PYTHON, BUILTINS, "encodes", "decodes", "checksums")
_KIND_OF_BUILTIN: Final = {"encode": 2, "encode_into": 2, "decode": 3, "crc32": 4}
_ASKED, _TOLD = len(KINDS), len(KINDS) + 1
"""Where the file says how often the counts were asked for, and told."""
_BYTES: Final = 8 * (len(KINDS) + 2)
_HARNESS: Final = str(Path(__file__).parent)
_LOOK_S: Final = 0.01
_ANSWER_S: Final = 30.0

Counts = dict[str, int]


@contextmanager
def counted(directory: Path) -> Iterator[None]:
    """Count in this process, and in all that are started meanwhile; the counts are kept in *directory*."""
    (directory / "sitecustomize.py").write_text(f"from {__name__} import begin\nbegin()\n")
    before = {name: os.environ.get(name) for name in (DIRECTORY, "PYTHONPATH")}
    path = before["PYTHONPATH"]
    os.environ[DIRECTORY] = str(directory)
    os.environ["PYTHONPATH"] = f"{directory}{os.pathsep}{path}" if path else str(directory)
    ending = begin()
    try:
        yield
    finally:
        ending.set()
        sys.setprofile(None)
        threading.setprofile(None)
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def begin() -> threading.Event:
    """Count in this process, in this thread and in those that it starts, until the event is set."""
    path = Path(os.environ[DIRECTORY]) / str(os.getpid())
    path.write_bytes(bytes(_BYTES))
    shared, ending = _mapped(path), threading.Event()
    profilers: list[cProfile.Profile] = []

    def profile(*_: object) -> None:
        """The first event of a thread: from here on the profiler in C has its place."""
        profilers.append(cProfile.Profile(subcalls=False))
        profilers[-1].enable()

    def tell() -> None:
        while not ending.wait(_LOOK_S):
            if shared[_TOLD] != shared[_ASKED]:
                asked = shared[_ASKED]
                shared[: len(KINDS)] = memoryview(_sums(profilers)).cast("Q")
                shared[_TOLD] = asked

    threading.Thread(target=tell, name="call counts", daemon=True).start()
    threading.setprofile(profile)
    profile()
    return ending


def _sums(profilers: list[cProfile.Profile]) -> bytes:
    counts = [0] * len(KINDS)
    for entry in (each for profiler in list(profilers) for each in profiler.getstats()):
        code = entry.code
        if isinstance(code, CodeType):
            if not code.co_filename.startswith(_HARNESS):
                counts[0] += entry.callcount
            continue
        counts[1] += entry.callcount
        # "<built-in method zlib.crc32>" or "<method 'encode' of 'msgspec.msgpack.Encoder' objects>"
        name = code.split("'")[1] if "'" in code else code.strip("<>").split(" ")[-1].rpartition(".")[2]
        kind = _KIND_OF_BUILTIN.get(name)
        if kind is not None:
            counts[kind] += entry.callcount
    return b"".join(count.to_bytes(8, sys.byteorder) for count in counts)


def _mapped(path: Path) -> memoryview:
    with path.open("r+b") as file:
        return memoryview(mmap.mmap(file.fileno(), _BYTES)).cast("Q")


def read_counts(directory: Path, pid: int) -> Counts:
    """What the process has counted so far. Raises ``Unavailable`` if it does not say."""
    shared = _mapped(directory / str(pid))
    shared[_ASKED] += 1
    until = time.monotonic() + _ANSWER_S
    while shared[_TOLD] != shared[_ASKED]:
        if time.monotonic() > until:
            raise Unavailable(f"process {pid} does not say what it has counted")
        time.sleep(_LOOK_S)
    return dict(zip(KINDS, shared[: len(KINDS)].tolist(), strict=True))
