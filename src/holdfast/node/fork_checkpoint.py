"""Writes large checkpoints in a forked copy of the host's process while the host keeps serving (E5,
decision 0007).

A fork holds every object as it is at that moment, and shares its memory with the host until either changes
it. The copy captures the state, reads each piece back (E9), writes it to a file of its own, syncs the file,
reports the result on a pipe, and exits without running any of the host's code.

Forking a process that has threads and an event loop is safe here for these reasons. The copy has one
thread, the one that forked, and takes no lock that another thread may have held: it uses no queue, no log,
no loop and no import. It closes what it inherited, so that it answers nobody and keeps no connection or
port open. The store's lock is a record lock, which a fork does not inherit, and the kernel kills the copy
when its host ends (K2). When memory runs short, the kernel kills the copy before the host.

:class:`HugePages` moves a large heap into huge pages first, so that the fork takes only a millisecond or
two. A fork copies the process's page table while every call waits: 20 ms for 750 MB in 4 kB pages on the
machine where this was measured, 2 ms in 2 MB pages (decision 0007). This is repeated before each copy,
because writes during a copy split the huge pages again, nearly all of them if calls change the object in
scattered places.

A separate thread does this page by page. While the kernel moves a page, other threads that touch memory for
the first time wait: a third of a millisecond where the machine's memory is already in use, some
milliseconds where it is new. So the thread pauses between pages; without the pauses, calls waited hundreds
of milliseconds on a machine with little memory to spare. Without kernel support for huge pages, forks just
take longer.
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
from holdfast.machine.process_tuning import lower_priority, restore_priority
from holdfast.model.errors import HoldfastError
from holdfast.model.ids import MILLISECOND
from holdfast.storage.aside_file import AsideFailed, AsideFile
from holdfast.storage.checkpoint import Framing
from holdfast.storage.volume import Freeing, translated
from holdfast.styles.ports import NoRoom, NotCopied, Snapshot

HUGE_BYTES: Final = 2 << 20
HEAP_BYTES_MIN: Final = 320 << 20
"""A smaller process is forked within nine milliseconds without huge pages. It matters that it is forked at
once: members compare their states (E8) only where all of them were copied at the same mark."""
PAUSE_S: Final = 0.001
PAUSES: Final = 3.0
"""The pause between two pages: at least ``PAUSE_S``, and ``PAUSES`` times as long as the last page took.
After ``SPREAD_S`` it is only as long as the last page took, because the log grows while a checkpoint waits.
"""
SPREAD_S: Final = 20.0
THREAD_NAME: Final = "huge pages"
"""The thread's name, as ``top -H`` shows it."""
_PAGE_BYTES: Final = 4096
_MADV_HUGEPAGE: Final = 14
_MADV_COLLAPSE: Final = 25
_PR_SET_NAME: Final = 15
_libc = ctypes.CDLL(None, use_errno=True)
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]

log = structlog.get_logger("holdfast.copies")


class HugePages:
    """Moves this process's heap into huge pages. Used only from the event loop's thread."""

    def __init__(self, call_soon: Callable[..., object], heap_bytes_min: int = HEAP_BYTES_MIN) -> None:
        """*call_soon* runs a function on the event loop's thread."""
        self._call_soon = call_soon
        self._heap_bytes_min = heap_bytes_min
        self._is_gathering = False
        self._are_gathered = False

    def are_ready(self) -> bool:
        """Whether to fork now; if not, the heap is being moved into huge pages, which this starts."""
        if self._is_gathering:
            return False
        if self._are_gathered or resident_bytes() < self._heap_bytes_min:
            return True
        self._is_gathering = True
        threading.Thread(target=self._gather, name=THREAD_NAME, daemon=True).start()
        return False

    def copied(self) -> None:
        """Note that a copy was made: from now on, writes split the huge pages again."""
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
    """Move the memory at *at* into one huge page if possible; returns whether the kernel has huge pages.

    Each page takes its own call: a single call for all would lock the memory map for seconds.
    """
    if _libc.madvise(at, HUGE_BYTES, _MADV_HUGEPAGE) != 0 and ctypes.get_errno() == errno.EINVAL:
        return False
    _libc.madvise(at, HUGE_BYTES, _MADV_COLLAPSE)
    return True


