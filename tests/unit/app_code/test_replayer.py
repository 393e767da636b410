"""A separate process replays with the code that made the records, and returns the state (E7)."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest
from old_counter import GROUP, records

from holdfast.app_code.copies import CodeCopies
from holdfast.app_code.digest import ClassCode, ModuleText, digest_of_all
from holdfast.app_code.replayer import CodeReplayer
from holdfast.execution.capture import Capture
from holdfast.execution.saved_state import read
from holdfast.groups.ports import Written
from holdfast.machine.pipe_frames import length_of
from holdfast.model.code import Code
from holdfast.model.errors import HoldfastError
from holdfast.model.ids import ClientId, Epoch, GroupId, Position
from holdfast.sequence.ports import Captured
from holdfast.storage.checkpoint import Framing, read_chunks, verify
from holdfast.storage.record import Point
from holdfast.styles.ports import NotCopied, Waits

COUNTER = """
import os, sys, time
import asyncio
from old_rules import STEP
import holdfast

class Counter:
    def __init__(self, start):
        self.count = start

    def add(self, by):
        print("what a class prints is not its state")
        self.count += by * STEP
        return self.count

    def die(self):
        os.kill(os.getpid(), 11)

    def hang(self):
        time.sleep(60)

    def leave(self):
        sys.exit(3)

    def look(self):
        import old_extra
        self.count = 1000

    async def nap(self):
        try:
            await asyncio.sleep(1)
        except Exception as error:
            self.count = 77 if type(error).__name__ == "CannotAwait" else -1

    async def ask(self):
        return await holdfast.context.group("other").total()
"""


def kept_in(directory: Path, step: int) -> Code:
    modules = (
        ModuleText("old_counter", False, COUNTER.encode()),
        ModuleText("old_rules", False, f"STEP = {step}\n".encode()),
    )
    code = Code("1", digest_of_all(modules))
    CodeCopies(directory).keep(ClassCode(code, modules))
    return code


class Host:
    """The surroundings that a host gives its processes."""

    def __init__(self, directory: Path, *, limit_s: float = 60.0, apps: tuple[Path, ...] = ()) -> None:
        self.store = directory / "store"
        self.store.mkdir(exist_ok=True)
        self.adopted: list[str] = []
        self.failures: list[HoldfastError] = []
        self.processes = CodeReplayer(
            CodeCopies(directory),
            self.store,
            self.adopted.append,
            self.failures.append,
            apps,
            limit_s=limit_s,
        )

    async def replay(
        self, code: Code, *methods: str | Code, kept: Captured | None = None
    ) -> Written | NotCopied | Waits:
        ended: asyncio.Future[Written | NotCopied | Waits] = asyncio.get_running_loop().create_future()
        first = kept.position if kept is not None else 0
        left = (each for each in records(*methods) if each.first > first)
        point = Point(Position(len(methods)), Epoch(1), 9)
        framing = Framing(GroupId(7), point, salt=1, chunk_bytes=1 << 16)
        assert self.processes.begin(GROUP, code, kept, left, "it.copy", framing, ended.set_result)
        assert not self.processes.begin(GROUP, code, kept, left, "it.copy", framing, ended.set_result)
        return await ended

    def count(self, result: Written) -> int:
        """The count in the state that was written."""
        (self.store / "it.copy").rename(self.store / result.checkpoint.name)
        disk = Files(self.store)
        assert verify(disk, result.checkpoint.name) == result.checkpoint
        chunks = read_chunks(disk, result.checkpoint)
        (found,) = (each for each in read(chunks, Capture(Bare), Bare) if each is not None)
        return int(found[1].count)

    def state(self, result: Written) -> Captured:
        disk = Files(self.store)
        return Captured(result.checkpoint.point.position, b"".join(read_chunks(disk, result.checkpoint)))


class Bare:
    count: int


class Files:
    """A read-only view of files."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def list(self) -> list[str]:
        return sorted(os.listdir(self._directory))

    def size(self, name: str) -> int:
        return (self._directory / name).stat().st_size

    def read(self, name: str, offset: int, length: int) -> bytes:
        return (self._directory / name).read_bytes()[offset : offset + length]


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(120):
            await work()

    asyncio.run(bounded())


