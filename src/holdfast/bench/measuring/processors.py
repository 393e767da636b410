"""Which processors running processes may use."""

import os
from collections.abc import Iterable, Iterator, Set
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

_PROCESSES: Final = Path("/proc")


@contextmanager
def set_apart(pid: int, others: Iterable[int]) -> Iterator[None]:
    """Leave one of this process's processors to the process *pid* and its children alone, for the context:
    *others*, with their children, and this process have the rest. Where there is only one, all share it."""
    mine = os.sched_getaffinity(0)
    apart = {max(mine)} if len(mine) > 1 else mine
    rest = (os.getpid(), *others)
    for each in rest:
        _confine(each, (mine - apart) or mine)
    _confine(pid, apart)
    try:
        yield
    finally:
        for each in (*rest, pid):
            _confine(each, mine)


def _confine(pid: int, processors: Set[int]) -> None:
    """Confine all threads of a process and of its children; what they start inherits it."""
    for each in (pid, *_children(pid)):
        for thread in _threads(each):
            with suppress(ProcessLookupError):  # it has ended meanwhile
                os.sched_setaffinity(thread, processors)


def _threads(pid: int) -> tuple[int, ...]:
    with suppress(FileNotFoundError, ProcessLookupError):
        return tuple(int(each.name) for each in (_PROCESSES / str(pid) / "task").iterdir())
    return ()


def _children(pid: int) -> tuple[int, ...]:
    found = []
    for each in _PROCESSES.iterdir():
        if each.name.isdecimal():
            with suppress(FileNotFoundError, ProcessLookupError):
                # After the program's name, in parentheses and of any characters, come state and parent.
                _, _, rest = (each / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")
                if int(rest.split()[1]) == pid:
                    found.append(int(each.name))
    return tuple(found)
