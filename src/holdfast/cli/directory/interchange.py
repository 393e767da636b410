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
from holdfast.directory.master import Master, read_about, top_entry
from holdfast.directory.reading import reading
from holdfast.directory.replica.snapshot import Suffix
from holdfast.directory.schema.standard import standard_schema
from holdfast.machine.files import open_private, rename_durably
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import ReplicaId

EXIT_DONE = 0
STDIO = Path("-")


def export(
    file: Path = STDIO,
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
    file: Path,
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
        For new files: the name of the tree's top, if it is not that of the first entry.
    replica_id
        For new files: the number of this master, 1 if nothing else is said.
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

        records = read_ldif(pieces)
        known = read_about(dir)
        if known is None:
            loaded = _into_new(dir, suffix, replica_id, records, options, progress)
        else:
            if suffix is not None or replica_id is not None:
                raise InvalidRequest(
                    f"{dir} holds a directory already: --suffix and --replica-id are for new ones"
                )
            loaded = run(_into_known(dir, known.suffix, known.replica, records, options, progress))
    _tell(loaded, dir, monotonic() - began, output)
    return EXIT_DONE


@contextmanager
def opened_input(file: Path) -> Iterator[BinaryIO]:
    if file == STDIO:
        yield sys.stdin.buffer
        return
    with file.open("rb") as opened:
        yield opened


def _into_new(
    directory: Path,
    suffix: str | None,
    replica_id: int | None,
    records: Iterator[Record],
    options: LoadOptions,
    progress: Progress,
) -> Loaded:
    """Make a directory of what the LDIF has. It gets its name when all of it is there."""
    head, records = head_of(records)
    replica = checked_replica(1 if replica_id is None else replica_id)
    if head is not None:
        suffix = _suffix_of(head, suffix, replica)
    first = next(records, None)
    if suffix is None:
        if not isinstance(first, EntryRecord):
            raise InvalidRequest("the LDIF begins with a change: say --suffix, such as dc=example,dc=com")
        suffix = first.dn
    top_entry(Suffix(suffix, standard_schema()).dn, suffix)
    if directory.exists() and any(directory.iterdir()):
        raise InvalidRequest(f"{directory} has files of something else in it")
    aside = directory.with_name(f"{directory.name}.importing")
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
        if directory.exists():
            directory.rmdir()
        rename_durably(aside, directory)
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
    directory: Path,
    suffix: str,
    replica: int,
    records: Iterator[Record],
    options: LoadOptions,
    progress: Progress,
) -> Loaded:
    head, records = head_of(records)
    if head is not None:
        raise InvalidRequest(
            f"{directory} holds a directory already: an export with state makes a new one (another --dir)"
        )
    master = await Master.open(directory, suffix, replica=replica)
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
