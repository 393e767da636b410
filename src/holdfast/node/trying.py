"""Trying new code on a group's present state, at a host that has it (E7)."""

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import msgspec

from holdfast.housing.groups import Groups
from holdfast.housing.housed import Housed
from holdfast.model.code_orders import CodeInfo, TryUpgrade, UpgradeTried
from holdfast.model.errors import HoldfastError, Unavailable
from holdfast.model.ids import Position
from holdfast.node.classes import allowed_classes, app_directories
from holdfast.node.creating import Creating
from holdfast.node.old_code import MEMORY_BYTES, MEMORY_PER_BYTE
from holdfast.node.old_messages import HEAD_BYTES, Chunk, End, Ordered, framed, framed_raw, length_of
from holdfast.node.trial import Trial, Tried
from holdfast.sequence.ports import Kept, chunks_of
from holdfast.storage.record import Record

LIMIT_S: Final = 18.0
"""Whoever asks waits for an answer no longer than this."""
TAIL_BYTES_MAX: Final = 64 << 20
"""Of the records that are executed for comparison; a longer tail is left out."""
_PROGRAM: Final = ("-P", "-B", "-m", "holdfast.node.trial")


class Trying:
    """Through one host, of the groups that it houses."""

    def __init__(self, groups: Groups, creating: Creating) -> None:
        self._groups = groups
        self._creating = creating
        self._one = asyncio.Lock()

    async def do(self, order: TryUpgrade) -> UpgradeTried:
        """Raises ``NoSuchGroup``; ``Unavailable`` where there is no state of it."""
        record = (await self._creating.found(order.name)).value
        housed = self._groups.housed.get(record.group)
        state = _state(housed) if housed is not None else None
        if housed is None or state is None:
            raise Unavailable(f"{self._groups.me.host} has no state of {order.name} to try it on")
        async with self._one:
            found = await self._tried(housed, state)
        return UpgradeTried(
            code=CodeInfo.of(found.code),
            from_code=CodeInfo.of(housed.code),
            position=state.position,
            refused=found.refused,
            says=found.says,
        )

    async def _tried(self, housed: Housed, state: Kept) -> Tried:
        checkpoint = self._groups.kept(housed.record)
        records = _tail(housed, checkpoint, state.position)
        (app, *_) = app_directories()
        wanted = Trial(
            record=housed.record,
            app=str(app),
            allowed=allowed_classes(),
            memory_bytes=MEMORY_BYTES + 2 * MEMORY_PER_BYTE * state.size,
            position=state.position,
            state_chunks=_count(state),
            checkpoint_position=checkpoint.position if checkpoint is not None else Position(0),
            checkpoint_chunks=_count(checkpoint) if checkpoint is not None and records else 0,
        )
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *_PROGRAM,
            str(os.getpid()),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            assert process.stdin is not None  # both were asked for
            assert process.stdout is not None
            async with asyncio.timeout(LIMIT_S):
                with suppress(BrokenPipeError, ConnectionResetError):  # it says why, or how it ended
                    for each in _frames(wanted, state, checkpoint, records):
                        process.stdin.write(each)
                        await process.stdin.drain()
                length = length_of(await process.stdout.readexactly(HEAD_BYTES))
                return msgspec.msgpack.decode(await process.stdout.readexactly(length), type=Tried)
        except TimeoutError:
            return Tried(refused=f"it took more than {LIMIT_S:g} s to try it")
        except (EOFError, msgspec.MsgspecError, HoldfastError) as error:
            return Tried(refused=f"it could not be tried: {error}")
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def _state(housed: Housed) -> Kept | None:
    """The newest there is here, of an object or kept; None where the class as it is here gives none."""
    try:
        return housed.replica.capture()
    except HoldfastError:
        return None


def _count(kept: Kept) -> int:
    return -(-kept.size // kept.chunk_bytes)


def _tail(housed: Housed, checkpoint: Kept | None, up_to: Position) -> list[Record]:
    """What was executed since the checkpoint; nothing, when that is too much, or cannot be had just now."""
    first = Position((checkpoint.position if checkpoint is not None else 0) + 1)
    if first > up_to:
        return []
    try:
        found = housed.member.read(first, up_to)
    except HoldfastError:
        return []
    return found if sum(len(each.body) for each in found) <= TAIL_BYTES_MAX else []


def _frames(wanted: Trial, state: Kept, checkpoint: Kept | None, records: list[Record]) -> Iterator[bytes]:
    yield framed_raw(msgspec.msgpack.encode(wanted))
    for chunk in chunks_of(state):
        yield framed(Chunk(chunk))
    if wanted.checkpoint_chunks and checkpoint is not None:
        for chunk in chunks_of(checkpoint):
            yield framed(Chunk(chunk))
    for record in records:
        yield framed(Ordered(record.encoded()))
    yield framed(End())
