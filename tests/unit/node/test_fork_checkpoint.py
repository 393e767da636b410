"""Copies of a process that write large checkpoints: what they leave behind, and what they never delay."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.execution.capture import NoStateAvailable
from holdfast.groups.ports import Written
from holdfast.machine import process_tuning
from holdfast.machine.process_tuning import (
    NICENESS_MAX,
    SHORT_NS,
    USUAL_NS,
    ask_for_slices,
    niceness_in,
    restore_priority,
    slice_ns,
)
from holdfast.model.errors import HoldfastError, NoSpace
from holdfast.model.ids import Epoch, GroupId, Position
from holdfast.node.fork_checkpoint import NICENESS, ProcessCopies
from holdfast.storage.checkpoint import COPIED, Framing, checkpoint_name, checkpoint_of, read_chunks
from holdfast.storage.checkpoints import CheckpointStore
from holdfast.storage.disk import FileDisk
from holdfast.storage.lock import DirectoryLock, holder_of
from holdfast.storage.record import Point
from holdfast.styles.ports import NotCopied, Snapshot

GROUP = GroupId(7)
POINT = Point(Position(9), Epoch(2), 1234)
NAME = checkpoint_name(GROUP, POINT.position) + COPIED
WAIT_S = 30.0
STATE = os.urandom(700_000)


def no_pieces() -> Iterator[bytes]:
    yield from ()


def pieces() -> Iterator[bytes]:
    yield STATE[:400_000]
    yield STATE[400_000:]


def hang() -> Iterator[bytes]:
    yield STATE
    while True:
        time.sleep(1)


class World:
    """A process that makes copies of itself, and its store."""

    def __init__(self, directory: Path, *, limit_s: float = WAIT_S) -> None:
        self.directory = directory
        self.failures: list[HoldfastError] = []
        self.disk = FileDisk(directory, self._on_synced, asyncio.get_running_loop().call_soon_threadsafe)
        self.store = CheckpointStore(self.disk, salt=5, on_failed=self.failures.append)
        self.copies = ProcessCopies(directory, self.disk.adopt, self.failures.append, limit_s=limit_s)

    def begin(self, take: Callable[[], Iterator[bytes]]) -> "asyncio.Future[Written | NotCopied]":
        ended: asyncio.Future[Written | NotCopied] = asyncio.get_running_loop().create_future()
        name, framing = self.store.framing(GROUP, POINT)
        snapshot = Snapshot(POINT.position, take, lambda: b"digest")
        assert self.copies.begin(name, framing, snapshot, ended.set_result)
        return ended

    async def copy(self, take: Callable[[], Iterator[bytes]]) -> Written | NotCopied:
        return await asyncio.wait_for(self.begin(take), WAIT_S)

    @property
    def files(self) -> list[str]:
        return sorted(each.name for each in self.directory.iterdir())

    def _on_synced(self, token: object, ok: bool) -> None:
        self.store.on_synced(token, ok)  # type: ignore[arg-type]  # the store's own token comes back


def test_what_a_copy_writes_becomes_a_checkpoint(tmp_path: Path) -> None:
    """The checkpoint holds the whole state as of the fork, hashed; it is renamed when it is adopted."""

    async def run() -> None:
        world = World(tmp_path)
        result = await world.copy(pieces)
        assert isinstance(result, Written)
        assert (result.checkpoint.point, result.digest) == (POINT, b"digest")
        assert world.store.choose(GROUP).checkpoint is None
        kept = asyncio.Event()
        world.store.adopt(result.checkpoint, kept.set)
        await asyncio.wait_for(kept.wait(), WAIT_S)
        chosen = world.store.choose(GROUP)
        assert chosen.checkpoint == result.checkpoint
        assert b"".join(read_chunks(world.disk, result.checkpoint)) == STATE
        assert not world.failures

    asyncio.run(run())


def test_a_copy_sees_the_object_as_it_was(tmp_path: Path) -> None:
    """What the host does after the fork is not in the checkpoint."""

    async def run() -> None:
        world = World(tmp_path)
        accounts = {"alice": "before"}

        def take() -> Iterator[bytes]:
            time.sleep(0.05)
            yield accounts["alice"].encode()

        ended = world.begin(take)
        accounts["alice"] = "after"
        result = await asyncio.wait_for(ended, WAIT_S)
        assert isinstance(result, Written)
        assert b"before" in (tmp_path / NAME).read_bytes()

    asyncio.run(run())


def test_a_copy_that_fails_leaves_nothing_and_the_next_one_works(tmp_path: Path) -> None:
    async def run() -> None:
        world = World(tmp_path)

        def fail() -> Iterator[bytes]:
            yield STATE
            raise ValueError("not today")

        def refuse() -> Iterator[bytes]:
            raise NoStateAvailable
            yield b""

        assert await world.copy(fail) == NotCopied("ValueError('not today')")
        assert await world.copy(refuse) == NotCopied("")
        assert world.files == []
        assert isinstance(await world.copy(pieces), Written)
        assert not world.failures

    asyncio.run(run())


def test_a_copy_that_hangs_is_killed(tmp_path: Path) -> None:
    """The copy is killed and reported after its time limit; there is never a second one beside it."""

    async def run() -> None:
        world = World(tmp_path, limit_s=0.3)
        ended = world.begin(hang)
        name, framing = world.store.framing(GROUP, POINT)
        snapshot = Snapshot(POINT.position, pieces, lambda: b"")
        assert not world.copies.begin(name, framing, snapshot, lambda _: None)
        result = await asyncio.wait_for(ended, WAIT_S)
        assert isinstance(result, NotCopied)
        assert "0.3 s" in result.why
        assert world.files == []

    asyncio.run(run())


def test_a_copy_that_is_cancelled_says_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        world = World(tmp_path)
        cancelled = world.begin(hang)
        world.copies.cancel()
        for _ in range(int(WAIT_S / 0.01)):
            name, framing = world.store.framing(GROUP, POINT)
            snapshot = Snapshot(POINT.position, no_pieces, lambda: b"")
            if world.copies.begin(name, framing, snapshot, lambda _: None):
                break
            await asyncio.sleep(0.01)
        else:
            raise AssertionError("the copy was not ended")
        assert not cancelled.done()
        world.copies.cancel()

    asyncio.run(run())


def test_a_full_disk_stops_the_member(tmp_path: Path) -> None:
    """A copy's failure to write is a failure of the disk (D1), not of the object."""

    async def run() -> None:
        world = World(tmp_path)
        (tmp_path / NAME).symlink_to("/dev/full")
        result = await world.copy(pieces)
        assert isinstance(result, NotCopied)
        assert [type(each) for each in world.failures] == [NoSpace]

    asyncio.run(run())


