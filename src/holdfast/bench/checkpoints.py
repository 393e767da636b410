"""The checkpoints of real hosts, seen from outside: by the files they leave, and by the thread that gathers a
host's heap before a copy is made of it.
"""

import asyncio
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from holdfast.bench.windows import Window
from holdfast.machine import MachineClock
from holdfast.model.ids import HostId
from holdfast.node.layout import Description, Layout
from holdfast.node.pages import THREAD_NAME
from holdfast.node.store import STORE
from holdfast.storage.checkpoint import UNFINISHED, checkpoint_of
from holdfast.storage.lock import holder_of

POLL_S: Final = 0.02

_clock = MachineClock()


class CheckpointWatch:
    """Sees checkpoints: from the first sight of one being written to its final name."""

    def __init__(self, layout: Layout, description: Description) -> None:
        self._directories = {host: layout.host(host) for host in description.hosts}
        self._begun: dict[tuple[HostId, int], int] = {}
        self._known: dict[tuple[HostId, int], None] = {}
        self._gathering: dict[HostId, int] = {}
        self._gathered: list[Window] = []
        self.finished: list[Window] = []

    async def always(self) -> None:
        for host, position, is_aside in self._look():
            if not is_aside:
                self._known[host, position] = None
        while True:
            for host, position, is_aside in self._look():
                self._note(host, position, is_aside)
            for host, directory in self._directories.items():
                self._note_gathering(host, _is_gathering(directory))
            await asyncio.sleep(POLL_S)

    def activity(self, until_ns: int) -> list[Window]:
        """All that was done for checkpoints, finished or not; what goes on still ends after *until_ns*."""
        under_way = (*self._begun.values(), *self._gathering.values())
        return [*self.finished, *self._gathered, *(Window(each, until_ns + 1) for each in under_way)]

    def _look(self) -> Iterator[tuple[HostId, int, bool]]:
        for host, directory in self._directories.items():
            for name in os.listdir(directory / STORE):
                which = checkpoint_of(name)
                if which is not None:
                    yield host, int(which[1]), name.endswith(UNFINISHED)

    def _note(self, host: HostId, position: int, is_aside: bool) -> None:
        key = (host, position)
        if is_aside:
            self._begun.setdefault(key, _clock.now())
        elif key not in self._known:
            self._known[key] = None
            self.finished.append(Window(self._begun.pop(key, _clock.now()), _clock.now()))

    def _note_gathering(self, host: HostId, is_gathering: bool) -> None:
        if is_gathering:
            self._gathering.setdefault(host, _clock.now())
        elif host in self._gathering:
            self._gathered.append(Window(self._gathering.pop(host), _clock.now()))


def _is_gathering(directory: Path) -> bool:
    holder = holder_of(directory)
    if holder is None:
        return False
    with suppress(OSError):  # a thread, or the host, is gone by the time it is looked at
        tasks = Path(f"/proc/{holder.pid}/task").iterdir()
        return any((task / "comm").read_text().strip() == THREAD_NAME for task in tasks)
    return False
