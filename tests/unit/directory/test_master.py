"""One master on its files: its clock goes on where it was, and its generator tells whoever wants to know."""

import asyncio
import shutil
from pathlib import Path

import pytest
from directory_pair import ADA, SUFFIX, filled

from holdfast.clock.state import ClockState
from holdfast.clock.vector import Vector
from holdfast.directory.dn import Dn
from holdfast.directory.master import Master
from holdfast.directory.operations import Modification, ModificationKind, ModifyRequest
from holdfast.directory.reading import reading
from holdfast.directory.replica.changelog import ChangelogReader, vector_in
from holdfast.directory.replica.maps import CSNSTATE, KEPT
from holdfast.model.csn import Csn
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import SECOND, ReplicaId


def described(text: bytes) -> ModifyRequest:
    return ModifyRequest(ADA, (Modification(ModificationKind.REPLACE, "description", (text,)),))


async def ahead(master: Master, seconds: int) -> Csn:
    """Let the generator hear of another master that is ahead."""
    csn = Csn(master.generator.current_time() + seconds, 5, ReplicaId(7))
    while not master.generator.observe("a peer", csn):
        await asyncio.sleep(0.01)
    return csn


@pytest.mark.covers("CSN-42")
def test_the_generator_begins_where_it_was(tmp_path: Path) -> None:
    """Stopped in order and started again, its offsets are what they were, and its CSNs go on from there."""
    directory = filled(tmp_path / "d").directory

    async def work() -> None:
        master = await Master.open(directory, SUFFIX)
        await ahead(master, 600)
        csn = await master.execute(described(b"x"))
        before = ClockState.parse(master.generator.csnstate())
        assert before.local_ns < 60 * SECOND, "another master's time is no local offset"
        assert before.sequence == csn.sequence + 1
        await master.stop()
        again = await Master.open(directory, SUFFIX)
        after = ClockState.parse(again.generator.csnstate())
        assert before.network_ns > 590 * SECOND
        assert (after.local_ns, after.network_ns) == (before.local_ns, before.network_ns)
        assert await again.execute(described(b"y")) > csn
        await again.stop()

    asyncio.run(work())


@pytest.mark.covers("CSN-43", "CSN-45")
def test_of_the_file_and_the_entry_the_later_counts(tmp_path: Path) -> None:
    """The clock's file is put back to an older one: the offsets come from the entry, as they were. And where
    the entry is older, they come from the file."""
    directory = filled(tmp_path / "d").directory

    async def work() -> None:
        shutil.copytree(directory / "clock", tmp_path / "old")
        master = await Master.open(directory, SUFFIX)
        await ahead(master, 600)
        while master.generator.current_time() % 2:  # the entry is written once in each second
            await asyncio.sleep(0.05)
        csn = await master.execute(described(b"x"))
        with master.read() as reader:
            row = reader.get(KEPT, CSNSTATE)
        assert row is not None
        written = ClockState.parse(row.decode())
        assert written.network_ns > 590 * SECOND
        master.close()
        shutil.rmtree(directory / "clock")
        shutil.copytree(tmp_path / "old", directory / "clock")
        again = await Master.open(directory, SUFFIX)
        after = ClockState.parse(again.generator.csnstate())
        # Without the entry, all of it would look like another master's doing of this very start.
        assert after.network_ns == written.network_ns
        assert await again.execute(described(b"y")) > csn
        further = await ahead(again, 1200)
        await again.stop()  # the file has it, and the entry, for want of a change, has not
        last = await Master.open(directory, SUFFIX)
        assert await last.execute(described(b"z")) > further
        await last.stop()

    asyncio.run(work())


@pytest.mark.covers("CSN-46", "CSN-47", "CSN-48", "CSN-49", "CSN-50", "CSN-53")
def test_whoever_wants_hears_of_every_csn(tmp_path: Path) -> None:
    """Several may register, each with its argument; a change that is given up is told as well, and nothing
    waits for it; one that fails is counted and harms nobody; one that is taken back hears no more."""
    directory = filled(tmp_path / "d").directory

    async def work() -> None:
        master = await Master.open(directory, SUFFIX)
        given = master.generator.assignments
        heard: list[tuple[str, Csn, object]] = []

        def hears(word: str):  # type: ignore[no-untyped-def]
            return lambda csn, argument: heard.append((word, csn, argument))

        def fails(csn: Csn, argument: object) -> None:
            raise RuntimeError("a listener's own mistake")

        given.register(fails, fails, fails)
        mine = given.register(hears("new"), hears("done"), hears("gone"), argument="mine")
        csn = await master.execute(described(b"x"))
        assert heard == [("new", csn, "mine"), ("done", csn, "mine")]
        assert given.callback_failures == 2
        heard.clear()
        many = tuple(b"%d" % number for number in range(70_000))
        wide = ModifyRequest(ADA, (Modification(ModificationKind.ADD, "description", many),))
        with pytest.raises(InvalidRequest, match="at most 65536 changes"):
            master.replica.execute(wide, "cn=x", lambda csn: None)
        (word, lost, _), (end, same, _) = heard
        assert (word, end, lost) == ("new", "gone", same)
        given.unregister(mine)
        later = await master.execute(described(b"y"))
        assert later > lost
        assert len(heard) == 2
        assert given.assigned == given.committed + given.aborted + given.in_flight
        assert given.aborted == 1
        await master.stop()
        with reading(directory) as snapshot:
            vector = vector_in(snapshot.reader)
            assert vector is not None
            log = [
                each.csn for each in ChangelogReader(snapshot.reader, vector, Vector.of(vector.generation))
            ]
            view = snapshot.view(snapshot.find(Dn.parse(ADA)))
        # The changelog has what was committed, in order, and nothing of what was given up.
        assert log == [csn, later]
        assert view is not None
        assert view.attributes["description"] == (b"y",)

    asyncio.run(work())
