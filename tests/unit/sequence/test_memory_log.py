"""The log in memory gives the same answers as one that scans every record."""

from random import Random

from holdfast.model.ids import Epoch, GroupId, Position
from holdfast.sequence.memory_log import MemoryLog

GROUP, EPOCH = GroupId(1), Epoch(1)


def test_records_are_found_by_the_positions_they_hold() -> None:
    """This holds whatever was appended, dropped and released before."""
    random = Random(1)
    log = MemoryLog(lambda _: None)
    for _ in range(300):
        match random.randrange(8):
            case 0 if log.groups():
                log.drop(GROUP, random.choice(_ends(log)), EPOCH)
            case 1 if log.groups():
                log.set_floor(GROUP, random.choice(_ends(log)))
            case _:
                log.append(GROUP, EPOCH, b"x", random.randrange(1, 4))
        _agree(log)


def _ends(log: MemoryLog) -> list[Position]:
    floor, tail = log.floor(GROUP).position, log.tail(GROUP).position
    return [
        position
        for position in map(Position, range(floor, tail + 1))
        if log.point_at(GROUP, position) is not None
    ]


def _agree(log: MemoryLog) -> None:
    floor, tail = log.floor(GROUP).position, log.tail(GROUP).position
    if floor == tail:
        return
    every = log.read(GROUP, Position(floor + 1), tail)
    assert [each.first for each in every] == [floor + 1, *(each.last + 1 for each in every[:-1])]
    for first in range(floor + 1, tail + 1):
        for last in range(first, min(first + 4, tail + 1)):
            found = log.read(GROUP, Position(first), Position(last))
            assert found == [each for each in every if each.last >= first and each.first <= last]
    ends = {each.last: each.point for each in every}
    for position in range(floor + 1, tail + 1):
        assert log.point_at(GROUP, Position(position)) == ends.get(Position(position))
    assert log.live_bytes(GROUP) == len(every)
