"""Copies of the host's process that write large checkpoints while the host serves on (E5, decision 0007).

A copy is a fork: at that moment it holds every object as it is, and shares its memory with the host until
either changes it. It takes the state, reads each piece back (E9), writes it to a file of its own, syncs it,
says on a pipe what came of it, and ends without running anything of the host's.

What makes a fork of a process with threads and an event loop safe here. The copy has one thread, the one that
forked; it takes no lock another thread may have held: no queue, no log, no loop, no import. It closes what it
inherited, so that it answers nobody and keeps no connection and no port alive. The lock of the store is a
record lock, which forks do not inherit, and the kernel ends a copy with its host (K2). When memory is short
the copy goes first, not the host.

Huge pages for a large heap, so that a copy of the process is made in a millisecond or two.

A fork copies the table of the process's pages while every call waits: 20 ms for 750 MB in pages of 4 kB on
the machine this was measured on, 2 ms in pages of 2 MB (decision 0007). So the kernel is asked to put the
heap into such pages before each copy: what is written while a copy runs falls apart into small pages again,
nearly all of it when calls change the object here and there.

This is done on a thread of its own, page by page. While the kernel moves one, whatever else of the process
touches memory for the first time waits for it: a third of a millisecond where the machine's memory is in use
already, some milliseconds where it is new. Hence the pauses between two pages: without them, on a machine
with little to spare, calls waited hundreds of milliseconds. A kernel that has no huge pages says so, and
copies are made as they can be.
"""

import asyncio
import ctypes
import errno
import gc
import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

import msgspec
import structlog

from holdfast.execution.capture import NoStateAvailable, NotCapturable
from holdfast.groups.ports import Written
from holdfast.machine import MachineClock
from holdfast.machine.process_end import end_with
from holdfast.machine.process_tuning import USUAL_NS, ask_for_slices
from holdfast.model.errors import HoldfastError
from holdfast.model.ids import MILLISECOND
from holdfast.storage.aside_file import AsideFailed, AsideFile
from holdfast.storage.checkpoint import Framing
from holdfast.storage.volume import Freeing, translated
from holdfast.styles.ports import NotCopied, Snapshot

HUGE_BYTES: Final = 2 << 20
HEAP_BYTES_MIN: Final = 128 << 20
"""A smaller process is copied in a few milliseconds as it is."""
PAUSE_S: Final = 0.001
PAUSES: Final = 3.0
"""Between two pages, at least so long, and so many times as long as the last one took; after ``SPREAD_S``
only as long as it took: the log grows while a checkpoint waits."""
SPREAD_S: Final = 20.0
THREAD_NAME: Final = "huge pages"
"""As ``top -H`` shows it."""
_PAGE_BYTES: Final = 4096
_MADV_HUGEPAGE: Final = 14
_MADV_COLLAPSE: Final = 25
_PR_SET_NAME: Final = 15
_libc = ctypes.CDLL(None, use_errno=True)
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]

log = structlog.get_logger("holdfast.copies")


class HugePages:
    """Of this process. Used from one thread, the loop's."""

    def __init__(self, call_soon: Callable[..., object], heap_bytes_min: int = HEAP_BYTES_MIN) -> None:
        """*call_soon* runs what it is given on that thread."""
        self._call_soon = call_soon
        self._heap_bytes_min = heap_bytes_min
        self._is_gathering = False
        self._are_gathered = False

    def are_ready(self) -> bool:
        """Whether a copy may be made now; if not, the heap is being gathered, which this has begun."""
        if self._is_gathering:
            return False
        if self._are_gathered or resident_bytes() < self._heap_bytes_min:
            return True
        self._is_gathering = True
        threading.Thread(target=self._gather, name=THREAD_NAME, daemon=True).start()
        return False

    def copied(self) -> None:
        """A copy was made: from now on every write takes a page apart."""
        self._are_gathered = False

    def _gather(self) -> None:
        _libc.prctl(_PR_SET_NAME, THREAD_NAME.encode())
        began = time.monotonic()
        pages = [at for start, end in heap() for at in range(start, end, HUGE_BYTES)]
        for at in pages:
            asked = time.monotonic()
            if not _collapse(at):
                break
            now = time.monotonic()
            pauses = PAUSES if now < began + SPREAD_S else 1.0
            time.sleep(max(PAUSE_S, pauses * (now - asked)))
        took_ms = round((time.monotonic() - began) * 1000)
        with suppress(RuntimeError):  # the loop has ended meanwhile
            self._call_soon(self._gathered, len(pages), took_ms)

    def _gathered(self, pages: int, took_ms: int) -> None:
        log.info("the heap is in huge pages", pages=pages, took_ms=took_ms)
        self._is_gathering = False
        self._are_gathered = True


