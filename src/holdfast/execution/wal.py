"""Which pages SQLite is about to write into the main file of a database: those in its write-ahead log.

In WAL mode a commit appends pages to the WAL, and only a checkpoint of SQLite's writes them into the main
file. So the WAL says beforehand which pages a checkpoint may change. It is a header and frames, each a page
with the page's number; the header's salts change whenever SQLite begins the WAL anew, and a frame with other
salts is left over from before (https://sqlite.org/fileformat2.html#walformat).
"""

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from holdfast.storage.segments import Readable

WAL: Final = "-wal"
"""What SQLite appends to a database's name for its WAL."""
PIECE_BYTES: Final = 1 << 20
_HEADER: Final = Struct(">8sII8s8s")
_FRAME: Final = Struct(">II8s8s")


class WalMark(NamedTuple):
    """How far a WAL was brought into the main file: so many frames of the one with these salts."""

    salts: bytes = b""
    frames: int = 0


class WalPages(NamedTuple):
    """What the frames of a WAL hold beyond a mark."""

    salts: bytes
    page_bytes: int
    frames: int
    """The frames there are, those up to the mark among them."""
    numbers: frozenset[int]
    """The pages, numbered from 1."""

    def chunks(self, chunk_bytes: int) -> set[int]:
        """The chunks of the main file that they lie in, from 0."""
        found: set[int] = set()
        for number in sorted(self.numbers):
            offset = (number - 1) * self.page_bytes
            found.update(range(offset // chunk_bytes, (offset + self.page_bytes - 1) // chunk_bytes + 1))
        return found


def pages_beyond(mark: WalMark, source: Readable, database: str) -> WalPages:
    """Read the WAL of *database*. Frames that were committed are all there. Others may follow that a
    transaction has written, or has taken back: they only make the answer larger."""
    name = database + WAL
    size = source.size(name) if name in source.list() else 0
    header = source.read(name, 0, _HEADER.size) if size >= _HEADER.size else b""
    if len(header) < _HEADER.size:
        return WalPages(b"", 0, 0, frozenset())
    _, page_bytes, _, salts, _ = _HEADER.unpack(header)
    first = mark.frames if mark.salts == salts else 0
    frames, numbers = first, set()
    for number, found in _frames(source, name, first, size, page_bytes):
        if found != salts:
            break
        frames += 1
        numbers.add(number)
    return WalPages(salts, page_bytes, frames, frozenset(numbers))


def _frames(
    source: Readable, name: str, first: int, size: int, page_bytes: int
) -> Iterator[tuple[int, bytes]]:
    """The page number and the salts of each whole frame from the first one on."""
    frame_bytes = _FRAME.size + page_bytes
    piece = max(1, PIECE_BYTES // frame_bytes) * frame_bytes
    for offset in range(_HEADER.size + first * frame_bytes, size - frame_bytes + 1, piece):
        data = source.read(name, offset, piece)
        for at in range(0, len(data) - frame_bytes + 1, frame_bytes):
            number, _, salts, _ = _FRAME.unpack_from(data, at)
            yield number, salts