def test_a_copy_keeps_no_connection_alive(tmp_path: Path) -> None:
    """Peers of the host see its connections close, though a copy of it still runs."""

    async def run() -> None:
        world = World(tmp_path)
        reader, writer = os.pipe()
        world.begin(hang)
        os.close(writer)
        async with asyncio.timeout(WAIT_S):
            await asyncio.to_thread(os.read, reader, 1)
        os.close(reader)
        world.copies.cancel()

    asyncio.run(run())


HOST = f"""
import asyncio, sys
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_fork_checkpoint import World, hang
from holdfast.storage.lock import DirectoryLock, Holder

async def main():
    lock = DirectoryLock.take(Path(sys.argv[1]) / "host", Holder(pid=0, what="a test"))
    world = World(Path(sys.argv[1]) / "store")
    world.begin(hang)
    print(world.copies.pid, flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


def test_a_copy_dies_with_its_host_and_never_holds_its_lock(tmp_path: Path) -> None:
    """Getting the lock proves that the host is gone (K2); its copy ends by itself."""
    with subprocess.Popen([sys.executable, "-c", HOST, str(tmp_path)], stdout=subprocess.PIPE) as host:
        assert host.stdout is not None
        copy = os.pidfd_open(int(host.stdout.readline()))
        assert holder_of(tmp_path / "host") is not None
        host.kill()
        host.wait()
        DirectoryLock.take(tmp_path / "host").release()
        deadline = time.monotonic() + WAIT_S
        while _is_alive(copy) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not _is_alive(copy)
        os.close(copy)


def _is_alive(pidfd: int) -> bool:
    try:
        signal.pidfd_send_signal(pidfd, 0)  # type: ignore[arg-type]  # 0 asks, and sends nothing
    except ProcessLookupError:
        return False
    return True


def test_framing_gives_the_same_bytes_however_the_state_is_cut() -> None:
    one, other = (Framing(GROUP, POINT, salt=1, chunk_bytes=1000) for _ in range(2))
    whole = b"".join([*one.framed(STATE), one.end()])
    parts = [STATE[at : at + 333] for at in range(0, len(STATE), 333)]
    cut = b"".join([*(chunk for part in parts for chunk in other.framed(part)), other.end()])
    assert whole == cut
    assert one.described == other.described


@pytest.mark.parametrize("name", [NAME, NAME.removesuffix(COPIED)])
def test_the_name_says_which_checkpoint_it_is(name: str) -> None:
    assert checkpoint_of(name) == (GROUP, POINT.position)


def niceness(pid: int | str) -> int:
    """The niceness of a session, on systems that share the processor by session."""
    return niceness_in(Path(f"/proc/{pid}/autogroup").read_text(encoding="ascii"))


@pytest.mark.parametrize(("said", "meant"), [("/autogroup-21 nice -3\n", -3), ("", 0), ("\n", 0)])
def test_the_session_that_everybody_begins_in_has_no_niceness(said: str, meant: int) -> None:
    """The kernel says nothing of it; a host started by a bare init is in it."""
    assert niceness_in(said) == meant


def test_a_copy_that_cannot_part_from_its_host_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int) -> None:
        raise IndexError("nothing there")

    async def run() -> None:
        world = World(tmp_path)
        monkeypatch.setattr(os, "nice", fail)
        result = await world.copy(pieces)
        assert result == NotCopied("it could not part from its host: IndexError('nothing there')")
        world.disk.close()

    asyncio.run(run())


def test_a_copy_goes_behind_its_host(tmp_path: Path) -> None:
    """The copy's niceness is higher, which every kernel honours among the processes of one session."""

    async def run() -> None:
        world = World(tmp_path)
        ended = world.begin(hang)
        pid, mine = world.copies.pid, os.getpriority(os.PRIO_PROCESS, 0)
        assert pid is not None
        async with asyncio.timeout(WAIT_S):
            while os.getpriority(os.PRIO_PROCESS, pid) != min(mine + NICENESS, NICENESS_MAX):
                await asyncio.sleep(0.01)
        os.kill(pid, signal.SIGKILL)
        await ended
        world.disk.close()

    asyncio.run(run())


