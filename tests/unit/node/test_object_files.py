"""The databases of a host's stored objects on real files: made, settled, checkpointed and opened again."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import apsw
import pytest
from group_classes import call, definition, run

import holdfast as hf
from holdfast.execution.database import StorageLost
from holdfast.execution.execution import Execution
from holdfast.groups.object_file import FILE, ObjectFile
from holdfast.groups.ports import Written
from holdfast.groups.stored_object import OFFERS_MAX, SUFFIX, StoredObject
from holdfast.machine import MachineClock
from holdfast.model.errors import HoldfastError, Unavailable
from holdfast.model.ids import Epoch, GroupId
from holdfast.node.object_files import DIRECTORY, ObjectDirectory
from holdfast.sequence.ports import Captured, Kept
from holdfast.shipping import manifest
from holdfast.shipping.manifest import CHUNK_BYTES, Contents, digest_of
from holdfast.storage.checkpoint import COPIED, Framing, checkpoint_name, read_chunks, read_header
from holdfast.storage.disk import Directory
from holdfast.storage.record import Point
from holdfast.storage.segments import Readable
from holdfast.styles.ports import NotCopied, Snapshot

WAIT_S = 60.0


class Words(hf.Stored):
    schema = "CREATE TABLE words (word TEXT NOT NULL)"

    def add(self, word: str) -> None:
        self.database.execute("INSERT INTO words VALUES (?)", word)


def no_shipping() -> NoReturn:
    raise Unavailable("shipping does not run here")


async def answered(begin: Callable[[Callable[[Any], None]], object]) -> Any:
    """What an asynchronous method of the files answers."""
    answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    begin(answer.set_result)
    return await asyncio.wait_for(answer, WAIT_S)


class Member:
    """One member's files and object."""

    def __init__(self, directory: Path, shipping: Callable[[], Any] = no_shipping) -> None:
        self.store = directory / "store"
        self.store.mkdir(exist_ok=True)
        self.adopted: list[str] = []
        self.failed: list[HoldfastError] = []
        self.damaged: list[str] = []
        self.files = ObjectDirectory(directory, self.store, self.adopted.append, self.failed.append, shipping)
        loop = asyncio.get_running_loop()
        self.stored = StoredObject(
            GroupId(1), Words.schema, self.files, MachineClock(), loop.call_soon, self.damaged.append
        )
        self.definition = replace(definition(Words), files=self.stored)

    async def checkpoint(self, execution: Execution) -> bytes:
        """Make a checkpoint of the object; returns its state."""
        position = execution.position
        framing = Framing(GroupId(1), Point(position, Epoch(1), 7), salt=1, chunk_bytes=1 << 16)
        snapshot = Snapshot(position, execution.pieces, execution.digest)
        name = checkpoint_name(GroupId(1), position) + COPIED
        written = await answered(lambda then: self.stored.begin(name, framing, snapshot, then))
        assert isinstance(written, Written), written
        assert self.adopted[-1] == name
        (self.store / name).rename(self.store / written.checkpoint.name)
        found = read_header(Directory(self.store), written.checkpoint.name)
        return b"".join(read_chunks(Directory(self.store), found))


def words(execution: Execution) -> list[str]:
    assert execution.database is not None
    return [word for (word,) in execution.database.execute("SELECT word FROM words", (), is_query=True)]


def test_a_checkpoint_is_small_and_the_next_process_goes_on_with_the_file(tmp_path: Path) -> None:
    async def life() -> None:
        member = Member(tmp_path)
        execution = Execution(member.definition)
        run(execution, *(call(number, "add", str(number) * 1000) for number in range(1, 200)))
        state = await member.checkpoint(execution)
        run(execution, call(200, "add", "not flushed"))
        assert len(state) < 60_000 < sum(map(len, words(execution)))
        execution.discard()

        again = Member(tmp_path)
        found = Execution.load(again.definition, state)
        assert (found.position, len(words(found))) == (199, 199)
        run(found, call(200, "add", "again"))
        assert words(found)[-1] == "again"
        assert (member.failed, again.failed) == ([], [])

    asyncio.run(life())


