"""Reports what the files of a stopped host hold and what is wrong with them, for people and scripts."""

from collections.abc import Iterator

from msgspec import Struct

from holdfast.model.errors import Corruption, InvalidRequest
from holdfast.model.ids import GroupId, Position
from holdfast.storage.batch import Place
from holdfast.storage.checkpoint import UNFINISHED, checkpoint_of, verify
from holdfast.storage.identity import Store, load
from holdfast.storage.record import Record
from holdfast.storage.record_map import GroupIndex, read_records
from holdfast.storage.recovery import Damage, Recovered, scan
from holdfast.storage.segments import LogConfig, Readable, file_name, file_number, salt_of


class GroupReport(Struct, frozen=True, kw_only=True):
    """One group's records in the log."""

    group: int
    first: int
    last: int
    """The positions held are first to last; there are none when first is greater than last."""
    records: int
    bytes: int
    epoch: int
    followed_epoch: int
    checksum: int


class CheckpointReport(Struct, frozen=True, kw_only=True):
    name: str
    group: int
    position: int
    bytes: int
    is_whole: bool


class Problem(Struct, frozen=True, kw_only=True):
    """One problem: its place, what was expected, and what was found."""

    file: str
    offset: int
    expected: str
    found: str
    group: int | None = None
    first: int | None = None
    last: int | None = None


class Report(Struct, frozen=True, kw_only=True):
    """The report on a whole store."""

    identity: Store | None
    files: list[str]
    batches: int
    opening: int
    """The opening of the last batch."""
    end: Place
    """File and offset where the log ends."""
    synced_mark: Place
    """File and offset up to which the log itself says it was synced."""
    is_doubtful: bool
    """The last write is torn or rotted, or was so at an earlier opening and has not been cleared since."""
    groups: list[GroupReport]
    checkpoints: list[CheckpointReport]
    problems: list[Problem]

    @property
    def is_damaged(self) -> bool:
        return bool(self.problems)


def inspect(disk: Readable) -> Report:
    """Inspect everything. Raises ``InvalidRequest`` when there is no store at all."""
    names = disk.list()
    problems: list[Problem] = []
    identity = _identity(disk, problems)
    logs = [name for name in names if file_number(name) is not None]
    if identity is None and not logs and not problems:
        raise InvalidRequest("there is no store here: neither a record of one nor a log")
    found = _scan(disk, identity)
    problems += [_problem(damage) for damage in found.damage]
    checkpoints = [
        _checkpoint(disk, name, problems)
        for name in names
        if checkpoint_of(name) is not None and not name.endswith(UNFINISHED)
    ]
    _check_rotted(disk, found, problems)
    return Report(
        identity=identity,
        files=[file_name(number) for number in found.files],
        batches=found.batches,
        opening=found.last.opening if found.last is not None else 0,
        end=found.end,
        synced_mark=found.mark,
        is_doubtful=found.is_doubtful,
        groups=[_group(group, index) for group, index in sorted(found.groups.items())],
        checkpoints=checkpoints,
        problems=problems,
    )


def records(disk: Readable, group: GroupId | None = None) -> Iterator[Record]:
    """Yield every readable record, group by group. Raises ``Corruption`` at a rotted one."""
    try:
        identity = load(disk)
    except Corruption:
        identity = None
    for number, index in sorted(_scan(disk, identity).groups.items()):
        if group is None or number == group:
            yield from _all_records(disk, number, index)


def _all_records(disk: Readable, group: GroupId, index: GroupIndex) -> list[Record]:
    if not index.records:
        return []
    return read_records(disk, group, index, Position(index.floor.position + 1), Position(index.position))


def _scan(disk: Readable, identity: Store | None) -> Recovered:
    salt = salt_of(identity.store) if identity is not None else None
    return scan(disk, salt=salt, sector=LogConfig().sector_bytes)


def _identity(disk: Readable, problems: list[Problem]) -> Store | None:
    try:
        return load(disk)
    except Corruption as error:
        problems.append(_reported(error))
        return None


def _check_rotted(disk: Readable, found: Recovered, problems: list[Problem]) -> None:
    for group, index in sorted(found.groups.items()):
        try:
            _all_records(disk, group, index)
        except Corruption as error:
            problems.append(_reported(error, group))


def _checkpoint(disk: Readable, name: str, problems: list[Problem]) -> CheckpointReport:
    named = checkpoint_of(name)
    group, position = named if named is not None else (0, 0)
    try:
        verify(disk, name)
    except Corruption as error:
        problems.append(_reported(error, group))
        is_whole = False
    else:
        is_whole = True
    return CheckpointReport(
        name=name, group=group, position=position, bytes=disk.size(name), is_whole=is_whole
    )


def _group(group: GroupId, index: GroupIndex) -> GroupReport:
    return GroupReport(
        group=group,
        first=index.floor.position + 1,
        last=index.position,
        records=index.records,
        bytes=index.live_bytes,
        epoch=index.epoch,
        followed_epoch=index.followed,
        checksum=index.checksum,
    )


def _problem(damage: Damage) -> Problem:
    return Problem(
        file=damage.file,
        offset=damage.offset,
        expected=damage.expected,
        found=damage.found,
        group=damage.group,
        first=damage.first,
        last=damage.last,
    )


def _reported(error: Corruption, group: int | None = None) -> Problem:
    return Problem(
        file=error.file,
        offset=error.offset,
        expected=str(error.expected),
        found=str(error.found),
        group=group,
    )
