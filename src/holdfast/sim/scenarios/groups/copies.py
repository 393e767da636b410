"""Copies of a simulated process: they have the state as of their beginning, and end some time later.

Some are killed, as happens when memory is short; and a process that ends takes its copy with it.
"""

from collections import Counter
from collections.abc import Callable
from typing import Final

from holdfast.execution.capture import NotCapturable
from holdfast.groups.ports import Written
from holdfast.model.errors import DISK_ERRORS, DiskFailed, HoldfastError
from holdfast.model.ids import GroupId
from holdfast.model.ports import Token
from holdfast.sim.engine.node import NodePorts
from holdfast.sim.engine.options import MILLISECOND
from holdfast.sim.scenarios.sequence.startup import DIRECTORY
from holdfast.storage.checkpoint import Framing, checkpoint_of
from holdfast.storage.scratch import PREFIX
from holdfast.styles.ports import NoRoom, NotCopied, Snapshot

TAKES_NS: Final = (1 * MILLISECOND, 400 * MILLISECOND)
KILLED: Final = 0.1
"""The probability that a copy is killed."""
KILLED_WHY: Final = "the copy was killed"
SCRATCH_MAX: Final = 4
"""A group's newest state, the one that is held, one that is being received, and one that is being copied."""

Then = Callable[[Written | NotCopied], None]


class SimulatedCopies:
    """The Copies port of one simulated process (:class:`holdfast.groups.ports.CopyPort`)."""

    def __init__(self, ports: NodePorts, fail: Callable[[HoldfastError], None]) -> None:
        self._ports = ports
        self._fail = fail
        self._disk = ports.disk(DIRECTORY, self._on_synced)
        self._random = ports.random.stream("copies")
        self._number = 0
        self._running: tuple[str, Written, Then] | None = None

    def begin(self, name: str, framing: Framing, snapshot: Snapshot, then: Then) -> bool:
        if self._running is not None:
            return False
        pieces = [framing.header]
        failure: NotCopied | None = None
        try:
            for piece in snapshot.pieces():
                pieces.extend(framing.framed(piece))
            pieces.append(framing.end())
        except NotCapturable as error:
            failure = NotCopied(str(error), is_of_state=True)
        except NoRoom as error:
            failure = NotCopied(str(error))
        self._running = (name, Written(framing.described, b"" if failure else snapshot.digest()), then)
        self._number += 1
        number, is_killed = self._number, self._random.random() < KILLED
        node, life = self._ports.node, self._ports.life
        takes_ns = self._random.randint(*TAKES_NS)
        failure = NotCopied(KILLED_WHY) if is_killed else failure
        node.world.after(takes_ns, node.run, life, lambda: self._write(number, pieces, failure))
        node.world.sometimes("a state was captured in a copy")
        return True

    def check_scratch(self) -> None:
        """Require that the large states of groups in memory take bounded room on the disk (E5)."""
        files: Counter[GroupId] = Counter()
        for name in self._disk.list():
            found = checkpoint_of(name.removeprefix(PREFIX)) if name.startswith(PREFIX) else None
            if found is not None:
                files[found[0]] += 1
        world = self._ports.node.world
        for group, count in files.items():
            world.sometimes("a state of a group in memory was in a scratch file")
            if count > SCRATCH_MAX:
                world.violation("E5", f"{self._ports.name}: group {group} has {count} scratch files")

    def cancel(self) -> None:
        if self._running is not None:
            self._remove(self._running[0])
            self._running = None

    def _write(self, number: int, pieces: list[bytes], failure: NotCopied | None) -> None:
        if self._running is None or number != self._number:
            return
        name = self._running[0]
        if failure is not None:
            is_killed = failure.why == KILLED_WHY
            self._ports.node.world.sometimes("a copy was killed" if is_killed else "a copy was refused")
            self._end(failure)
            return
        try:
            self._remove(name)
            for piece in pieces:
                self._disk.append(name, piece)
            self._disk.sync(name, number)
        except DISK_ERRORS as error:
            self._fail(error)

    def _on_synced(self, token: Token, ok: bool) -> None:
        if self._running is None or token != self._number:
            return
        if ok:
            self._end(self._running[1])
        else:
            self._fail(DiskFailed(f"{self._running[0]}: the sync of a copy failed"))

    def _end(self, result: Written | NotCopied) -> None:
        assert self._running is not None
        (_, _, then), self._running = self._running, None
        then(result)

    def _remove(self, name: str) -> None:
        if name in self._disk.list():
            self._disk.remove(name)
