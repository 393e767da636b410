"""Tunes a process: short slices, rare garbage collection and enough open files for one that serves, less
priority for one that works for it.

Linux (6.12 and later) lets a thread that asks for short time slices run before one that computes in long
slices. This is not a priority: no share of the processor changes, and no privilege is needed. Older kernels
ignore the request. :func:`spare_what_stays` sets Python's cyclic garbage collector.
"""

import ctypes
import gc
import os
import platform
import resource
import struct
from contextlib import suppress
from pathlib import Path
from typing import Final

from holdfast.model.ids import MICROSECOND

SHORT_NS: Final = 100 * MICROSECOND
"""The shortest slice that kernels grant, and about what one message costs a host."""
USUAL_NS: Final = 0
"""The kernel's own choice, a few milliseconds."""

_SET_TIMER_SLACK, _GET_TIMER_SLACK = 29, 30
"""Of ``prctl``."""
_CALLS: Final = {"x86_64": (314, 315), "aarch64": (274, 275)}
"""The numbers of ``sched_setattr`` and ``sched_getattr``, which the C library may not know."""
_ATTRIBUTES: Final = struct.Struct("=IIQiIQQQ")
"""size, policy, flags, niceness, priority, slice, deadline, period."""
_RESET_ON_FORK: Final = 0x01
"""The only flag that describes a thread of the normal policy; the others belong to the call."""

_libc: Final = ctypes.CDLL(None, use_errno=True)


def ask_for_slices(length_ns: int) -> bool:
    """Ask for slices of *length_ns* for this thread, and for the threads and processes it starts from now on.

    Returns False where the system does not know or allow it, or where this thread was given another policy,
    which then stays as it was.
    """
    numbers = _CALLS.get(platform.machine())
    held = _attributes(0)
    if numbers is None or held is None:
        return False
    size, policy, flags, niceness, priority, _, deadline, period = held
    if policy != os.SCHED_OTHER:
        return False
    kept = flags & _RESET_ON_FORK
    wanted = _ATTRIBUTES.pack(size, policy, kept, niceness, priority, length_ns, deadline, period)
    return bool(_libc.syscall(numbers[0], 0, wanted, 0) == 0)


def slice_ns(thread: int = 0) -> int:
    """The length of a thread's slices (0: this thread); 0 where the system does not say."""
    held = _attributes(thread)
    return held[5] if held is not None and held[1] == os.SCHED_OTHER else 0


def wake_on_time() -> bool:
    """Ask that timed waits of this thread, and of those it starts from now on, end when they should.

    Linux lets them end 50 microseconds later, so that it can wake several threads at once. That is half as
    much again as the shortest time for which a thread waits for Python's interpreter. Returns False where the
    system does not know or allow it.
    """
    return bool(_libc.prctl(_SET_TIMER_SLACK, MICROSECOND, 0, 0, 0) == 0)


def timer_slack_ns() -> int:
    """By how much this thread's timed waits may be longer."""
    return int(_libc.prctl(_GET_TIMER_SLACK, 0, 0, 0, 0))


def _attributes(thread: int) -> tuple[int, ...] | None:
    numbers = _CALLS.get(platform.machine())
    if numbers is None:
        return None
    held = ctypes.create_string_buffer(_ATTRIBUTES.size)
    if _libc.syscall(numbers[1], thread, held, _ATTRIBUTES.size, 0) != 0:
        return None
    return _ATTRIBUTES.unpack(held.raw)


THRESHOLDS: Final = (20_000, 3, 2_000)
"""How many containers are created before the youngest generation is collected, and how many collections of
one generation lead to one of the next. Calls create and drop thousands of containers a millisecond, and
hardly any are in a cycle. With the defaults, every 700 of them cost a collection, and everything the groups'
objects hold was scanned many times a minute.

Each collection stops the process, so the amount scanned at once matters most: a tenth of a microsecond or two
per container, 2 ms for the youngest generation and up to 15 ms for what four collections have left. With
twenty collections of 50,000, a member that loaded a large object stopped for 140 to 700 ms at every millionth
container. A full scan, half a second for an object of 100 MB, happens after 160 million more containers.
"""


OPEN_FILES: Final = 16_384
"""Enough for every connection that a process's servers admit at once, and for its own files."""


def allow_open_files(needed: int = OPEN_FILES) -> int:
    """Raise this process's own limit on open files to ``OPEN_FILES``, or to *needed* if that is more, as far
    as the system lets it. Returns how many it may open.

    The usual limit of 1,024 is below the bounds of the servers: whoever fills it keeps hosts from each other.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = max(needed, OPEN_FILES)
    if soft == resource.RLIM_INFINITY:
        return most
    wanted = most if hard == resource.RLIM_INFINITY else min(most, hard)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return max(soft, wanted)


def spare_what_stays() -> None:
    """Exclude everything loaded so far from later collections, and collect rarely.

    Collection stays enabled because methods of groups may create cycles.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)


NICENESS_MAX: Final = 19


def lower_priority(by: int) -> None:
    """Lower this process's priority below that of its host, and of others on the same machine.

    Kernels that share the processor by session compare niceness only within a session. So the process moves
    to a session of its own and lowers that session's priority. Its slices are of the usual length: hosts ask
    for short ones, and their children inherit that.
    """
    os.nice(by)
    ask_for_slices(USUAL_NS)
    with suppress(OSError, ValueError):
        of_host = _niceness_of_session()
        os.setsid()
        _session_of("self").write_text(str(min(of_host + by, NICENESS_MAX)), encoding="ascii")


def restore_priority(pid: int) -> None:
    """Undo :func:`lower_priority` for the process *pid*, as far as the system permits."""
    with suppress(OSError, ValueError):
        _session_of(pid).write_text(str(_niceness_of_session()), encoding="ascii")


def niceness_in(session: str) -> int:
    """The niceness in the kernel's description of a session, such as "/autogroup-21 nice 0".

    The initial session, which processes belong to until one of them starts another, has no description.
    """
    return int(session.rsplit(maxsplit=1)[-1]) if session.strip() else 0


def _niceness_of_session() -> int:
    return niceness_in(_session_of("self").read_text(encoding="ascii"))


def _session_of(pid: int | str) -> Path:
    """The file that describes a process's session; not every kernel has it."""
    return Path(f"/proc/{pid}/autogroup")
