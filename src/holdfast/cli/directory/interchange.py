"""``holdfast directory import`` and ``export``: entries as LDIF."""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from time import monotonic
from typing import Annotated, BinaryIO

from cyclopts import Parameter
from msgspec import to_builtins

from holdfast.cli.directory.progress import Pieces, bar, size_of
from holdfast.cli.directory.running import checked_replica, run
from holdfast.cli.output import Output, print_json, say, talk
from holdfast.directory.dn import Dn
from holdfast.directory.holdings import Holding, holding_above, holdings_of, is_same, names_of
from holdfast.directory.hosting.places import further_place
from holdfast.directory.interchange.exporting import Exporting
from holdfast.directory.interchange.replica_text import ReplicaText
from holdfast.directory.ldif import ChangeRecord, EntryRecord, Record, read_ldif
from holdfast.directory.loader import (
    Loaded,
    LoadOptions,
    Progress,
    head_of,
    is_alone,
    load_changes,
    load_entries,
    load_state,
)
from holdfast.directory.master import Master, top_entry
from holdfast.directory.reading import reading
from holdfast.directory.replica.snapshot import Suffix
from holdfast.directory.schema.standard import standard_schema
from holdfast.machine.files import make_durably, open_private, rename_durably
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import ReplicaId

EXIT_DONE = 0
STDIO = Path("-")
LdifFile = Annotated[Path, Parameter(allow_leading_hyphen=True)]
"""A file, or `-`, which would be taken for an option otherwise."""


