"""``holdfast log``: inspect the log of a stopped host."""

from pathlib import Path

from cyclopts import App

from holdfast.cli.output import Output, print_json, print_table, say, styled, talk
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import GroupId
from holdfast.storage.disk import Directory
from holdfast.storage.inspect import Problem, Report, inspect, records
from holdfast.storage.lock import LockHeld, holder_of

EXIT_DONE, EXIT_DAMAGED = 0, 1
BODY_SHOWN = 60

app = App(name="log", help="Look into the log of a stopped host.")


@app.command(name="inspect")
def inspect_log(
    directory: Path, *, records: bool = False, group: int | None = None, output: Output = "table"
) -> int:
    """Show what a store's directory holds and what is wrong with it; exits with 1 if anything is.

    Parameters
    ----------
    directory: The store of a host that does not run.
    records: List the records too.
    group: Only the records of this group.
    output: A table for people, one JSON object for scripts.
    """
    if not directory.is_dir():
        raise InvalidRequest(f"{directory} is not a directory")
    # A host locks the directory that contains its store.
    holder = holder_of(directory.absolute().parent) or holder_of(directory)
    if holder is not None:
        # A log that is being written looks torn, and reading it proves nothing about what is synced.
        raise LockHeld(directory, holder)
    disk = Directory(directory)
    report = inspect(disk)
    rows = list(_rows(disk, group)) if records and not report.is_damaged else []
    if output == "json":
        print_json(_as_json(report, rows if records else None))
    else:
        _show(report, rows)
    return EXIT_DAMAGED if report.is_damaged else EXIT_DONE


def _rows(disk: Directory, group: int | None) -> list[tuple[int, int, int, int, int, str]]:
    return [
        (found.group, found.first, found.count, found.epoch, len(found.body), _glimpse(found.body))
        for found in records(disk, GroupId(group) if group is not None else None)
    ]


def _glimpse(body: bytes) -> str:
    return repr(body[:BODY_SHOWN])[2:-1] + ("…" if len(body) > BODY_SHOWN else "")


def _as_json(report: Report, rows: list[tuple[int, int, int, int, int, str]] | None) -> dict[str, object]:
    shown: dict[str, object] = {name: getattr(report, name) for name in report.__struct_fields__}
    shown["is_damaged"] = report.is_damaged
    if rows is not None:
        columns = ("group", "first", "count", "epoch", "bytes", "body")
        shown["records"] = [dict(zip(columns, row, strict=True)) for row in rows]
    return shown


def _show(report: Report, rows: list[tuple[int, int, int, int, int, str]]) -> None:
    store = report.identity
    name = f"store {store.store} of host {store.host}, opening {store.opening}" if store else "no identity"
    end, mark = (f"file {at.file} byte {at.offset}" for at in (report.end, report.synced_mark))
    say(f"{name}\n{len(report.files)} files, {report.batches} batches, ends at {end}, synced up to {mark}")
    if report.is_doubtful:
        said = " the last write was torn or has rotted; compare with other members"
        talk.print(styled(("in doubt:", "yellow"), said))
    print_table(
        ("group", "first", "last", "records", "bytes", "epoch"),
        [(g.group, g.first, g.last, g.records, g.bytes, g.epoch) for g in report.groups],
        title="groups",
    )
    if report.checkpoints:
        print_table(
            ("group", "position", "bytes", "whole"),
            [(c.group, c.position, c.bytes, "yes" if c.is_whole else "NO") for c in report.checkpoints],
            title="checkpoints",
        )
    if rows:
        print_table(("group", "first", "count", "epoch", "bytes", "body"), rows, title="records")
    for problem in report.problems:
        talk.print(styled(("damaged:", "bold red"), f" {_sentence(problem)}"))


def _sentence(problem: Problem) -> str:
    text = f"{problem.file} at byte {problem.offset}: expected {problem.expected}, found {problem.found}"
    if problem.group is not None:
        text += f"; hits group {problem.group}"
    if problem.first is not None:
        text += f" positions {problem.first} to {problem.last}"
    return text