def test_what_is_replayed_is_what_the_code_of_its_time_makes_of_it(tmp_path: Path) -> None:
    """This holds from the beginning and from a state, with classes that compute differently."""
    one, two = kept_in(tmp_path, 1), kept_in(tmp_path, 2)
    host = Host(tmp_path)

    async def work() -> None:
        first = await host.replay(one, one, "add 1", "add 2")
        assert isinstance(first, Written)
        assert host.adopted == ["it.copy"]
        assert host.count(first) == 8
        further = await host.replay(two, one, "add 1", "add 2", two, "add 10", kept=host.state(first))
        assert isinstance(further, Written)
        assert host.count(further) == 28

    run(work)
    assert host.failures == []


def test_nothing_is_imported_from_where_the_class_is_another_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This includes what the copy lacks: the replay fails rather than guesses. The host may have been started
    in that directory, with it on its path."""
    app = tmp_path / "app"
    app.mkdir()
    (app / "old_rules.py").write_text("STEP = 100\n")
    (app / "old_extra.py").write_text("x = 1\n")
    code, host = kept_in(tmp_path, 1), Host(tmp_path, apps=(app,))

    async def work() -> None:
        result = await host.replay(code, code, "add 1", "look")
        assert isinstance(result, Written)
        assert host.count(result) == 6

    monkeypatch.chdir(app)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(app), os.environ.get("PYTHONPATH", "")]))
    run(work)


@pytest.mark.parametrize(
    ("method", "why"), [("die", "ended with -11"), ("hang", r"more than 3 s"), ("missing", "")]
)
def test_whatever_the_class_does_there_it_does_to_that_process_alone(
    tmp_path: Path, method: str, why: str
) -> None:
    code, host = kept_in(tmp_path, 1), Host(tmp_path, limit_s=3.0 if method == "hang" else 60.0)

    async def work() -> None:
        result = await host.replay(code, code, "add 1", method)
        if why:
            assert isinstance(result, NotCopied)
            assert why in result.why
            assert list(host.store.iterdir()) == []
            assert host.adopted == []
        else:
            assert isinstance(result, Written)  # a call that raises is an ordinary call

    run(work)


def test_a_call_that_waits_for_another_group_is_told(tmp_path: Path) -> None:
    code, host = kept_in(tmp_path, 1), Host(tmp_path)

    async def work() -> None:
        result = await host.replay(code, code, "add 1", "ask")
        assert isinstance(result, Waits)
        assert (result.outgoing.group, result.outgoing.method, result.outgoing.position) == (
            "other",
            "total",
            3,
        )
        assert result.outgoing.caller == (ClientId("c"), 3)

    run(work)


def test_a_method_that_awaits_something_else_is_told_so_as_on_a_host(tmp_path: Path) -> None:
    """A host runs methods inside its event loop: what they find there, they find in a replay."""
    code, host = kept_in(tmp_path, 1), Host(tmp_path)

    async def work() -> None:
        result = await host.replay(code, code, "nap")
        assert isinstance(result, Written)
        assert host.count(result) == 77

    run(work)


def test_without_a_whole_copy_nothing_is_replayed(tmp_path: Path) -> None:
    code, host = kept_in(tmp_path, 1), Host(tmp_path)
    (tmp_path / "code" / code.digest / "modules" / "old_rules.py").write_text("STEP = 3\n")

    async def work() -> None:
        ended: asyncio.Future[Written | NotCopied | Waits] = asyncio.get_running_loop().create_future()
        framing = Framing(GroupId(7), Point(Position(1), Epoch(1), 9), salt=1, chunk_bytes=1 << 16)
        assert host.processes.begin(GROUP, code, None, records(code, "add 1"), "x", framing, ended.set_result)
        result = await ended
        assert isinstance(result, NotCopied)
        assert "not kept" in result.why

    assert not host.processes.is_kept(code)
    run(work)


def test_one_that_is_not_wanted_any_more_is_ended(tmp_path: Path) -> None:
    code, host = kept_in(tmp_path, 1), Host(tmp_path)

    async def work() -> None:
        told: list[object] = []
        framing = Framing(GroupId(7), Point(Position(1), Epoch(1), 9), salt=1, chunk_bytes=1 << 16)
        assert host.processes.begin(GROUP, code, None, records(code, "hang"), "it.copy", framing, told.append)
        while host.processes.pid is None:
            await asyncio.sleep(0.01)
        pid = host.processes.pid
        host.processes.cancel()
        while host.processes.pid is not None:
            await asyncio.sleep(0.01)
        with pytest.raises(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
        assert told == []
        assert list(host.store.iterdir()) == []

    run(work)


READING = """
from pathlib import Path

