"""Runs, for a host, the processes that replay records with older code (E7).

The host reads its own checkpoint and log and passes them through a pipe. It writes the resulting state to a
checkpoint file that does not have its final name yet (:mod:`holdfast.node.fork_checkpoint` does the same for
its own states). The process does not access the store.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
import structlog

from holdfast.app_code.copies import CodeCopies
from holdfast.app_code.replay_messages import (
    Chunk,
    Done,
    End,
    Failed,
    Ordered,
    Piece,
    Task,
    Waiting,
    framed,
    from_process,
)
from holdfast.authority.groups import GroupRecord
from holdfast.groups.ports import Written
from holdfast.machine.worker_process import WorkerProcess
from holdfast.model.code import Code
from holdfast.model.errors import HoldfastError
from holdfast.model.ids import Position
from holdfast.sequence.ports import Captured, Kept, chunks_of
from holdfast.storage.aside_file import AsideFailed, AsideFile
from holdfast.storage.checkpoint import Framing
from holdfast.storage.record import Record
from holdfast.storage.volume import translated
from holdfast.styles.ports import NotCopied, Waits

LIMIT_S: Final = 300.0
"""A process that has not ended after this time is killed: the class's own code hangs in it."""
MEMORY_BYTES: Final = 2 << 30
"""The memory it may use besides its state: Python, and what the class imports."""
MEMORY_PER_BYTE: Final = 64
"""How many times larger than its state an object in memory is, at most."""
_PROGRAM: Final = "holdfast.app_code.replay_process"

Then = Callable[[Written | NotCopied | Waits], None]

log = structlog.get_logger("holdfast.old_code")


