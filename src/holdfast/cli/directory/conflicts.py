"""``holdfast directory conflicts``: what masters did at once and could not all be."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter
from msgspec import to_builtins

from holdfast.cli.directory.running import run
from holdfast.cli.directory.sources import Administrator, bound
from holdfast.cli.output import Output, print_json, print_table, say
from holdfast.directory.conflict_text import KEPT, LOST, ConflictText, chosen, find_conflict, told
from holdfast.directory.holdings import Holding, holdings_of
from holdfast.directory.hosting.places import why_none
from holdfast.directory.master import Master
from holdfast.directory.operations import Modification, ModificationKind, ModifyRequest, Scope
from holdfast.directory.primitives import EntryId, uuid_text
from holdfast.directory.reading import files_of, reading
from holdfast.directory.replica.stored_state import stored_conflicts
from holdfast.ldap.config_entries import CONFLICTS_DN
from holdfast.model.csn import Csn
from holdfast.model.errors import DiskFailed, InvalidRequest

EXIT_DONE, EXIT_FAILED = 0, 1

app = App(name="conflicts", help="List and resolve conflicts.")


@app.command(name="list")
def list_(
    *,
    dir: Path | None = None,
    url: str | None = None,
    bind_dn: str | None = None,
    password_file: Path | None = None,
    output: Output = "table",
) -> int:
    """List the conflicts that nobody has resolved, with both sides.

    Parameters
    ----------
    dir
        Where a master keeps its files; they may be served at the same time.
    url
        Or its address, such as ldap://127.0.0.1:1389.
    bind_dn
        As whom to ask over LDAP: an administrator.
    password_file
        A file with that one's password on its first line.
    output
        A table for people, one JSON object for each on a line of its own for scripts.
    """
    found = _conflicts(dir, url, Administrator(bind_dn, password_file))
    if output == "json":
        for each in found:
            print_json(to_builtins(each))
    elif not found:
        say("there are no conflicts")
    else:
        rows = [(each.id, each.kind, each.dn, each.attribute, [each.kept, each.lost]) for each in found]
        print_table(("CONFLICT", "KIND", "ENTRY", "ATTRIBUTE", "KEPT / LOST"), rows)
    return EXIT_DONE


@app.command
def show(
    id: str,
    *,
    dir: Path | None = None,
    url: str | None = None,
    bind_dn: str | None = None,
    password_file: Path | None = None,
    output: Output = "table",
) -> int:
    """Show one conflict, and what can be done.

    Parameters
    ----------
    id
        The conflict, as `conflicts list` names it.
    dir
        Where a master keeps its files; they may be served at the same time.
    url
        Or its address, such as ldap://127.0.0.1:1389.
    bind_dn
        As whom to ask over LDAP: an administrator.
    password_file
        A file with that one's password on its first line.
    output
        Lines for people, one JSON object for scripts.
    """
    each = _one(_conflicts(dir, url, Administrator(bind_dn, password_file)), id)
    if output == "json":
        print_json(to_builtins(each))
        return EXIT_DONE
    say(f"conflict   {each.id}", f"kind       {each.kind}", f"entry      {each.dn} ({each.entry})")
    if each.attribute:
        say(f"attribute  {each.attribute}")
    say(f"kept       {each.kept}", f"lost       {each.lost}", f"resolve    {each.resolve}")
    return EXIT_DONE


@app.command
def resolve(
    id: str,
    choice: Annotated[str, Parameter(name="--take")] = KEPT,
    *,
    dir: Path | None = None,
    url: str | None = None,
    bind_dn: str | None = None,
    password_file: Path | None = None,
) -> int:
    """Resolve a conflict. That is a change like others: every master hears of it.

    Parameters
    ----------
    id
        The conflict, as `conflicts list` names it.
    choice
        kept: leave everything as it is; lost: take what lost instead.
    dir
        Where a master keeps its files, if it is not being served.
    url
        The address of one that is, such as ldap://127.0.0.1:1389.
    bind_dn
        As whom to ask over LDAP: an administrator.
    password_file
        A file with that one's password on its first line.
    """
    try:
        keep = chosen(choice)
    except ValueError as error:
        raise InvalidRequest(str(error)) from error
    _one_source(dir, url)
    if url is not None:
        name = f"conflictID={id},{CONFLICTS_DN}"
        change = Modification(ModificationKind.REPLACE, "conflictResolution", (choice.encode(),))
        with bound(url, Administrator(bind_dn, password_file)) as client:
            client.change(ModifyRequest(name, (change,)))
        say(f"{id} is resolved: {KEPT if keep else LOST}")
    elif dir is not None:
        csn = run(_resolved(dir, id, keep))
        say(f"{id} is resolved by {csn}: {KEPT if keep else LOST}")
    return EXIT_DONE


async def _resolved(directory: Path, id: str, keep: bool) -> Csn:
    found = holdings_of(directory)
    if not found and files_of(directory):
        raise InvalidRequest(
            f"{directory} belongs to a host of a domain: say --url, and resolve it over LDAP"
        )
    if not found:
        raise InvalidRequest(why_none(directory))
    for each in found:
        csn = await _resolved_in(each, id, keep)
        if csn is not None:
            return csn
    raise InvalidRequest(f"there is no conflict {id!r}, or no longer")


async def _resolved_in(holding: Holding, id: str, keep: bool) -> Csn | None:
    place, about = holding
    master = await Master.open(place, about.suffix, replica=about.replica)
    try:
        conflict = find_conflict(master.replica.conflicts(), id)
        if conflict is None:
            return None
        done: asyncio.Future[Csn] = asyncio.get_running_loop().create_future()
        master.replica.settle(conflict, done.set_result, keep=keep)
        await asyncio.wait((done, master.failed), return_when=asyncio.FIRST_COMPLETED)
        if not done.done():
            raise DiskFailed(master.failed.result())
        return done.result()
    finally:
        await master.stop()


def _one_source(dir: Path | None, url: str | None) -> None:
    if (dir is None) == (url is None):
        raise InvalidRequest("say where the master is: --dir with its files, or --url with its address")


def _one(found: list[ConflictText], id: str) -> ConflictText:
    for each in found:
        if each.id == id:
            return each
    raise InvalidRequest(f"there is no conflict {id!r}, or no longer; `conflicts list` has those there are")


def _conflicts(dir: Path | None, url: str | None, who: Administrator) -> list[ConflictText]:
    _one_source(dir, url)
    return list(_stored(dir) if dir is not None else _asked(url or "", who))


def _stored(directory: Path) -> Iterator[ConflictText]:
    for each in files_of(directory) or (None,):
        yield from _stored_of(directory, each)


def _stored_of(directory: Path, suffix: str | None) -> Iterator[ConflictText]:
    with reading(directory, suffix) as snapshot:
        yield from told(stored_conflicts(snapshot.reader), snapshot)


def _asked(url: str, who: Administrator) -> Iterator[ConflictText]:
    with bound(url, who) as client:
        for entry in client.search(CONFLICTS_DN, Scope.ONE_LEVEL):
            values = {each.description.lower(): each.values[0].decode() for each in entry.attributes}
            yield ConflictText(
                id=values["conflictid"],
                kind=values["conflictkind"],
                entry=uuid_text(EntryId(bytes.fromhex(values["conflictid"][:32]))),
                dn=values["conflictentry"],
                attribute=values.get("conflictattribute", ""),
                kept=values["conflictkept"],
                lost=values["conflictlost"],
                resolve=values["description"],
            )
