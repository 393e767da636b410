"""The process that replays records with older code (E7): ``python -m holdfast.app_code.replay_process PID``.

PID is the process id of its parent. The process imports the group's class from the copy that the host has
stored, and nothing from the application's directories. It loads the state from its standard input, replays
the records that follow, and writes the resulting state to its standard output. It does not access the store,
holds no lock, and ends with its parent: whatever the class does here affects only this process (E4).
"""

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import msgspec

from holdfast.app_code.loader import definition_of, load_code, offer_classes
from holdfast.app_code.replay_messages import (
    PIECE_BYTES,
    WHY_CHARACTERS_MAX,
    Chunk,
    Done,
    End,
    Failed,
    FromProcess,
    Ordered,
    Piece,
    Task,
    ToProcess,
    Waiting,
    framed,
    task,
    to_process,
)
from holdfast.execution.execution import Execution
from holdfast.machine.pipe_frames import read_frame
from holdfast.machine.worker_process import begin_work, restrict_process, run_in_loop
from holdfast.model.ids import Position
from holdfast.model.outcome import error_in_words
from holdfast.storage.checkpoint import Digest
from holdfast.storage.record import Record, decode
from holdfast.styles.code_change import continued


class Streamed:
    """A state that arrives through the pipe, once (:class:`holdfast.sequence.ports.Kept`)."""

    def __init__(self, wanted: Task, following: Callable[[], ToProcess]) -> None:
        self.position: Position = wanted.position
        self.size: int = wanted.size
        self.chunk_bytes: int = wanted.chunk_bytes
        self._following = following
        self._next = 0
        self._digest = Digest()

    def chunk(self, number: int) -> bytes:
        found = self._following()
        if number != self._next or not isinstance(found, Chunk):
            raise msgspec.ValidationError(f"chunk {number} of the state does not come now")
        self._next += 1
        self._digest.add(found.data)
        return found.data

    def digest(self) -> bytes:
        return self._digest.value()


def work(wanted: Task, following: Callable[[], ToProcess], say: Callable[[FromProcess], None]) -> None:
    """Replay, and send the result."""
    offer_classes(Path(wanted.modules))
    found = load_code(wanted.record.class_name)[1].code
    if not found.is_same(wanted.by):
        say(Failed(f"the copy kept of {wanted.by} is {found}"))
        return
    definition = replace(definition_of(wanted.record), code=wanted.code)
    kept = Streamed(wanted, following) if wanted.size else None
    is_stand_in = not wanted.by.is_same(wanted.code)
    came = continued(definition, kept, records(following), is_stand_in=is_stand_in)
    if not isinstance(came, Execution):
        say(Waiting.of(came))
        return
    send_state(came, say)


def send_state(came: Execution, say: Callable[[FromProcess], None]) -> None:
    """Send the state in pieces of about the same size, whatever the size of the object's pieces."""
    gathered = bytearray()
    for each in came.pieces():
        gathered += each
        while len(gathered) >= PIECE_BYTES:
            say(Piece(bytes(gathered[:PIECE_BYTES])))
            del gathered[:PIECE_BYTES]
    say(Piece(bytes(gathered)))
    say(Done(came.position, came.digest()))


def records(following: Callable[[], ToProcess]) -> Iterator[Record]:
    while not isinstance(found := following(), End):
        if not isinstance(found, Ordered):
            raise msgspec.ValidationError("a state has more chunks than were announced")
        yield decode(found.data)


def inside(modules: str, why: str) -> str:
    """The reason with paths as they are beside the class: where the copy is kept tells people nothing, and
    takes the room of the name that they need."""
    for each in (modules, str(Path(modules).resolve())):
        why = why.replace(f"{each}{os.sep}", "")
    return why


def main() -> None:
    """Process one task, then end."""
    answers, read = begin_work(sys.argv), sys.stdin.buffer.read
    wanted = task.decode(read_frame(read))
    restrict_process(wanted.memory_bytes)
    apps = {Path(each).resolve() for each in wanted.apps}
    sys.path[:] = [each for each in sys.path if each and Path(each).resolve() not in apps]

    def say(message: FromProcess) -> None:
        answers.write(framed(message))

    try:
        run_in_loop(lambda: work(wanted, lambda: to_process.decode(read_frame(read)), say))
    except BaseException as error:
        # The class's own code may fail in any way, or memory may have run out.
        say(Failed(inside(wanted.modules, error_in_words(error))[:WHY_CHARACTERS_MAX]))
    answers.flush()
    os._exit(0)  # ends everything that the class has started


if __name__ == "__main__":
    main()