def resident_bytes() -> int:
    """The physical memory that this process occupies."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * _PAGE_BYTES


def heap() -> list[tuple[int, int]]:
    """The ranges of private memory that consist of whole huge pages, as aligned (start, end)."""
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
"""A copy that runs longer is killed: either the class's own code hangs in it, or the disk does."""
NICENESS: Final = 10
"""How far the copy's priority is lowered: it gets a tenth of the host's share when both are busy."""
PATIENCE_S: Final = 20.0
"""A copy that runs longer gets the host's priority, because it must finish before the log is full."""
REPORT_BYTES_MAX: Final = 4096
WHY_CHARACTERS_MAX: Final = 500
_STDERR: Final = 2

Then = Callable[[Written | NotCopied], None]


class _Report(msgspec.Struct, frozen=True, array_like=True):
    """What a copy reports at its end. *failure* says why there is no checkpoint; *error*: the disk failed."""

    chunks: int = 0
    size: int = 0
    digest: bytes = b""
    failure: str = ""
    error: int = 0
    is_of_state: bool = False


@dataclass(slots=True)
class _Copy:
    """A running copy."""

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
    """Runs copies of this process, one at a time, which write checkpoints into the store at *directory*.

    *adopt* registers a file that a copy has written with the store's disk; *fail* reports that the disk
    failed a copy (D1). With *pages*, the heap is first moved into huge pages. All of this runs on the
    loop's thread.
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
        """The process id of the running copy, if there is one."""
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
            _run_copy(host, out, self._directory / name, framing, snapshot)
        forked_ns = self._clock.now() - began_at
        if self._pages is not None:
            self._pages.copied()
        os.close(out)
        # A full garbage collection would touch every object, and so duplicate all shared memory while calls
        # wait.
        gc.disable()
        self._copy = copy = _Copy(pid, os.pidfd_open(pid), pipe, name, framing, then, began_at, forked_ns)
        copy.timers = (
            self._loop.call_later(self._limit_s, self._kill, copy, f"it took {self._limit_s:g} s"),
            self._loop.call_later(PATIENCE_S, restore_priority, pid),
        )
        self._loop.add_reader(copy.pidfd, self._exited, copy)
        return True

    def cancel(self) -> None:
        """Kill the running copy and discard its result."""
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


# --- in the copy


def _run_copy(host: int, out: int, path: Path, framing: Framing, snapshot: Snapshot) -> NoReturn:
    """Run the copy from start to exit. It never returns into the host's code."""
    code = 1
    try:
        report = _detach(host, out) or _write_checkpoint(path, framing, snapshot)
        os.write(out, msgspec.msgpack.encode(report))
        code = 0 if report.size else 1
    finally:
        os._exit(code)


def _detach(host: int, out: int) -> _Report | None:
    """Detach from the host; returns None on success, or a report of the failure."""
    try:
        _detach_from(host, out)
    except BaseException as error:
        return _Report(failure=f"it could not part from its host: {error!r}"[:WHY_CHARACTERS_MAX])
    return None


def _detach_from(host: int, out: int) -> None:
    gc.disable()  # a collection would touch, and so duplicate, all memory shared with the host
    end_with(host, signal.SIGKILL)  # also if the host is gone already (K2)
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    os.closerange(_STDERR + 1, out)
    os.closerange(out + 1, os.sysconf("SC_OPEN_MAX"))
    lower_priority(NICENESS)
    with suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as score:
        score.write("1000")


def _write_checkpoint(path: Path, framing: Framing, snapshot: Snapshot) -> _Report:
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
    except NoRoom as error:
        return _Report(failure=str(error))
    except NotCapturable as error:
        return _Report(failure=str(error)[:WHY_CHARACTERS_MAX], is_of_state=True)
    except BaseException as error:
        # The class's own code may fail in any way.
        return _Report(failure=repr(error)[:WHY_CHARACTERS_MAX])
    done = framing.described
    return _Report(done.chunks, done.size, digest)
