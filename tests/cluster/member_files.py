"""Reads a ledger from a stopped host's files, to compare it with what callers know."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from group_client import EXAMPLES

from holdfast.app_code.loader import load_code, offer_classes
from holdfast.execution.definition import Definition
from holdfast.execution.execution import Execution
from holdfast.execution.records import Upgraded, decode_record
from holdfast.execution.saved_state import head_of
from holdfast.model.code import UNKNOWN, Code
from holdfast.model.ids import GroupId, Position
from holdfast.node.store import STORE
from holdfast.storage.checkpoint import UNFINISHED, checkpoint_of, read_chunks, verify
from holdfast.storage.disk import Directory
from holdfast.storage.inspect import records


@dataclass(frozen=True)
class Kept:
    """One member's state: everything in its files, executed."""

    position: Position
    balances: dict[str, int]


def ledger_of(host_directory: Path, group: GroupId) -> Kept:
    """Return the newest checkpoint with the records after it executed. Fails on damage and where a replay
    differs."""
    disk = Directory(host_directory / STORE)
    execution = _newest_checkpoint(disk, group)
    for record in records(disk, group):
        if record.first > execution.position:
            effects = execution.apply(record.first, decode_record(record.body))
            assert not effects.divergence, effects.divergence
    instance: Any = execution.line.instance
    return Kept(execution.position, dict(instance.balances))


def _newest_checkpoint(disk: Directory, group: GroupId) -> Execution:
    """Return the object of the newest checkpoint, by the class of the examples, which these files say made
    them."""
    offer_classes(EXAMPLES)
    cls = load_code("ledger:Ledger")[0]
    for name in reversed(disk.list()):
        named = checkpoint_of(name)
        if named is not None and named[0] == group and not name.endswith(UNFINISHED):
            chunks = list(read_chunks(disk, verify(disk, name)))
            code = head_of(iter(chunks)).code
            execution = Execution.load(_ledger(group, cls, code), b"".join(chunks))
            execution.go_on()
            return execution
    first = next((decode_record(each.body) for each in records(disk, group)), None)
    return Execution(_ledger(group, cls, first.to_code if isinstance(first, Upgraded) else UNKNOWN))


def _ledger(group: GroupId, cls: type, code: Code) -> Definition:
    return Definition(group=str(group), cls=cls, fresh=cls, code=code)
