"""Says which code a group is to continue with, and tries new code on a group's present state (E7).

:class:`UpgradeWishes` records the desired code, as operators order it of any host. :class:`UpgradeTrial`
tries the new code at a host that has it.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

import msgspec

from holdfast.admin.groups import GroupsAdmin
from holdfast.app_code.loader import allowed_classes, app_directories
from holdfast.app_code.replay_messages import Chunk, End, Ordered, framed
from holdfast.app_code.replayer import MEMORY_BYTES, MEMORY_PER_BYTE, CodeReplayer
from holdfast.app_code.trial_process import Trial, Tried
from holdfast.authority.driver import insist
from holdfast.authority.group_code import wish_upgrade, withdraw_upgrade
from holdfast.authority.recipe import Authority, Seen, perform
from holdfast.authority.views import NoGroup
from holdfast.groups.host_groups import HostGroups
from holdfast.groups.hosted_group import HostedGroup
from holdfast.machine import pipe_frames
from holdfast.machine.worker_process import WorkerProcess
from holdfast.model.admin.groups import GroupList
from holdfast.model.admin.upgrades import CodeInfo, TryUpgrade, UpgradeGroup, UpgradeTried, WithdrawUpgrade
from holdfast.model.code import Code
from holdfast.model.errors import HoldfastError, NoSuchGroup, Unavailable
from holdfast.model.ids import Nonce, Position
from holdfast.sequence.ports import Captured, Kept, chunks_of
from holdfast.storage.record import Record
from holdfast.styles.code_replay import Tail
from holdfast.styles.ports import NotCopied, Waits

Given = TypeVar("Given")


class UpgradeWishes:
    """Executes orders to upgrade groups through one host."""

    def __init__(self, authority: Authority, groups_admin: GroupsAdmin, nonces: Callable[[], Nonce]) -> None:
        self._authority = authority
        self._groups_admin = groups_admin
        self._nonces = nonces

    async def do(self, order: UpgradeGroup | WithdrawUpgrade) -> GroupList:
        """Record or withdraw the request; the group's information shows its effect. Raises
        ``NoSuchGroup``.
        """
        record, nonce = (await self._groups_admin.found(order.name)).value, self._nonces()
        if isinstance(order, UpgradeGroup):
            code = Code(order.version, order.digest)
            recipe = partial(wish_upgrade, record.group, code, replays=order.replays, nonce=nonce)
        else:
            recipe = partial(withdraw_upgrade, record.group, nonce=nonce)
        done = await insist(lambda: perform(self._authority, recipe()), Seen, NoGroup)
        if isinstance(done, NoGroup):
            raise NoSuchGroup(f"there is no group {order.name!r}")
        return GroupList(groups=(await self._groups_admin.info(order.name),))


LIMIT_S: Final = 18.0
"""The time for a trial in which it had a core or waited for something else than one. It gives way to all that
serves, so on a busy machine it is the machine that takes long, and that says nothing about the code."""
WHOLE_S: Final = 90.0
"""The time for a trial on any machine. The client waits a little longer (``client.admin_client.TRIAL_S``)."""
READ_BACK_S: Final = 4.0
"""The time for capturing and reading back a state too large to be captured between two calls."""
POLL_S: Final = 0.05
TAIL_BYTES_MAX: Final = 64 << 20
"""The limit on the records that are executed for comparison; a longer tail is skipped."""
STRETCHES_MAX: Final = 16
"""The most changes of the code since a checkpoint through which older code is tried."""
_PROGRAM: Final = "holdfast.app_code.trial_process"


class UpgradeTrial:
    """Tries new code through one host, on the groups that it runs."""

    def __init__(self, groups: HostGroups, groups_admin: GroupsAdmin) -> None:
        self._groups = groups
        self._groups_admin = groups_admin
        self._one = asyncio.Lock()

    async def do(self, order: TryUpgrade) -> UpgradeTried:
        """Try the code. Raises ``NoSuchGroup``, or ``Unavailable`` if this host has no state of the group.

        The new code receives what the old one executed as a state that was read back (E9). While no such
        state can be made, the upgrade is refused.
        """
        record = (await self._groups_admin.found(order.name)).value
        hosted = self._groups.hosted.get(record.group)
        state = await _state(hosted) if hosted is not None else None
        if hosted is None or state is None:
            raise Unavailable(f"{self._groups.me.host} has no state of {order.name} to try it on")
        unreadable = _unreadable(hosted)
        async with self._one:
            until_s = asyncio.get_running_loop().time() + WHOLE_S
            found = await self._tried(hosted, state, until_s)
            last = self._last(hosted)
            if found.code.digest and not order.replays:
                came = await self._replayed(hosted, last, found.code, until_s)
                if isinstance(came, Captured) and not hosted.is_ready:
                    # Nobody serves, so what the old code makes of the log is the newest state.
                    state, found = came, await self._tried(hosted, came, until_s)
                found = _with(found, came, last)
        return UpgradeTried(
            code=CodeInfo.of(found.code),
            from_code=CodeInfo.of(last.code if last.code.digest else hosted.code),
            position=state.position,
            refused=unreadable or found.refused,
            says=found.says if not unreadable else (),
        )

    def _last(self, hosted: HostedGroup) -> "_Last":
        kept = self._groups.kept(hosted.record)
        return _Last(kept, _tail(hosted, kept, hosted.member.committed))

    async def _replayed(
        self, hosted: HostedGroup, last: "_Last", new: Code, until_s: float
    ) -> Captured | NotCopied | Waits | None:
        """What older code makes of the records since the checkpoint, as an upgrade to *new* lets it (E7).

        None if there is nothing for it to replay, or if this host does not keep it and need not: the group is
        served, and the member that takes over keeps its own copies.
        """
        port = hosted.old_code.port if hosted.old_code is not None else None
        if not isinstance(port, CodeReplayer):
            return None
        kept: Kept | None = last.kept
        came: Captured | None = None
        for _ in range(STRETCHES_MAX):
            tail = _after(kept, last.records)
            if tail.foreign(new) is None:
                return came
            stretch = tail.first()
            if hosted.is_ready and not port.is_kept(stretch.code):
                return None
            records = (each for each in last.records if tail.start < each.first <= stretch.last)
            try:
                async with asyncio.timeout_at(until_s):
                    ended = await port.tried(hosted.record, stretch.code, tail.kept, records)
            except TimeoutError:
                return None
            if not isinstance(ended, Captured):
                return ended
            kept = came = ended
        return came

    async def _tried(self, hosted: HostedGroup, state: Kept, until_s: float) -> Tried:
        checkpoint = self._groups.kept(hosted.record)
        records = _tail(hosted, checkpoint, state.position)
        (app, *_) = app_directories()
        wanted = Trial(
            record=hosted.record,
            app=str(app),
            allowed=allowed_classes(),
            memory_bytes=MEMORY_BYTES + 2 * MEMORY_PER_BYTE * state.size,
            position=state.position,
            state_chunks=_count(state),
            checkpoint_position=checkpoint.position if checkpoint is not None else Position(0),
            checkpoint_chunks=_count(checkpoint) if checkpoint is not None and records else 0,
            operations=tuple(hosted.replica.definition.interface.operations),
        )
        process = await WorkerProcess.start(_PROGRAM)

        async def work() -> bytes:
            with suppress(BrokenPipeError, ConnectionResetError):  # the answer or the exit says why
                for each in _frames(wanted, state, checkpoint, records):
                    await process.write(each)
            return await process.read()

        try:
            answer = await within(work(), LIMIT_S, until_s, process.without_core_s)
            return msgspec.msgpack.decode(answer, type=Tried)
        except TookTooLong:
            return Tried(refused=f"it took more than {LIMIT_S:g} s to try it")
        except TimeoutError:
            busy = f"this machine is too busy: {WHOLE_S:g} s were not enough to try it"
            return Tried(refused=f"{busy}. Order it again when there is less to do")
        except (EOFError, msgspec.MsgspecError, HoldfastError) as error:
            return Tried(refused=f"it could not be tried: {error}")
        finally:
            await process.end()


class TookTooLong(TimeoutError):
    """Raised when work had all the time it may take, and did not end."""


async def within(
    work: Coroutine[Any, Any, Given], limit_s: float, until_s: float, without_core_s: Callable[[], float]
) -> Given:
    """Wait for *work*, in a process that had no core for *without_core_s* of the time.

    Raises :class:`TookTooLong` after *limit_s* without that, and ``TimeoutError`` at *until_s*.
    """
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    task = asyncio.ensure_future(work)
    try:
        while not task.done():
            await asyncio.wait([task], timeout=min(POLL_S, limit_s))
            if task.done():
                break
            if loop.time() - began_s - without_core_s() > limit_s:
                raise TookTooLong
            if loop.time() > until_s:
                raise TimeoutError
        return task.result()
    finally:
        task.cancel()


@dataclass(frozen=True, slots=True)
class _Last:
    """The newest checkpoint of a group on this host (None: its start), and the records after it; no records
    if they are too long."""

    kept: Kept | None
    records: list[Record]

    @property
    def code(self) -> Code:
        """The code that made the last of them."""
        return _after(self.kept, self.records).code


def _after(kept: Kept | None, records: list[Record]) -> Tail:
    """What follows *kept*, or the last state among the records, which no code need execute."""
    tail = Tail(kept)
    tail.take(records)
    if tail.state is not None and tail.state[0] > tail.start:
        tail = Tail(Captured(*tail.state))
        tail.take(records)
    return tail


def _with(found: Tried, came: Captured | NotCopied | Waits | None, last: _Last) -> Tried:
    """The result of the trial with what the kept copy of the old code told."""
    if not isinstance(came, NotCopied) or found.refused:
        return found
    since = f"checkpoint {last.kept.position}" if last.kept is not None else "the beginning"
    why = f"older code must replay the calls since {since}, but {came.why or 'has no state to give'}"
    helps = "put right what it lacks, upgrade after the next checkpoint, or let the new code replay them"
    return msgspec.structs.replace(found, refused=f"{why}; {helps} with --replay")


async def _state(hosted: HostedGroup) -> Kept | None:
    """The newest state on this host, captured or kept; None if the class here provides none.

    A primary gets time to capture one that contains everything committed.
    """
    try:
        replica, wanted = hosted.replica, hosted.member.committed
        for _ in range(round(READ_BACK_S / POLL_S)):
            if not hosted.is_ready or replica.capture(wanted) is not None or replica.is_unreadable(wanted):
                break
            await asyncio.sleep(POLL_S)
        return replica.capture()
    except HoldfastError:
        return None


def _unreadable(hosted: HostedGroup) -> str:
    """Why other code could not be given the group's current state; empty if it could."""
    if not hosted.is_ready or not hosted.why_no_checkpoint:
        return ""
    return (
        f"its state cannot be read back: {hosted.why_no_checkpoint}. "
        "Put that right by calls while the old code serves, then upgrade"
    )


def _count(kept: Kept) -> int:
    return -(-kept.size // kept.chunk_bytes)


def _tail(hosted: HostedGroup, checkpoint: Kept | None, up_to: Position) -> list[Record]:
    """The records since the checkpoint; none if they are too long or cannot be read just now."""
    first = Position((checkpoint.position if checkpoint is not None else 0) + 1)
    if first > up_to:
        return []
    try:
        found = hosted.member.read(first, up_to)
    except HoldfastError:
        return []
    return found if sum(len(each.body) for each in found) <= TAIL_BYTES_MAX else []


def _frames(wanted: Trial, state: Kept, checkpoint: Kept | None, records: list[Record]) -> Iterator[bytes]:
    yield pipe_frames.framed(msgspec.msgpack.encode(wanted))
    for chunk in chunks_of(state):
        yield framed(Chunk(chunk))
    if wanted.checkpoint_chunks and checkpoint is not None:
        for chunk in chunks_of(checkpoint):
            yield framed(Chunk(chunk))
    for record in records:
        yield framed(Ordered(record.encoded()))
    yield framed(End())