def _collapse(at: int) -> bool:
    """Put the memory at *at* into one huge page, as far as it can be had; whether there is such a thing.

    Each for itself: one call for all would hold the map of the memory for seconds.
    """
    if _libc.madvise(at, HUGE_BYTES, _MADV_HUGEPAGE) != 0 and ctypes.get_errno() == errno.EINVAL:
        return False
    _libc.madvise(at, HUGE_BYTES, _MADV_COLLAPSE)
    return True


def resident_bytes() -> int:
    """What this process holds of the machine's memory."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * _PAGE_BYTES


def heap() -> list[tuple[int, int]]:
    """The stretches of private memory that hold whole huge pages, as (start, end) on their bounds."""
    found = []
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        where, rights, _, _, inode, *name = line.split(maxsplit=5)
        if rights != "rw-p" or inode != "0" or name[:1] not in ([], ["[heap]"]):
            continue
        start, end = (int(each, 16) for each in where.split("-"))
        start, end = -(-start // HUGE_BYTES) * HUGE_BYTES, end // HUGE_BYTES * HUGE_BYTES
        if start < end:
            found.append((start, end))
    return found


COPY_LIMIT_S: Final = 300.0
"""A copy that has not ended by then is killed: the class's own code hangs in it, or the disk."""
NICENESS: Final = 10
"""A tenth of what the host gets where both want all."""
PATIENCE_S: Final = 20.0
"""A copy that has not ended by then gets as much as the host: it must end before the log is full."""
NICENESS_MAX: Final = 19
REPORT_BYTES_MAX: Final = 4096
WHY_CHARACTERS_MAX: Final = 500
_STDERR: Final = 2

Then = Callable[[Written | NotCopied], None]


class _Report(msgspec.Struct, frozen=True, array_like=True):
    """A copy's last words. *failure* says why there is no checkpoint; with *error*, it was the disk."""

    chunks: int = 0
    size: int = 0
    digest: bytes = b""
    failure: str = ""
    error: int = 0
    is_of_state: bool = False


@dataclass(slots=True)
class _Copy:
    """One copy that runs."""

    pid: int
    pidfd: int
    pipe: int
    name: str
    framing: Framing
    then: Then
    began_at: int
    forked_ns: int
    timers: tuple[asyncio.TimerHandle, ...] = ()
    why_killed: str = ""


class ProcessCopies:
    """The copies of this process, one at a time, which write into the store at *directory*.

    *adopt* tells the store's disk of a file that a copy has written; *fail*, that the disk has failed one
    (D1). With *pages*, the heap is gathered into huge ones first. Everything happens on the loop's thread.
    """

    def __init__(
        self,
        directory: Path,
        adopt: Callable[[str], None],
        fail: Callable[[HoldfastError], None],
        *,
        pages: HugePages | None = None,
        limit_s: float = COPY_LIMIT_S,
    ) -> None:
        self._directory = directory
        self._adopt = adopt
        self._fail = fail
        self._pages = pages
        self._limit_s = limit_s
        self._loop = asyncio.get_running_loop()
        self._clock = MachineClock()
        self._freeing = Freeing()
        self._copy: _Copy | None = None

    @property
    def pid(self) -> int | None:
        """Of the copy that runs."""
        return self._copy.pid if self._copy is not None else None

    def begin(self, name: str, framing: Framing, snapshot: Snapshot, then: Then) -> bool:
        if self._copy is not None or (self._pages is not None and not self._pages.are_ready()):
            return False
        pipe, out = os.pipe2(os.O_CLOEXEC)
        began_at, host = self._clock.now(), os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            os.close(pipe)
            os.close(out)
            self._loop.call_soon(then, NotCopied(f"no copy of the process can be made: {error.strerror}"))
            return True
        if pid == 0:
            _live(host, out, self._directory / name, framing, snapshot)
        forked_ns = self._clock.now() - began_at
        if self._pages is not None:
            self._pages.copied()
        os.close(out)
        # A full collection would touch every object, and so copy all that is shared, while calls wait.
        gc.disable()
        self._copy = copy = _Copy(pid, os.pidfd_open(pid), pipe, name, framing, then, began_at, forked_ns)
        copy.timers = (
            self._loop.call_later(self._limit_s, self._kill, copy, f"it took {self._limit_s:g} s"),
            self._loop.call_later(PATIENCE_S, let_forward, pid),
        )
        self._loop.add_reader(copy.pidfd, self._exited, copy)
        return True

    def cancel(self) -> None:
        """End the copy that runs; nothing is said of it."""
        if self._copy is not None:
            self._copy.then = lambda _: None
            self._kill(self._copy, "it is not wanted any more")

    def _kill(self, copy: _Copy, why: str) -> None:
        if copy is self._copy:
            copy.why_killed = why
            signal.pidfd_send_signal(copy.pidfd, signal.SIGKILL)

    def _exited(self, copy: _Copy) -> None:
        self._loop.remove_reader(copy.pidfd)
        _, status = os.waitpid(copy.pid, 0)
        said = os.read(copy.pipe, REPORT_BYTES_MAX)
        os.close(copy.pidfd)
        os.close(copy.pipe)
        for timer in copy.timers:
            timer.cancel()
        self._copy = None
        gc.enable()
        result = self._result(copy, status, said)
        if isinstance(result, NotCopied):
            with suppress(OSError):
                self._freeing.remove(self._directory / copy.name)
        copy.then(result)

    def _result(self, copy: _Copy, status: int, said: bytes) -> Written | NotCopied:
        code = os.waitstatus_to_exitcode(status)
        try:
            report = msgspec.msgpack.decode(said, type=_Report)
        except msgspec.DecodeError:
            return NotCopied(f"the copy of the process ended with {code}: {copy.why_killed or 'unasked'}")
        if report.error:
            self._fail(translated(OSError(report.error, report.failure), copy.name))
        if code or report.size == 0:
            return NotCopied(report.failure, report.is_of_state)
        self._adopt(copy.name)
        log.info(
            "a state was captured",
            file=copy.name,
            bytes=report.size,
            fork_ms=round(copy.forked_ns / MILLISECOND, 1),
            took_ms=round((self._clock.now() - copy.began_at) / MILLISECOND),
        )
        return Written(copy.framing.described_as(report.chunks, report.size), report.digest)