class Offers:
    """Shipping that only notes what is offered (in place of a thread with sockets)."""

    def __init__(self) -> None:
        self.sources: dict[bytes, tuple[Contents, Readable]] = {}
        self.asked: set[bytes] | None = None
        """The manifests of which chunks were asked for lately; None: all."""

    def offer_from(self, contents: Contents, source: Readable) -> None:
        self.sources[contents.id] = (contents, source)

    def withdraw(self, manifest: bytes) -> None:
        self.sources.pop(manifest, None)

    def asked_ns(self, manifest: bytes) -> int | None:
        return MachineClock().now() if self.asked is None or manifest in self.asked else None

    def drop(self, contents: Contents) -> "Future[None]":
        done: Future[None] = Future()
        done.set_result(None)
        return done


def is_right(contents: Contents, source: Readable) -> bool:
    (file,) = contents.files
    chunks = contents.chunks(file)
    return all(digest_of(source.read(FILE, each.offset, each.length)) == each.digest for each in chunks)


def test_what_is_fetched_stays_as_it_was_and_only_what_changed_is_hashed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W8. Checkpoints go on while others fetch: each manifest is what hashing the whole file comes to, and
    each that is fetched is served as it was, until nobody wants it."""
    offers, hashed = Offers(), 0

    def counted(data: bytes) -> bytes:
        nonlocal hashed
        hashed += len(data)
        return digest_of(data)

    async def life() -> None:
        nonlocal hashed
        member = Member(tmp_path, lambda: (offers, tmp_path))
        execution = Execution(member.definition)
        run(execution, *(call(number, "add", str(number) * 1000) for number in range(1, 2000)))
        await member.checkpoint(execution)
        size, numbers = next((tmp_path / DIRECTORY).glob("*.db")).stat().st_size, iter(range(2000, 2100))
        assert size > 30 * CHUNK_BYTES
        monkeypatch.setattr(manifest, "digest_of", counted)
        seen = dict(offers.sources)
        for _ in range(5):
            hashed = 0
            run(execution, *(call(next(numbers), "add", "word" * 100) for _ in range(10)))
            await member.checkpoint(execution)
            assert hashed < 8 * CHUNK_BYTES, "a few pages and the table's own"
            whole = ObjectFile(GroupId(1), member.stored._file.name, CHUNK_BYTES)
            (newest, _) = list(offers.sources.values())[-1]
            about = newest.manifest
            assert whole.described(member.files.directory, about.position, about.epoch).id == newest.id
            assert all(is_right(*each) for each in offers.sources.values())
            seen |= offers.sources
        assert (len(seen), len(offers.sources)) == (6, OFFERS_MAX)
        assert len(list((tmp_path / DIRECTORY).glob("*.aside"))) <= OFFERS_MAX
        assert member.failed == []

    asyncio.run(life())


@pytest.mark.parametrize(("is_asked", "others_take"), [(False, False), (True, False), (True, True)])
def test_what_is_fetched_is_not_displaced_by_what_is_offered(
    is_asked: bool, others_take: bool, tmp_path: Path
) -> None:
    """W8. A member that has taken a state looks for long at what it has of the files, then asks for one chunk
    after the other. Meanwhile its primary makes checkpoints and offers it newer states, which it does not
    heed; others may take those."""
    offers = Offers()

    async def life() -> None:
        member = Member(tmp_path, lambda: (offers, tmp_path))
        execution, numbers = Execution(member.definition), iter(range(1, 1000))

        async def checkpoint() -> Kept:
            run(execution, *(call(next(numbers), "add", "word" * 100) for _ in range(10)))
            state = Captured(execution.position, await member.checkpoint(execution))
            assert member.stored.offers(state)
            found = member.stored.for_others(state)
            assert found is not None
            return found

        (await checkpoint()).chunk(0)
        ((first, source),) = offers.sources.values()
        offers.asked = {first.id} if is_asked else set()
        for _ in range(2 * OFFERS_MAX):
            newer = await checkpoint()
            if others_take:
                newer.chunk(0)
        assert first.id in offers.sources
        assert is_right(first, source)
        assert len(offers.sources) <= OFFERS_MAX

    asyncio.run(life())


def test_a_file_that_is_not_as_its_checkpoint_says_is_found_when_it_is_opened(tmp_path: Path) -> None:
    async def life() -> None:
        member = Member(tmp_path)
        execution = Execution(member.definition)
        run(execution, *(call(number, "add", "word" * 500) for number in range(1, 100)))
        state = await member.checkpoint(execution)
        execution.discard()
        (file,) = (tmp_path / DIRECTORY).glob("*.db")
        data = bytearray(file.read_bytes())
        data[-3000] ^= 1
        file.write_bytes(data)
        again = Member(tmp_path)
        Execution.load(again.definition, state)
        async with asyncio.timeout(WAIT_S):
            while not again.damaged:
                await asyncio.sleep(0.01)
        assert "damaged" in again.damaged[0]
        file.unlink()
        with pytest.raises(StorageLost, match="are not here"):
            Execution.load(again.definition, state)

    asyncio.run(life())


def test_a_checkpoint_of_an_object_that_was_given_up_meanwhile_does_not_count(tmp_path: Path) -> None:
    """Its file belongs to the object that was made anew (FTC-248)."""

    async def life() -> None:
        member = Member(tmp_path)
        execution = Execution(member.definition)
        run(execution, call(1, "add", "first"))
        snapshot = Snapshot(execution.position, execution.pieces, execution.digest)
        framing = Framing(GroupId(1), Point(execution.position, Epoch(1), 7), salt=1, chunk_bytes=1 << 16)
        ended: list[Written | NotCopied] = []
        assert member.stored.begin("first.copied", framing, snapshot, ended.append)
        execution.discard()
        anew = Execution(member.definition)
        run(anew, call(1, "add", "first"))
        async with asyncio.timeout(WAIT_S):
            while not ended or member.stored._is_settling:
                await asyncio.sleep(0.01)
        assert ended == [NotCopied("")]
        state = await member.checkpoint(anew)
        anew.discard()
        assert words(Execution.load(member.definition, state)) == ["first"]
        assert member.failed == []

    asyncio.run(life())


def test_the_thread_that_settles_an_object_that_was_given_up_neither_locks_nor_fails_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FTC-248. The file is taken away below the thread, which is nobody's disk that fails."""
    is_at_it, may_go_on = threading.Event(), threading.Event()

    def slowly(connection: apsw.Connection) -> int:
        is_at_it.set()
        assert may_go_on.wait(WAIT_S)
        raise apsw.IOError("disk I/O error")  # which SQLite says, not always, of a file that is gone

    async def life() -> None:
        member = Member(tmp_path)
        execution = Execution(member.definition)
        run(execution, call(1, "add", "first"))
        snapshot = Snapshot(execution.position, execution.pieces, execution.digest)
        framing = Framing(GroupId(1), Point(execution.position, Epoch(1), 7), salt=1, chunk_bytes=1 << 16)
        ended: list[Written | NotCopied] = []
        with monkeypatch.context() as patch:
            patch.setattr("holdfast.node.object_files.settle", slowly)
            assert member.stored.begin("first.copied", framing, snapshot, ended.append)
            while not is_at_it.is_set():
                await asyncio.sleep(0.01)
            (before,) = (each for each in member.files.list() if each.endswith(SUFFIX))
            execution.discard()
            anew = Execution(member.definition)
            run(anew, call(1, "add", "anew"))
            assert before not in member.files.list()
            may_go_on.set()
            async with asyncio.timeout(WAIT_S):
                while not ended or member.stored._is_settling:
                    await asyncio.sleep(0.01)
        assert (ended, member.failed) == ([NotCopied("")], [])
        state = await member.checkpoint(anew)
        anew.discard()
        again = Member(tmp_path)
        assert words(Execution.load(again.definition, state)) == ["anew"]

    asyncio.run(life())


