"""Reading records back, each checked: bytes that rotted since they were written are never served."""

from typing import Final

from holdfast.model.errors import Corruption
from holdfast.model.ids import GroupId, Position
from holdfast.storage.files import Readable, file_name
from holdfast.storage.index import GroupIndex, Located
from holdfast.storage.record import Record, Unreadable, decode

SPAN_BYTES: Final = 256 << 10
"""Records of one group that lie this close are read together; other groups' records lie between them."""


def read_records(
    disk: Readable, group: GroupId, index: GroupIndex, first: Position, last: Position
) -> list[Record]:
    """The records of *group* that hold the positions *first* to *last*, in order.

    Raises ``Corruption`` where the disk holds something else than what was written there, ``InvalidRequest``
    for positions the log does not hold.
    """
    found = index.located(first, last)
    records: list[Record] = []
    at = 0
    while at < len(found):
        end = _reach(found, at)
        start, stop = found[at].place, found[end - 1].place
        data = disk.read(
            file_name(start.file), start.offset, stop.offset + found[end - 1].size - start.offset
        )
        for located in found[at:end]:
            offset = located.place.offset - start.offset
            records.append(_checked(group, located, data[offset : offset + located.size]))
        at = end
    return records


def _reach(found: list[Located], at: int) -> int:
    """Up to which record one read goes."""
    start = found[at].place
    end = at + 1
    while end < len(found):
        place = found[end].place
        if place.file != start.file or not 0 < place.offset - start.offset < SPAN_BYTES:
            break
        end += 1
    return end


def _checked(group: GroupId, located: Located, data: bytes) -> Record:
    try:
        record = decode(data)
        if (record.group, record.first) != (group, located.first):
            raise Unreadable(
                f"group {group} position {located.first}", f"group {record.group} position {record.first}"
            )
    except Unreadable as wrong:
        raise Corruption(
            "a record is damaged",
            file=file_name(located.place.file),
            offset=located.place.offset,
            expected=wrong.expected,
            found=wrong.found,
        ) from None
    return record