def let_forward(pid: int) -> None:
    """Take back what :func:`_step_back` has done, as far as the system lets us."""
    with suppress(OSError, ValueError):
        _session_of(pid).write_text(str(_niceness_of_session()), encoding="ascii")


def niceness_in(session: str) -> int:
    """Of a session that the kernel describes so: "/autogroup-21 nice 0". The one that all processes are in
    before anybody begins one has none, and is not described."""
    return int(session.rsplit(maxsplit=1)[-1]) if session.strip() else 0


def _niceness_of_session() -> int:
    return niceness_in(_session_of("self").read_text(encoding="ascii"))


def _session_of(pid: int | str) -> Path:
    """What the kernel says of a process's session; not every kernel does."""
    return Path(f"/proc/{pid}/autogroup")


# --- in the copy


def _live(host: int, out: int, path: Path, framing: Framing, snapshot: Snapshot) -> NoReturn:
    """The whole life of a copy. It never returns into the host's code."""
    code = 1
    try:
        report = _become_a_copy(host, out) or _take(path, framing, snapshot)
        os.write(out, msgspec.msgpack.encode(report))
        code = 0 if report.size else 1
    finally:
        os._exit(code)


def _become_a_copy(host: int, out: int) -> _Report | None:
    """None, or why it could not."""
    try:
        _part_from(host, out)
    except BaseException as error:
        return _Report(failure=f"it could not part from its host: {error!r}"[:WHY_CHARACTERS_MAX])
    return None


def _part_from(host: int, out: int) -> None:
    gc.disable()  # a collection would touch, and so copy, all that is shared with the host
    end_with(host, signal.SIGKILL)  # also if it is gone already (K2)
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    os.closerange(_STDERR + 1, out)
    os.closerange(out + 1, os.sysconf("SC_OPEN_MAX"))
    _step_back()
    with suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as score:
        score.write("1000")


def _step_back() -> None:
    """Let whoever serves go first: this host, and others on the same machine.

    Kernels that share the processor out by session look at niceness within each session only; so the copy
    has one of its own, with a niceness of its own.
    """
    os.nice(NICENESS)
    ask_for_slices(USUAL_NS)
    with suppress(OSError, ValueError):
        of_host = _niceness_of_session()
        os.setsid()
        _session_of("self").write_text(str(min(of_host + NICENESS, NICENESS_MAX)), encoding="ascii")


def _take(path: Path, framing: Framing, snapshot: Snapshot) -> _Report:
    try:
        file = AsideFile(path)
        file.write(framing.header)
        for piece in snapshot.pieces():
            for chunk in framing.framed(piece):
                file.write(chunk)
        file.write(framing.end())
        file.sync()
        digest = snapshot.digest()
    except NoStateAvailable:
        return _Report()
    except AsideFailed as error:
        return _Report(failure=str(error), error=error.number)
    except NotCapturable as error:
        return _Report(failure=str(error)[:WHY_CHARACTERS_MAX], is_of_state=True)
    except BaseException as error:
        # The class's own code, in whatever way it fails.
        return _Report(failure=repr(error)[:WHY_CHARACTERS_MAX])
    done = framing.described
    return _Report(done.chunks, done.size, digest)
