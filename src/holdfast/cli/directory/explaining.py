"""``holdfast explain dc=example,dc=com``: how the replica in a directory of files is, and why."""

from collections.abc import Iterator
from pathlib import Path

from holdfast.clock.state import ClockState
from holdfast.clock.vector import Vector
from holdfast.directory.conflicts import Conflict
from holdfast.directory.dn import Dn
from holdfast.directory.entry import decoded_entry
from holdfast.directory.reading import reading
from holdfast.directory.replica.changelog import vector_in
from holdfast.directory.replica.maps import CSNSTATE, ENTRIES, KEPT, REPLICA, SHOWN, TRIMMED, UPDATES
from holdfast.directory.replica.snapshot import Snapshot
from holdfast.directory.replica.stored_state import stored_conflicts
from holdfast.directory.store import Reader
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import SECOND
from holdfast.storage.lock import LockWatch, seize


def explained(directory: Path, suffix: str) -> list[str]:
    """Lines for people: of one replica's files, or of a domain's hosts on this machine. Raises
    ``InvalidRequest`` if the files are of something else."""
    hosts = sorted(directory.glob("hosts/*/services/directory"))
    if not hosts:
        return _explained(directory, suffix)
    lines: list[str] = []
    reasons: list[str] = []
    for each in hosts:
        try:
            with reading(each, suffix) as snapshot:
                lines.append(f"{snapshot.suffix.text}: the replica of {each.parent.parent.name}, in {each}")
                lines += _lines(snapshot, stored_conflicts(snapshot.reader), each)
        except InvalidRequest as error:
            reasons.append(str(error))
    if not lines:
        raise InvalidRequest(f"no host in {directory} has a replica of {suffix}: {'; '.join(reasons)}")
    return lines


def _explained(directory: Path, suffix: str) -> list[str]:
    with reading(directory, suffix) as snapshot:
        if Dn.parse(suffix).key(snapshot.schema) != snapshot.suffix.key:
            raise InvalidRequest(f"{directory} holds {snapshot.suffix.text}, not {suffix}")
        return [
            f"{snapshot.suffix.text}: one replica, in {directory}, {_served(directory)}",
            *_lines(snapshot, stored_conflicts(snapshot.reader), directory),
        ]


def _served(directory: Path) -> str:
    found = seize(directory)
    try:
        holder = found.holder() if isinstance(found, LockWatch) else None
        return "not being served" if holder is None else f"served by process {holder.pid}"
    finally:
        if isinstance(found, LockWatch):
            found.close()
        else:
            found.release()


def _lines(snapshot: Snapshot, found: list[Conflict], directory: Path) -> Iterator[str]:
    reader = snapshot.reader
    states = (decoded_entry(bytes(row)) for _, row in reader.rows(ENTRIES))
    gone = sum(each.removal is not None for each in states)
    shown = sum(1 for _ in reader.rows(SHOWN))
    yield f"{shown} entries are shown; of {gone} that were removed the state is kept"
    vector = vector_in(reader)
    if vector is not None:
        for csn in vector:
            yield f"of replica {csn.replica} it has everything up to {csn} ({csn.describe()})"
        if vector.retired:
            yield f"retired: {', '.join(map(str, vector.retired))}"
    yield from _changelog(reader)
    yield from _clock(reader)
    if found:
        yield (
            f"{len(found)} conflicts are not resolved: "
            f"`holdfast directory conflicts list --dir {directory}` has them"
        )
    else:
        yield "there are no conflicts"


def _changelog(reader: Reader) -> Iterator[str]:
    count = sum(1 for _ in reader.rows(UPDATES))
    row = reader.get(REPLICA, TRIMMED)
    trimmed = None if row is None else Vector.parse(row.decode())
    if trimmed is None or not len(trimmed):
        yield f"the changelog has all {count} updates since the beginning"
        return
    ends = ", ".join(f"{csn} of replica {csn.replica}" for csn in trimmed)
    yield f"the changelog has {count} updates, after {ends}: whoever lacks those takes a full copy"


def _clock(reader: Reader) -> Iterator[str]:
    row = reader.get(KEPT, CSNSTATE)
    if row is None:
        return
    state = ClockState.parse(row.decode())
    for offset_ns, why in (
        (
            state.local_ns,
            "the system's clock was set back, or more changes were made than seconds can number",
        ),
        (state.network_ns, "another master's clock was ahead"),
    ):
        if offset_ns:
            yield f"its CSNs are {offset_ns / SECOND:.1f} s ahead of its clock: {why}"