@pytest.mark.parametrize("leaves", [True, False])
def test_what_comes_after_the_group_has_left_is_not_kept(leaves: bool, tmp_path: Path) -> None:
    """M6. Fetching takes long, and a host may be told to leave meanwhile."""

    async def life() -> None:
        (there := tmp_path / "there").mkdir()
        (here := tmp_path / "here").mkdir()
        giver, taker = Member(there), Member(here)
        execution = Execution(giver.definition)
        run(execution, call(1, "add", "word"))
        state = await giver.checkpoint(execution)
        ended: list[HoldfastError | None] = []
        placed: list[Callable[[HoldfastError | None], None]] = []

        def fetch(contents: Contents, file: str, sources: object, name: str, then: Any, **_: object) -> None:
            def place(error: HoldfastError | None) -> None:
                (here / DIRECTORY / name).write_bytes(b"as it was")
                then(error)

            placed.append(place)

        taker.files.fetch = fetch  # type: ignore[method-assign]  # what comes, and when, is this test's
        taker.stored.fetch(state, [], ended.append)
        if leaves:
            taker.stored.close()
        placed[0](None)
        await asyncio.sleep(0)
        assert [type(each) for each in ended] == [Unavailable if leaves else type(None)]
        assert bool(taker.files.list()) is not leaves

    asyncio.run(life())
