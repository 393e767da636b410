"""Reads the log after a restart: what it holds, where it ends, and whether it can be trusted (D2).

The scan walks from batch to batch; each batch names the one before. Where the chain ends, the scan looks
further: a later batch, or the mark of any batch, may prove that the log was synced beyond this place. Then
this is *damage*: it is reported, never cut, and the store may be read but not written. Otherwise nothing
shows that the log was synced here. If everything that follows is blank, the log simply ends. If not, its last
write was torn or has rotted, nothing on this disk can say which, and the log ends here *in doubt*.
"""

from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from holdfast.model.errors import Corruption
from holdfast.model.ids import GroupId
from holdfast.storage import batch as batches
from holdfast.storage.batch import BATCH_BYTES, MAGIC, Batch, Flag, Item, Place
from holdfast.storage.record import RECORD_BYTES, Kind, Unreadable
from holdfast.storage.record_map import GroupIndex, Replay
from holdfast.storage.segments import Readable, decode_file_header, file_name, file_number

READ_BYTES: Final = 1 << 20
BEGINNING: Final = Place(0, 0)


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes that had been synced and are not what was written."""

    file: str
    offset: int
    expected: str
    found: str
    group: GroupId | None = None
    """The affected group; None when it cannot be determined."""
    first: int | None = None
    last: int | None = None
    """The lost positions, where they are known."""

    def error(self) -> Corruption:
        return Corruption(
            "the log is damaged", file=self.file, offset=self.offset, expected=self.expected, found=self.found
        )


@dataclass(slots=True)
class Recovered:
    """The result of a scan, from which the log continues."""

    salt: int | None
    sector: int
    files: list[int] = field(default_factory=list)
    """The numbers of the files with a valid header, in order."""
    unusable: list[str] = field(default_factory=list)
    """Files that were never finished or belong to another store: to be removed."""
    groups: dict[GroupId, GroupIndex] = field(default_factory=dict)
    end: Place = BEGINNING
    """The place of the next batch."""
    mark: Place = BEGINNING
    """The place up to which the log itself says it was synced."""
    last: Batch | None = None
    batches: int = 0
    blank: dict[int, tuple[int, int]] = field(default_factory=dict)
    """The remains of torn writes beyond the end, by file: start and end offset. The log blanks them."""
    is_doubtful: bool = False
    damage: list[Damage] = field(default_factory=list)

    @property
    def is_damaged(self) -> bool:
        return bool(self.damage)

    def hit(self) -> list[GroupId]:
        """The groups known to have lost records."""
        return sorted({damage.group for damage in self.damage if damage.group is not None})


def scan(disk: Readable, *, salt: int | None, sector: int) -> Recovered:
    """Read the whole log.

    Without *salt* (the identity is lost), the salt of the first file is used; *sector* applies until a file
    says otherwise. Raises only what the disk raises.
    """
    return Scan(disk, salt, sector).run()


class Scan:
    """One scan; see :func:`scan`."""

    def __init__(self, disk: Readable, salt: int | None, sector: int) -> None:
        self._disk = disk
        self._found = Recovered(salt, sector)
        self._replay = Replay()
        self._window = (0, 0, b"")  # file, offset, bytes of the last read
        self._cut: dict[int, None] = {}  # files that are shorter than they were made

    def run(self) -> Recovered:
        found = self._found
        self._survey()
        if found.files:
            self._walk()
        for broken in self._replay.breaks:
            self._damage(
                broken.place,
                broken.expected,
                broken.found,
                broken.group,
                broken.first_missing,
                broken.last_missing,
            )
        for group, place in self._replay.unanchored():
            self._damage(place, f"the records of group {group} before this one", "none", group)
        found.groups = self._replay.groups
        return found

    # --- files

    def _survey(self) -> None:
        """Determine which files exist and which of them count."""
        found = self._found
        numbers = sorted(n for n in map(file_number, self._disk.list()) if n is not None)
        for number in numbers:
            self._consider(number, is_last=number == numbers[-1])
        if not self._gaps():
            return
        # A removal that was never synced may have been undone although later ones were synced.
        sound = [batch for file in found.files for _, batch in self._batches_in(file, 0)]
        oldest = max((batch.oldest for batch in sound), default=0)
        found.unusable += [file_name(file) for file in found.files if file < oldest]
        found.files = [file for file in found.files if file >= oldest]
        for file in self._gaps():
            self._damage(Place(file, 0), "a file", "none")

    def _gaps(self) -> list[int]:
        """The first missing number of each gap between the files."""
        files = self._found.files
        return [before + 1 for before, after in pairwise(files) if after != before + 1]

    def _consider(self, number: int, *, is_last: bool) -> None:
        found = self._found
        name = file_name(number)
        try:
            header = decode_file_header(self._disk.read(name, 0, 512))
            if header.file != number:
                raise Unreadable(f"file {number}", f"file {header.file}")
            if header.size < self._disk.size(name):
                raise Unreadable(f"{header.size} bytes", f"{self._disk.size(name)} bytes")
            if header.size > self._disk.size(name):
                # The end of the file was cut off. If a batch is missing from the middle of the log, the
                # batches after it show that; otherwise only the tail is in doubt (D2).
                self._cut[number] = None
            if found.salt is None:
                found.salt = header.salt
            if header.salt != found.salt:
                # The file belongs to an earlier store; its removal was undone by a failed sync.
                found.unusable.append(name)
                return
        except Unreadable as wrong:
            if is_last and not self._batches_in(number, 0):
                found.unusable.append(name)  # the crash came while the file was made: it is still empty
                return
            self._damage(Place(number, 0), str(wrong.expected), str(wrong.found))
        else:
            found.sector = header.sector
        found.files.append(number)

    # --- batches

    def _walk(self) -> None:
        place = Place(self._found.files[0], self._found.sector)
        is_gap = False
        while True:
            ahead = self._next(place, is_gap)
            if ahead is not None:
                place, is_gap = self._take(*ahead), False
                continue
            resumed = self._look_on(place)
            if resumed is None:
                return
            place, is_gap = resumed, True

    def _next(self, place: Place, is_gap: bool) -> tuple[Place, Batch, list[Item], bytes] | None:
        """The batch that follows at *place* or at the start of the next file."""
        for spot in (place, Place(place.file + 1, self._found.sector)):
            if spot.file in self._found.files:
                try:
                    batch, items, data = self._read(spot)
                except Unreadable:
                    continue
                if is_gap or self._continues(batch):
                    return spot, batch, items, data
        return None

    def _continues(self, batch: Batch) -> bool:
        last = self._found.last
        if last is None:
            return True
        return (batch.number, batch.previous) == (last.number + 1, last.checksum) and (
            batch.opening >= last.opening
        )

    def _take(self, place: Place, batch: Batch, items: list[Item], data: bytes) -> Place:
        found = self._found
        self._replay_items(items, place, data)
        found.last = batch
        found.batches += 1
        found.mark = max(found.mark, batch.mark)
        found.is_doubtful = bool(batch.flags & Flag.DOUBTFUL)
        found.end = Place(place.file, place.offset + batch.size(found.sector))
        return found.end

    def _replay_items(self, items: list[Item], place: Place, data: bytes) -> None:
        apply = self._replay.apply
        for item in items:
            body = b""
            if item.kind != Kind.DATA:
                body = data[item.offset + RECORD_BYTES : item.offset + item.size]
            apply(item, Place(place.file, place.offset + item.offset), body)

    def _read(self, place: Place) -> tuple[Batch, list[Item], bytes]:
        """Read the whole, valid batch at *place*; raises ``Unreadable``."""
        batch = self._header(place)
        data = self._bytes(place, batch.size(self._found.sector))
        if len(data) < batch.size(self._found.sector):
            raise Unreadable(f"{batch.size(self._found.sector)} bytes", f"{len(data)} bytes")
        batches.check_payload(batch, data)
        return batch, batches.items(batch, data), data

    def _header(self, place: Place) -> Batch:
        batch = batches.decode_header(self._bytes(place, BATCH_BYTES))
        if (batch.salt, batch.file) != (self._found.salt, place.file):
            raise Unreadable(
                f"store {self._found.salt:#x} file {place.file}", f"{batch.salt:#x} {batch.file}"
            )
        return batch

    def _bytes(self, place: Place, length: int) -> bytes:
        file, start, data = self._window
        at = place.offset - start
        if file != place.file or at < 0 or at + length > len(data):
            data = self._disk.read(file_name(place.file), place.offset, max(length, READ_BYTES))
            self._window = (place.file, place.offset, data)
            at = 0
        return data[at : at + length]

    # --- the first bad place

    def _look_on(self, spot: Place) -> Place | None:
        """Decide what the bad *spot* is: return where to continue after damage, None at the log's end."""
        found = self._found
        later = self._later_batches(spot)
        found.mark = max([found.mark, *(batch.mark for _, batch in later)])
        if found.mark > spot:
            self._report(spot)
            return later[0][0]  # there is one: at least the batch whose mark this is
        found.end = spot
        found.blank = self._remains(spot)
        found.is_doubtful |= bool(found.blank) or spot.file in self._cut
        return None

    def _later_batches(self, spot: Place) -> list[tuple[Place, Batch]]:
        """The valid batches beyond *spot* that are newer than all before it."""
        newest = self._found.last.number if self._found.last is not None else 0
        sound = []
        for file in self._found.files:
            if file >= spot.file:
                start = spot.offset if file == spot.file else 0
                sound += [
                    place_and for place_and in self._batches_in(file, start) if place_and[1].number > newest
                ]
        return sound

    def _batches_in(self, file: int, start: int) -> list[tuple[Place, Batch]]:
        sector = self._found.sector
        sound = []
        name, size, offset = file_name(file), self._disk.size(file_name(file)), start
        while offset < size:
            data = self._disk.read(name, offset, READ_BYTES)
            at = data.find(MAGIC)
            while at >= 0:
                place = Place(file, offset + at)
                if place.offset % sector == 0:
                    with suppress(Unreadable):
                        sound.append((place, self._read(place)[0]))
                at = data.find(MAGIC, at + 1)
            # A sector's first bytes never lie across two reads: both are whole sectors.
            offset += len(data) or size
        return sound

    def _remains(self, spot: Place) -> dict[int, tuple[int, int]]:
        """The bytes beyond *spot* that are not blank, by file."""
        remains = {}
        for file in self._found.files:
            if file >= spot.file:
                start = spot.offset if file == spot.file else self._found.sector
                end = self._last_written(file, start)
                if end > start:
                    remains[file] = (start, end)
        return remains

    def _last_written(self, file: int, start: int) -> int:
        name, size, end, offset = file_name(file), self._disk.size(file_name(file)), start, start
        while offset < size:
            data = self._disk.read(name, offset, READ_BYTES)
            written = len(data.rstrip(b"\0"))
            if written:
                end = offset + written
            offset += len(data) or size
        return end

    # --- reporting damage

    def _report(self, spot: Place) -> None:
        """Report what is damaged in the batch at *spot*, as far as it can be determined."""
        try:
            batch = self._header(spot)
        except Unreadable as wrong:
            self._damage(spot, str(wrong.expected), str(wrong.found))
            return
        if not self._continues(batch):
            last = self._found.last
            self._damage(spot, f"batch {last.number + 1 if last else 1}", f"batch {batch.number}")
            return
        data = self._bytes(spot, batch.size(self._found.sector))
        intact, damaged, is_all = batches.salvage(batch, data)
        self._replay_items(intact, spot, data)  # each is proven by its own checksum
        for item in damaged:
            place = Place(spot.file, spot.offset + item.offset)
            last_position = item.first + item.count - 1
            self._damage(place, "its checksum", "another", GroupId(item.group), item.first, last_position)
        if not is_all or not damaged:
            self._damage(spot, "a whole batch", f"{len(intact)} of {batch.records} records")

    def _damage(
        self,
        place: Place,
        expected: str,
        found: str,
        group: GroupId | None = None,
        first: int | None = None,
        last: int | None = None,
    ) -> None:
        damage = Damage(file_name(place.file), place.offset, expected, found, group, first, last)
        self._found.damage.append(damage)
