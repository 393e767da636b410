"""How soon a process that has something to do is let onto a processor that another keeps busy.

Linux (6.12 and later) lets whoever asks for short slices of time in before one that computes in long ones. It
is no priority: nobody's share changes, and nobody needs a right to ask. Older kernels pass it over.

Python's cyclic garbage collector, set for a process that serves.
"""

import ctypes
import gc
import os
import platform
import struct
from typing import Final

from holdfast.model.ids import MICROSECOND

SHORT_NS: Final = 100 * MICROSECOND
"""The shortest that kernels grant, and about what one message costs a host."""
USUAL_NS: Final = 0
"""The kernel's own choice, some milliseconds."""

_CALLS: Final = {"x86_64": (314, 315), "aarch64": (274, 275)}
"""The numbers of ``sched_setattr`` and ``sched_getattr``, which the C library need not know."""
_ATTRIBUTES: Final = struct.Struct("=IIQiIQQQ")
"""size, policy, flags, niceness, priority, slice, deadline, period."""
_RESET_ON_FORK: Final = 0x01
"""The only flag that says something of a thread of the usual policy; the others are of the call."""

_libc: Final = ctypes.CDLL(None, use_errno=True)


def ask_for_slices(length_ns: int) -> bool:
    """Ask for slices so long, for this thread and for the threads and processes that it starts from now on.

    False where the system does not know or not allow it, or where somebody has given this thread a policy of
    its own: it stays as it was.
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
    """How long the slices of a thread are (0: this one); 0 where the system does not say."""
    held = _attributes(thread)
    return held[5] if held is not None and held[1] == os.SCHED_OTHER else 0


def _attributes(thread: int) -> tuple[int, ...] | None:
    numbers = _CALLS.get(platform.machine())
    if numbers is None:
        return None
    held = ctypes.create_string_buffer(_ATTRIBUTES.size)
    if _libc.syscall(numbers[1], thread, held, _ATTRIBUTES.size, 0) != 0:
        return None
    return _ATTRIBUTES.unpack(held.raw)


THRESHOLDS: Final = (20_000, 3, 2_000)
"""Containers made between two looks at the youngest, and how many looks at one generation lead to one at the
next. Calls make and drop thousands of containers a millisecond, hardly any of them in a cycle; with the
defaults every 700 of them cost a look, and whatever the groups' objects hold was looked through many times a
minute.

Each look stops the process, so what matters most is how much is looked through at once: a tenth of a
microsecond or two for each container, 2 ms for the youngest and up to 15 ms for what four looks have left.
With twenty looks of 50,000 a member that loaded a large object stood for 140 to 700 ms at every millionth
container. All there are, half a second for an object of 100 MB, are looked through when there are 160 million
more."""


def spare_what_stays() -> None:
    """Leave what is loaded by now out of every later collection, and collect seldom. Not never: methods of
    groups may make cycles."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