def test_a_copy_is_made_where_the_kernel_knows_no_autogroups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without autogroups, there is no session priority to lower and none to restore."""

    async def run() -> None:
        world = World(tmp_path)
        monkeypatch.setattr(process_tuning, "_session_of", lambda _: tmp_path / "absent" / "autogroup")
        assert isinstance(await world.copy(pieces), Written)
        restore_priority(os.getpid())
        world.disk.close()

    asyncio.run(run())


# The test above covers kernels without autogroups.
def test_a_copy_has_not_the_short_slices_of_its_host(tmp_path: Path) -> None:
    """The copy computes for long, and must not run before threads that have a message to answer."""
    usual_ns = slice_ns()
    if not (ask_for_slices(SHORT_NS) and slice_ns() == SHORT_NS):
        pytest.skip("this kernel grants no slices (Linux before 6.12, or forbidden here)")

    async def run() -> None:
        world = World(tmp_path)
        ended = world.begin(hang)
        assert world.copies.pid is not None
        async with asyncio.timeout(WAIT_S):
            while slice_ns(world.copies.pid) != usual_ns:
                await asyncio.sleep(0.01)
        os.kill(world.copies.pid, signal.SIGKILL)
        await ended
        world.disk.close()

    try:
        asyncio.run(run())
    finally:
        ask_for_slices(USUAL_NS)


# A kernel may be built without autogroups; then no session's niceness can be read.
@pytest.mark.skipif(not Path("/proc/self/autogroup").exists(), reason="no autogroups in this kernel")
def test_a_copy_leaves_the_processor_to_its_host_but_not_for_ever(tmp_path: Path) -> None:
    """The copy starts with low priority; later it gets its share, or it might never end."""

    async def run() -> None:
        world = World(tmp_path)
        ended = world.begin(hang)
        pid, mine = world.copies.pid, niceness("self")
        assert pid is not None
        async with asyncio.timeout(WAIT_S):
            while niceness(pid) != min(mine + NICENESS, NICENESS_MAX):
                await asyncio.sleep(0.01)
        restore_priority(pid)
        assert niceness(pid) == mine
        os.kill(pid, signal.SIGKILL)
        await ended
        world.disk.close()

    asyncio.run(run())