class CodeReplayer:
    """Runs replays on this host, one at a time (:class:`holdfast.groups.ports.OldCodePort`).

    The processes write no files. *apps* are the application's directories. Everything runs on the loop's
    thread.
    """

    def __init__(
        self,
        copies: CodeCopies,
        directory: Path,
        adopt: Callable[[str], None],
        fail: Callable[[HoldfastError], None],
        apps: Sequence[Path],
        *,
        limit_s: float = LIMIT_S,
    ) -> None:
        """*directory*, *adopt* and *fail* are as in :class:`holdfast.node.fork_checkpoint.ProcessCopies`."""
        self._copies = copies
        self._directory = directory
        self._adopt = adopt
        self._fail = fail
        self._apps = tuple(map(str, apps))
        self._limit_s = limit_s
        self._task: asyncio.Task[None] | None = None
        self.pid: int | None = None
        """The pid of the running process."""

    def is_kept(self, code: Code) -> bool:
        return self._copies.is_kept(code)

    def begin(
        self,
        record: GroupRecord,
        code: Code,
        kept: Kept | None,
        records: Iterator[Record],
        name: str,
        framing: Framing,
        then: Then,
        by: Code | None = None,
    ) -> bool:
        if self._task is not None:
            return False
        by = by or code
        modules = self._copies.modules_of(by)
        if modules is None:
            missing = NotCopied(f"the sources of {by} are not kept here")
            asyncio.get_running_loop().call_soon(then, missing)
            return True
        wanted = self._wanted(record, code, by, modules, kept)
        work = self._work(wanted, kept, records, name, framing, then)
        self._task = asyncio.get_running_loop().create_task(work)
        return True

    async def tried(
        self, record: GroupRecord, code: Code, kept: Kept | None, records: Iterator[Record]
    ) -> Captured | NotCopied | Waits:
        """Replay as :meth:`begin` does, but keep nothing: the resulting state is returned.

        This serves trials, beside whatever replay is running. Ends its process when it is cancelled.
        """
        modules = self._copies.modules_of(code)
        if modules is None:
            return NotCopied(f"the sources of {code} are not kept here")
        wanted = self._wanted(record, code, code, modules, kept)
        process = await WorkerProcess.start(_PROGRAM, directory=modules)
        state = bytearray()
        try:
            with suppress(BrokenPipeError, ConnectionResetError):  # as in `_replayed`
                await _feed(process, wanted, kept, records)
            while True:
                match from_process.decode(await process.read()):
                    case Piece(data=data):
                        state += data
                    case Done(position=position):
                        return Captured(position, bytes(state))
                    case Waiting() as waiting:
                        return waiting.waits
                    case Failed(why=why):
                        return NotCopied(f"{code} could not replay it: {why}")
        except (OSError, EOFError, msgspec.MsgspecError, HoldfastError) as error:
            return NotCopied(str(error) or repr(error))
        finally:
            await process.end()

    def _wanted(self, record: GroupRecord, code: Code, by: Code, modules: Path, kept: Kept | None) -> Task:
        """Describe the work. Code that replays in the place of other code is imported from the application
        while that has it still: it may need files beside it that are not kept."""
        apps = self._apps
        if not by.is_same(code):
            here = next((each for each in apps if self._copies.is_in(by, Path(each))), None)
            if here is not None:
                modules, apps = Path(here), ()
        return Task(
            record=record,
            code=code,
            by=by,
            modules=str(modules),
            apps=apps,
            memory_bytes=MEMORY_BYTES + MEMORY_PER_BYTE * (kept.size if kept is not None else 0),
            position=kept.position if kept is not None else Position(0),
            size=kept.size if kept is not None else 0,
            chunk_bytes=kept.chunk_bytes if kept is not None else 0,
        )

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def close(self) -> None:
        """End the running process and wait for its end."""
        running, self._task = self._task, None
        if running is not None:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    async def _work(
        self,
        wanted: Task,
        kept: Kept | None,
        records: Iterator[Record],
        name: str,
        framing: Framing,
        then: Then,
    ) -> None:
        path = self._directory / name
        result: Written | NotCopied | Waits | None = None
        try:
            async with asyncio.timeout(self._limit_s):
                result = await self._replayed(wanted, kept, records, path, framing)
        except TimeoutError:
            result = NotCopied(f"it took more than {self._limit_s:g} s")
        except AsideFailed as error:
            self._fail(translated(OSError(error.number, str(error)), name))
            result = NotCopied(str(error))
        except (OSError, EOFError, msgspec.MsgspecError, HoldfastError) as error:
            result = NotCopied(str(error) or repr(error))
        finally:
            self.pid = None
            if not isinstance(result, Written):
                with suppress(OSError):
                    path.unlink()
        if self._task is not asyncio.current_task():
            with suppress(OSError):
                path.unlink()  # it was cancelled at the last moment
            return
        self._task = None
        if isinstance(result, Written):
            self._adopt(name)
        then(result)

    async def _replayed(
        self, wanted: Task, kept: Kept | None, records: Iterator[Record], path: Path, framing: Framing
    ) -> Written | NotCopied | Waits:
        process = await WorkerProcess.start(_PROGRAM, directory=Path(wanted.modules))
        self.pid = process.pid
        log.info(
            "older code replays",
            group=wanted.record.group,
            code=str(wanted.code),
            by=str(wanted.by),
            pid=process.pid,
        )
        try:
            # the process tells why it ended, or its exit code does
            with suppress(BrokenPipeError, ConnectionResetError):
                await _feed(process, wanted, kept, records)
            for _ in records:
                pass  # the provider of the records waits until all are consumed
            return await _taken(process, wanted, path, framing)
        except EOFError:
            code = await process.wait()
            return NotCopied(f"the process that replayed with {wanted.by} ended with {code}")
        finally:
            await process.end()


async def _feed(process: WorkerProcess, wanted: Task, kept: Kept | None, records: Iterator[Record]) -> None:
    await process.write(framed(wanted))
    if kept is not None:
        for chunk in chunks_of(kept):
            await process.write(framed(Chunk(chunk)))
    for record in records:
        await process.write(framed(Ordered(record.encoded())))
    await process.write(framed(End()))
    process.write_end()


async def _taken(
    process: WorkerProcess, wanted: Task, path: Path, framing: Framing
) -> Written | NotCopied | Waits:
    file = await asyncio.to_thread(AsideFile, path)
    try:
        await asyncio.to_thread(file.write, framing.header)
        while True:
            match from_process.decode(await process.read()):
                case Piece(data=data):
                    for chunk in framing.framed(data):
                        await asyncio.to_thread(file.write, chunk)
                case Done(digest=digest, position=position):
                    return await _ended(file, framing, position, digest)
                case Waiting() as waiting:
                    return waiting.waits
                case Failed(why=why):
                    return NotCopied(f"{wanted.by} could not replay it: {why}")
    finally:
        file.close()


async def _ended(file: AsideFile, framing: Framing, position: Position, digest: bytes) -> Written | NotCopied:
    await asyncio.to_thread(file.write, framing.end())
    await asyncio.to_thread(file.sync)
    found = framing.described
    if found.point.position != position:
        return NotCopied(f"the records ended at {position}, not at {found.point.position}")
    return Written(found, digest)
