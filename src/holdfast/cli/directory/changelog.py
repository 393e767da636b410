"""``holdfast directory changelog``: the changes that a master keeps for others, as text."""

import asyncio
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from holdfast.cli.directory.interchange import STDIO, LdifFile, opened_input, opened_output
from holdfast.cli.directory.progress import Pieces, bar, size_of
from holdfast.cli.directory.running import run
from holdfast.cli.output import say
from holdfast.clock.vector import Vector
from holdfast.directory.holdings import the_holding
from holdfast.directory.interchange.changelog_text import (
    ChangelogHead,
    head2str,
    read_changelog,
    update2str,
)
from holdfast.directory.ldif import InvalidLdif, read_ldif
from holdfast.directory.master import Master
from holdfast.directory.reading import reading
from holdfast.directory.replica.changelog import ChangelogReader, vector_in
from holdfast.directory.replica.maps import REPLICA, TRIMMED
from holdfast.directory.replica.snapshot import Suffix
from holdfast.directory.replica.update import Update
from holdfast.model.csn import Csn
from holdfast.model.errors import DiskFailed, InvalidRequest
from holdfast.model.ids import ReplicaId

EXIT_DONE = 0
APPLIED_MAX = 500
"""How many updates are applied in one transaction."""

app = App(name="changelog", help="The changelog as text.")


@app.command
def dump(
    file: LdifFile = STDIO,
    *,
    dir: Path,
    suffix: str | None = None,
    overwrite: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Write the changelog as text, one record for each change, also while a master serves.

    Parameters
    ----------
    file
        Where to, readable by this user alone; `-` is the standard output.
    dir
        Where the directory keeps its files.
    suffix
        Of which suffix, if there are several.
    overwrite
        Replace the file if it is there.
    """
    count = 0
    with (
        reading(dir, suffix) as snapshot,
        opened_output(file, overwrite=overwrite) as out,
        bar("dump", None) as show,
    ):
        vector = vector_in(snapshot.reader)
        if vector is None:
            raise InvalidRequest(f"{dir} holds no replica yet")
        trimmed = snapshot.reader.get(REPLICA, TRIMMED)
        after = Vector.of(vector.generation) if trimmed is None else Vector.parse(trimmed.decode())
        out.write(head2str(ChangelogHead(suffix=snapshot.suffix.text, after=after, up_to=vector)))
        last: dict[ReplicaId, Csn] = {}
        for update in ChangelogReader(snapshot.reader, vector, after):
            out.write(update2str(update, last.get(update.csn.replica)))
            last[update.csn.replica] = update.csn
            count += 1
            if count % 1_000 == 0:
                show(count, f"{count} updates")
    if file != STDIO:
        say(f"{count} updates are in {file}")
    return EXIT_DONE


@app.command
def restore(file: LdifFile, *, dir: Path, suffix: str | None = None) -> int:
    """Apply the changes of a changelog's text to the files of a master that is not being served.

    They count as another master's: what is there already is passed over, and every change keeps its CSN. A
    text that begins after what the files have is refused.

    Parameters
    ----------
    file
        The text that `changelog dump` wrote; `-` is the standard input.
    dir
        Where the directory keeps its files.
    suffix
        Of which suffix, if there are several.
    """
    place, about = the_holding(dir, suffix)

    async def apply() -> int:
        master = await Master.open(place, about.suffix, replica=about.replica)
        applied = _Applying(master)
        try:
            with opened_input(file) as opened, bar("restore", size_of(file)) as show:
                pieces = Pieces(opened)
                for each in read_changelog(read_ldif(pieces)):
                    if isinstance(each, ChangelogHead):
                        applied.check(each)
                        continue
                    await applied.take(each)
                    show(pieces.taken, f"{applied.count} updates")
                await applied.finish()
        finally:
            await master.stop()
        return applied.count

    count = run(apply())
    say(f"{count} updates that were not there are in {dir} now")
    return EXIT_DONE


class _Applying:
    """Applies updates to an open master, some at a time."""

    def __init__(self, master: Master) -> None:
        self._master = master
        self._gathered: list[Update] = []
        self._applied = asyncio.Event()
        self._head: ChangelogHead | None = None
        self.count = 0
        master.replica.listen(self)

    def check(self, head: ChangelogHead) -> None:
        replica = self._master.replica
        if Suffix(head.suffix, replica.schema).key != replica.suffix_name.key:
            raise InvalidRequest(f"the changelog is of {head.suffix}, not of {replica.suffix}")
        if not replica.vector.covers_all(head.after):  # also refuses another generation
            raise InvalidRequest(
                f"the text begins after {head.after.text()}, and {self._master.directory} has only "
                f"{replica.vector.text()}: what lies between is lacking, "
                "and a full copy is needed (`directory export --state`)"
            )
        self._head = head

    async def take(self, update: Update) -> None:
        if (
            self._head is None
            or not self._head.up_to.covers(update.csn)
            or self._head.after.covers(update.csn)
        ):
            raise InvalidLdif(1, f"the update {update.csn} is not one that the text's own vectors tell of")
        if self._master.replica.accepted.covers(update.csn):
            return
        self.count += 1
        self._gathered.append(update)
        if len(self._gathered) >= APPLIED_MAX:
            await self.finish()

    async def finish(self) -> None:
        """Apply what was gathered, and wait until it is on the disk."""
        if not self._gathered:
            return
        self._applied.clear()
        updates, self._gathered = self._gathered, []
        self._master.replica.apply("a changelog's text", updates, "restored")
        waiting = asyncio.ensure_future(self._applied.wait())
        await asyncio.wait((waiting, self._master.failed), return_when=asyncio.FIRST_COMPLETED)
        if not waiting.done():
            waiting.cancel()
            raise DiskFailed(self._master.failed.result())

    # --- what the replica tells

    def on_committed(self, updates: object, *, is_own: bool) -> None:
        pass

    def on_applied(self, token: object) -> None:
        self._applied.set()

    def on_failed(self, why: str) -> None:
        pass
