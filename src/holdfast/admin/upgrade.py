"""Which code groups shall go on with, as people order it of any host (E7).

Trying new code on a group's present state, at a host that has it (E7).
"""

import asyncio
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Final

import msgspec

from holdfast.admin.groups import GroupsAdmin
from holdfast.app_code.loader import allowed_classes, app_directories
from holdfast.app_code.replay_messages import HEAD_BYTES, Chunk, End, Ordered, framed, framed_raw, length_of
from holdfast.app_code.replayer import MEMORY_BYTES, MEMORY_PER_BYTE
from holdfast.app_code.trial_process import Trial, Tried
from holdfast.authority.driver import insist
from holdfast.authority.group_code import wish_upgrade, withdraw_upgrade
from holdfast.authority.recipe import Authority, Seen, perform
from holdfast.authority.views import NoGroup
from holdfast.groups.host_groups import HostGroups
from holdfast.groups.hosted_group import HostedGroup
from holdfast.model.admin.groups import GroupList
from holdfast.model.admin.upgrades import CodeInfo, TryUpgrade, UpgradeGroup, UpgradeTried, WithdrawUpgrade
from holdfast.model.code import Code
from holdfast.model.errors import HoldfastError, NoSuchGroup, Unavailable
from holdfast.model.ids import Nonce, Position
from holdfast.sequence.ports import Kept, chunks_of
from holdfast.storage.record import Record


class UpgradeWishes:
    """Does such orders, through one host."""

    def __init__(self, authority: Authority, creating: GroupsAdmin, nonces: Callable[[], Nonce]) -> None:
        self._authority = authority
        self._creating = creating
        self._nonces = nonces

    async def do(self, order: UpgradeGroup | WithdrawUpgrade) -> GroupList:
        """It is a wish then; that the group is served by that code shows in what is known of it. Raises
        ``NoSuchGroup``."""
        record, nonce = (await self._creating.found(order.name)).value, self._nonces()
        if isinstance(order, UpgradeGroup):
            code = Code(order.version, order.digest)
            recipe = partial(wish_upgrade, record.group, code, replays=order.replays, nonce=nonce)
        else:
            recipe = partial(withdraw_upgrade, record.group, nonce=nonce)
        done = await insist(lambda: perform(self._authority, recipe()), Seen, NoGroup)
        if isinstance(done, NoGroup):
            raise NoSuchGroup(f"there is no group {order.name!r}")
        return GroupList(groups=(await self._creating.info(order.name),))


LIMIT_S: Final = 18.0
"""Whoever asks waits for an answer no longer than this."""
READ_BACK_S: Final = 4.0
"""In which a state that is too large to be captured between two calls should be there, read back."""
POLL_S: Final = 0.05
TAIL_BYTES_MAX: Final = 64 << 20
"""Of the records that are executed for comparison; a longer tail is left out."""
_PROGRAM: Final = ("-P", "-B", "-m", "holdfast.app_code.trial_process")


class UpgradeTrial:
    """Through one host, of the groups that it houses."""

    def __init__(self, groups: HostGroups, creating: GroupsAdmin) -> None:
        self._groups = groups
        self._creating = creating
        self._one = asyncio.Lock()

    async def do(self, order: TryUpgrade) -> UpgradeTried:
        """Raises ``NoSuchGroup``; ``Unavailable`` where there is no state of it. What the old code executed
        reaches the new one as a state that was read back (E9): while there can be none, it is refused."""
        record = (await self._creating.found(order.name)).value
        housed = self._groups.housed.get(record.group)
        state = await _state(housed) if housed is not None else None
        if housed is None or state is None:
            raise Unavailable(f"{self._groups.me.host} has no state of {order.name} to try it on")
        unreadable = _unreadable(housed)
        async with self._one:
            found = await self._tried(housed, state)
        return UpgradeTried(
            code=CodeInfo.of(found.code),
            from_code=CodeInfo.of(housed.code),
            position=state.position,
            refused=unreadable or found.refused,
            says=found.says if not unreadable else (),
        )

    async def _tried(self, housed: HostedGroup, state: Kept) -> Tried:
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
            operations=tuple(housed.replica.definition.interface.operations),
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


async def _state(housed: HostedGroup) -> Kept | None:
    """The newest there is here, of an object or kept; None where the class as it is here gives none. A
    primary is given time to have one of all that is committed."""
    try:
        replica, wanted = housed.replica, housed.member.committed
        for _ in range(round(READ_BACK_S / POLL_S)):
            if not housed.is_ready or replica.capture(wanted) is not None or replica.is_unreadable(wanted):
                break
            await asyncio.sleep(POLL_S)
        return replica.capture()
    except HoldfastError:
        return None


def _unreadable(housed: HostedGroup) -> str:
    """Why the group's state as it is now is none that other code could be given; empty when it is."""
    if not housed.is_ready or not housed.why_no_checkpoint:
        return ""
    return (
        f"its state cannot be read back: {housed.why_no_checkpoint}. "
        "Put that right by calls while the old code serves, then upgrade"
    )


def _count(kept: Kept) -> int:
    return -(-kept.size // kept.chunk_bytes)


def _tail(housed: HostedGroup, checkpoint: Kept | None, up_to: Position) -> list[Record]:
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