def export(
    file: LdifFile = STDIO,
    *,
    dir: Path,
    suffix: str | None = None,
    state: Annotated[bool, Parameter(negative="")] = False,
    base: str | None = None,
    operational: Annotated[bool, Parameter(negative="")] = False,
    overwrite: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Write a directory's entries as LDIF (RFC 2849), also while a master serves them.

    Parameters
    ----------
    file
        Where to; it is readable by this user alone, since hashed passwords are in it. `-`, which is the
        default, is the standard output.
    dir
        Where the directory keeps its files.
    suffix
        Of which suffix, if there are several; --base says it as well.
    state
        Write all that the master knows: CSNs, removed values, attributes and entries. `directory import`
        makes an equal replica of it.
    base
        Only this entry and those below it; not with --state.
    operational
        Operational attributes, too, such as entryUUID and createTimestamp.
    overwrite
        Replace the file if it is there.
    """
    if state and (base is not None or operational):
        raise InvalidRequest("an export with --state has everything: --base and --operational are for others")
    with (
        reading(dir, suffix or base) as snapshot,
        opened_output(file, overwrite=overwrite) as out,
        bar("export", None) as show,
    ):
        exporting = Exporting(snapshot)
        top = None if base is None else snapshot.find(Dn.parse(base))
        pieces = exporting.with_state() if state else exporting.plain(top, is_operational=operational)
        for piece in pieces:
            out.write(piece)
            show(exporting.entries, f"{exporting.entries} entries")
    if file != STDIO:
        say(f"{exporting.entries} entries of {snapshot.suffix.text} are in {file}")
    if exporting.odd and not state:
        talk.print(
            f"{exporting.odd} of them are not shown as they were meant, because of conflicts: resolve "
            f"these first (`holdfast directory conflicts list --dir {dir}`) to import them elsewhere"
        )
    return EXIT_DONE


@contextmanager
def opened_output(file: Path, *, overwrite: bool) -> Iterator[BinaryIO]:
    if file == STDIO:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    if file.exists() and not overwrite:
        raise InvalidRequest(f"{file} is there already: --overwrite replaces it")
    aside = file.with_name(f"{file.name}.partial")
    aside.unlink(missing_ok=True)
    try:
        with open_private(aside, os.O_WRONLY | os.O_TRUNC) as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        rename_durably(aside, file)
    finally:
        aside.unlink(missing_ok=True)


def import_(
    file: LdifFile,
    *,
    dir: Path,
    suffix: str | None = None,
    replica_id: int | None = None,
    ignore: list[str] | None = None,
    hash_passwords: Annotated[bool, Parameter(negative="")] = False,
    skip_existing: Annotated[bool, Parameter(negative="")] = False,
    output: Output = "table",
) -> int:
    """Read entries or changes from an LDIF into the files of a directory that is not being served.

    Entries are loaded many at once, all or none, unless other masters know the directory: then they are
    added one by one, and those before one that is refused stay. An export with
    state makes a replica equal to the one it came from, under a number of its own. Changes
    (changetype: ...) are carried out one by one.

    Parameters
    ----------
    file
        The LDIF; `-` is the standard input.
    dir
        Where the directory keeps its files; they are made if there are none.
    suffix
        The name of the tree's top. May be left out: for new files it is the first entry's, of several
        suffixes that are there the one that the first entry is below. One that is not there is added.
    replica_id
        For new files: the number of this master; if nothing else is said that of the suffixes that are
        there, or 1.
    ignore
        An attribute that is left out; may be given several times.
    hash_passwords
        Hash passwords that are in clear, which takes a tenth of a second for each. They are refused
        otherwise.
    skip_existing
        Pass over entries that are there already.
    output
        A sentence for people, one JSON object for scripts.
    """
    options = LoadOptions(
        ignored=frozenset(each.lower() for each in ignore or ()),
        hash_passwords=hash_passwords,
        skip_existing=skip_existing,
    )
    began = monotonic()
    with opened_input(file) as opened, bar("import", size_of(file)) as show:
        pieces = Pieces(opened)

        def progress(done: int) -> None:
            show(pieces.taken, f"{done} records")

        head, records = head_of(read_ldif(pieces))
        first = None if head is not None else next(records)
        holding = _holding(dir, suffix, head, first)
        if first is not None:
            records = chain((first,), records)
        if holding is None:
            found = holdings_of(dir)
            if replica_id is None and found:
                replica_id = found[0].about.replica
            loaded = _into_new(dir, bool(found), suffix, replica_id, head, records, options, progress)
        else:
            if replica_id not in (None, holding.about.replica):
                raise InvalidRequest(
                    f"{dir} holds replica {holding.about.replica} of {holding.about.suffix} already: "
                    "--replica-id is for new files"
                )
            if head is not None:
                raise InvalidRequest(
                    f"{dir} holds a directory already, {holding.about.suffix}: an export with state makes a "
                    "new one (another --dir)"
                )
            loaded = run(_into_known(holding, records, options, progress))
    _tell(loaded, dir, monotonic() - began, output)
    return EXIT_DONE


@contextmanager
def opened_input(file: Path) -> Iterator[BinaryIO]:
    if file == STDIO:
        yield sys.stdin.buffer
        return
    with file.open("rb") as opened:
        yield opened


def _holding(
    directory: Path, wanted: str | None, head: ReplicaText | None, first: Record | None
) -> Holding | None:
    """The files that the LDIF is for; None if they are to be made. *wanted* says it, or the LDIF itself: its
    *head* if it is an export with state, else its *first* record. Raises ``InvalidRequest``."""
    found = holdings_of(directory)
    if wanted is not None:
        return next((each for each in found if is_same(each.about.suffix, wanted)), None)
    if not found or (head is None and len(found) == 1):
        return found[0] if found else None  # whatever is not below it is refused with its line
    if head is not None:
        name = head.suffix
    else:
        assert first is not None, "an LDIF has a record"
        name = first.dn if isinstance(first, EntryRecord) else first.change.dn
    above = holding_above(found, name)
    if above is None or (head is not None and not is_same(above.about.suffix, name)):
        raise InvalidRequest(f"{directory} holds {names_of(found)}, not {name}: --suffix adds one")
    return above


def _into_new(
    directory: Path,
    is_further: bool,
    suffix: str | None,
    replica_id: int | None,
    head: ReplicaText | None,
    records: Iterator[Record],
    options: LoadOptions,
    progress: Progress,
) -> Loaded:
    """Make a directory of what the LDIF has, or one more suffix in a directory. It gets its name when all of
    it is there."""
    replica = checked_replica(1 if replica_id is None else replica_id)
    if head is not None:
        suffix = _suffix_of(head, suffix, replica)
    first = next(records, None)
    if suffix is None:
        if not isinstance(first, EntryRecord):
            raise InvalidRequest("the LDIF begins with a change: say --suffix, such as dc=example,dc=com")
        suffix = first.dn
    top_entry(Suffix(suffix, standard_schema()).dn, suffix)
    if is_further:
        place, aside = further_place(directory, suffix), directory / "importing"
        make_durably(place.parent)
    else:
        place, aside = directory, directory.with_name(f"{directory.name}.importing")
    if place.exists() and any(place.iterdir()):
        raise InvalidRequest(f"{place} has files of something else in it")
    shutil.rmtree(aside, ignore_errors=True)

    async def make() -> Loaded:
        generation = None if head is None else head.vector.generation
        master = await Master.open(aside, suffix, replica=replica, generation=generation)
        try:
            rest = () if first is None else chain((first,), records)
            if head is not None:
                return await load_state(master, head, rest, progress)
            return await load_entries(master, rest, options, progress)
        finally:
            await master.stop()

    try:
        loaded = run(make())
        if place.exists():
            place.rmdir()
        rename_durably(aside, place)
        return loaded
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _suffix_of(head: ReplicaText, suffix: str | None, replica: int) -> str:
    schema = standard_schema()
    if suffix is not None and Suffix(suffix, schema).key != Suffix(head.suffix, schema).key:
        raise InvalidRequest(f"the export is of {head.suffix}, not of {suffix}")
    known = head.vector.get(ReplicaId(replica))
    if known is not None or ReplicaId(replica) in head.vector.retired:
        # The one of that number may have made changes after the export: theirs and ours would be taken for
        # each other (G3).
        raise InvalidRequest(
            f"replica {replica} has made changes that are in the export: a replica made of it needs another "
            "number, such as --replica-id " + str(_free(head))
        )
    return head.suffix


def _free(head: ReplicaText) -> int:
    used = {int(csn.replica) for csn in head.vector} | {int(each) for each in head.vector.retired}
    return next(each for each in range(1, 0xFFFF) if each not in used)


async def _into_known(
    holding: Holding, records: Iterator[Record], options: LoadOptions, progress: Progress
) -> Loaded:
    place, about = holding
    master = await Master.open(place, about.suffix, replica=about.replica)
    try:
        first = next(records)
        rest = chain((first,), records)
        if isinstance(first, ChangeRecord) or not is_alone(master):
            return await load_changes(master, rest, options, progress)
        await master.begin_load()
        loaded = await load_entries(master, rest, options, progress)
        master.finish_load()
        return loaded
    finally:
        await master.stop()


def _tell(loaded: Loaded, directory: Path, seconds: float, output: Output) -> None:
    if output == "json":
        print_json({**to_builtins(loaded), "seconds": round(seconds, 3)})
        return
    count = loaded.entries + loaded.changes
    rate = "" if seconds <= 0 else f" ({count / seconds:,.0f}/s)"
    what = "changes" if loaded.changes else "entries with their state" if loaded.with_state else "entries"
    say(f"{count} {what} are in {directory}, in {seconds:.1f} s{rate}")
    if loaded.skipped:
        say(f"{loaded.skipped} were there already")
    if loaded.admin_dn:
        say(f"administrator: {loaded.admin_dn}", f"password (shown this once): {loaded.admin_password}")