STEP = int((Path(__file__).parent / "step.txt").read_text())
"""


def reading_in(directory: Path) -> Code:
    """Keep a class with a module that reads a file beside it, which is not kept."""
    modules = (
        ModuleText("old_counter", False, COUNTER.encode()),
        ModuleText("old_rules", False, READING.encode()),
    )
    code = Code("2", digest_of_all(modules))
    CodeCopies(directory).keep(ClassCode(code, modules))
    app = directory / "app"
    app.mkdir()
    for each in modules:
        (app / each.path).write_bytes(each.source)
    (app / "step.txt").write_text("7")
    return code


def test_a_copy_that_lacks_a_file_names_it_as_it_lies_beside_the_class(tmp_path: Path) -> None:
    """Not where the copy is kept: that path is so long that the name at its end was cut off."""
    code, host = reading_in(tmp_path), Host(tmp_path, apps=(tmp_path / "app",))

    async def work() -> None:
        for result in (
            await host.replay(code, code, "add 1"),
            await host.processes.tried(GROUP, code, None, records(code, "add 1")),
        ):
            assert isinstance(result, NotCopied)
            assert result.why.endswith("No such file or directory: 'step.txt'")

    run(work)


def test_code_in_the_place_of_another_finds_what_lies_beside_it_in_the_application(tmp_path: Path) -> None:
    """While the application still has that code; another is never imported from there."""
    old, new = kept_in(tmp_path, 1), reading_in(tmp_path)
    host = Host(tmp_path, apps=(tmp_path / "app",))

    async def replayed() -> Written | NotCopied | Waits:
        ended: asyncio.Future[Written | NotCopied | Waits] = asyncio.get_running_loop().create_future()
        framing = Framing(GroupId(7), Point(Position(2), Epoch(1), 9), salt=1, chunk_bytes=1 << 16)
        given = records(old, "add 1")
        assert host.processes.begin(GROUP, old, None, given, "it.copy", framing, ended.set_result, new)
        return await ended

    async def work() -> None:
        result = await replayed()
        assert isinstance(result, Written)
        assert host.count(result) == 5 + 7
        (tmp_path / "app" / "old_rules.py").write_text("STEP = 100\n")
        assert isinstance(await replayed(), NotCopied)

    run(work)


def test_a_trial_returns_the_state_and_keeps_nothing(tmp_path: Path) -> None:
    code, host = kept_in(tmp_path, 3), Host(tmp_path)

    async def work() -> None:
        result = await host.processes.tried(GROUP, code, None, records(code, "add 1", "add 2"))
        assert isinstance(result, Captured)
        (found,) = (each for each in read(iter([result.state]), Capture(Bare), Bare) if each is not None)
        assert (result.position, found[1].count) == (3, 5 + 9)
        assert isinstance(await host.processes.tried(GROUP, code, None, records(code, "ask")), Waits)
        lost = await host.processes.tried(GROUP, Code("9", "9" * 32), None, records(code))
        assert isinstance(lost, NotCopied)

    run(work)
    assert not list(host.store.iterdir())
    assert not host.adopted


def test_messages_are_bounded() -> None:
    with pytest.raises(msgspec.ValidationError):
        length_of(b"\xff\xff\xff\xff")
