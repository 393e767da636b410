"""Counting what became of every call, from the files of the stopped members and from nothing else.

Of each member: its newest checkpoint and the log behind it give the balances that it would serve. All logs
are compared with each other, record by record. What the group answered while it ran plays no part in it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from msgspec import Struct

from holdfast.demo.load import CALLS_PER_ACCOUNT, Caller, executions, place_of
from holdfast.model.errors import Corruption
from holdfast.model.ids import GroupId, HostId, Position
from holdfast.storage.checkpoint import UNFINISHED, Checkpoint, checkpoint_of, read_chunks, verify
from holdfast.storage.directory import Directory
from holdfast.storage.inspect import records
from holdfast.styles.definition import Definition
from holdfast.styles.execution import Execution
from holdfast.styles.operation import decode_record


@dataclass(frozen=True, slots=True)
class Remains:
    """What one member left on its disk."""

    host: HostId
    balances: Mapping[str, int]
    position: Position
    log: Mapping[Position, int]
    """The checksum of each record in its log, by the record's first position: each covers all before it."""


class Count(Struct, frozen=True, kw_only=True):
    """What became of the calls, as the members' files tell."""

    acknowledged: int
    lost: int
    """Acknowledged, and missing from a member."""
    duplicated: int
    """Executions too many, in the member where they are the most."""
    unknown: int
    """Calls that ended without an outcome."""
    unknown_executed: int
    members: tuple[HostId, ...]
    records_compared: int
    records_differing: int
    """Records at the same position of two members' logs that are not the same."""


def read_member(host: HostId, store: Path, group: GroupId, definition: Definition) -> Remains:
    """Raises ``Corruption`` when the store is damaged."""
    disk = Directory(store)
    checkpoint = _newest(disk, group)
    if checkpoint is None:
        execution = Execution(definition)
    else:
        execution = Execution.load(definition, b"".join(read_chunks(disk, checkpoint)))
    log: dict[Position, int] = {}
    for record in records(disk, group):
        log[record.first] = record.checksum
        if record.first > execution.position:
            execution.apply(record.first, decode_record(record.body))
    instance = execution.line.instance
    return Remains(host, dict(instance.balances), execution.position, log)  # type: ignore[attr-defined]  # a ledger


def count(callers: Iterable[Caller], members: list[Remains]) -> Count:
    """What became of the calls of *callers*. Lost or duplicated in one member is lost or duplicated."""
    acknowledged = lost = duplicated = unknown = unknown_executed = 0
    known: set[str] = set()
    for caller in callers:
        in_doubt = set(caller.unknown)
        acknowledged += caller.sent - len(in_doubt)
        unknown += len(in_doubt)
        for first in range(0, caller.sent, CALLS_PER_ACCOUNT):
            account, _ = place_of(caller.id, first)
            known.add(account)
            digits = [executions(member.balances.get(account, 0)) for member in members]
            for digit in range(CALLS_PER_ACCOUNT):
                times = [each[digit] for each in digits]
                number = first + digit
                duplicated += max(0, max(times) - (number < caller.sent))
                if number in in_doubt:
                    unknown_executed += max(times) > 0
                elif number < caller.sent:
                    lost += min(times) == 0
    # Deposits that nobody has made: money from nowhere is a duplicate of something.
    duplicated += sum(account not in known for member in members for account in member.balances)
    compared, differing = _compare(members)
    return Count(
        acknowledged=acknowledged,
        lost=lost,
        duplicated=duplicated,
        unknown=unknown,
        unknown_executed=unknown_executed,
        members=tuple(member.host for member in members),
        records_compared=compared,
        records_differing=differing,
    )


def _compare(members: list[Remains]) -> tuple[int, int]:
    compared = differing = 0
    first, *others = members
    for other in others:
        both = first.log.keys() & other.log.keys()
        compared += len(both)
        differing += sum(first.log[position] != other.log[position] for position in both)
    return compared, differing


def _newest(disk: Directory, group: GroupId) -> Checkpoint | None:
    """The newest checkpoint that is whole."""
    named = ((checkpoint_of(name), name) for name in disk.list() if not name.endswith(UNFINISHED))
    found = sorted((of[1], name) for of, name in named if of is not None and of[0] == group)
    for _, name in reversed(found):
        try:
            return verify(disk, name)
        except Corruption:
            continue
    return None
