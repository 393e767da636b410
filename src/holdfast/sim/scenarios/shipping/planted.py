"""Bugs planted in what fetches files, each a mistake that a copier of files easily makes."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from holdfast.shipping import manifest
from holdfast.shipping.fetch import Fetch
from holdfast.shipping.manifest import Contents, FileEntry, digest_of
from holdfast.shipping.messages import ChunkSent
from holdfast.shipping.progress import Phase
from holdfast.shipping.shelf import PART, Place, Shelf, file_name
from holdfast.sim.runner.planted import Planting


def _believe_what_was_written(fetch: Fetch) -> None:
    """Counts a manifest because every chunk of it was right when it was written."""
    fetch.progress.phase = Phase.NAMING
    fetch._shelf.finish(fetch.contents, lambda: fetch._end(None))


def _trust_half_made_files(fetch: Fetch, places: Iterable[Place]) -> Iterator[int]:
    """Takes what the operating system shows of half-made files for what is on the disk."""
    left = []
    for place in places:
        numbers = fetch._lacking.get(place.digest)
        if (
            not place.name.endswith(PART)
            or numbers is None
            or digest_of(fetch._shelf.read(place)) != place.digest
        ):
            left.append(place)
        else:
            numbers[:] = [
                each for each in numbers if fetch._shelf.place_of(fetch.contents.chunk(each)) != place
            ]
            if not numbers:
                del fetch._lacking[place.digest]
        yield place.length
    yield from _searching(fetch, left)


_searching = Fetch._searching


def _take_any_chunk(fetch: Fetch, peer: str, sent: ChunkSent) -> None:
    """Writes what arrives without looking at its hash."""
    chunk = fetch.contents.chunk(sent.number)
    numbers = fetch._lacking.get(chunk.digest, [])
    if sent.manifest == fetch.contents.id and fetch._no_longer_asked(sent.number) and sent.number in numbers:
        numbers.remove(sent.number)
        fetch._write(sent.number, sent.data)
        fetch._go_on()


def _any_room(fetch: Fetch, length: int) -> bool:
    """Asks for everything at once."""
    return True


def _any_name(name: str) -> str | None:
    return None


def _count_unsynced_names(shelf: Shelf, contents: Contents, then: Callable[[], None]) -> None:
    """Counts a manifest whose name, or whose files' names, a power cut may take away."""
    _finish(shelf, contents, lambda: None)
    names = shelf._counting[contents.id] = tuple(file_name(file) for file in contents.files)
    shelf._durable |= dict.fromkeys(names)
    then()


_finish = Shelf.finish


def _begin_anew(
    shelf: Shelf,
    contents: Contents,
    then: Callable[[list[FileEntry]], None],
    instead_of: Contents | None = None,
) -> None:
    """Forgets what an earlier process has fetched."""
    _begin(shelf, contents, lambda half_made: then([]), instead_of)


_begin = Shelf.begin


def _sync_nothing(shelf: Shelf, names: Iterable[str], then: Callable[[], None]) -> None:
    """Gives files their names before their content is synced."""
    shelf._syncs.after((), then)


_bug: Final = Planting("shipping")

PLANTED = (
    _bug(
        "believes-what-was-written",
        "W5",
        "a manifest counts before its files are read again and hashed",
        Fetch,
        "_check",
        _believe_what_was_written,
        "parcels",
    ),
    _bug(
        "trusts-half-made-files",
        "W5",
        "chunks that an earlier process wrote count as synced",
        Fetch,
        "_searching",
        _trust_half_made_files,
        "syncs",
    ),
    _bug(
        "counts-unsynced-names",
        "W5",
        "a manifest counts before its name and those of its files are durable",
        Shelf,
        "finish",
        _count_unsynced_names,
        "power",
    ),
    _bug(
        "names-unsynced-files",
        "W5",
        "files get their final names before their content is synced",
        Shelf,
        "sync",
        _sync_nothing,
        "power",
    ),
    _bug(
        "takes-any-chunk",
        "W6",
        "the hash of a chunk that arrives is not compared",
        Fetch,
        "on_chunk",
        _take_any_chunk,
        "parcels",
    ),
    _bug("asks-for-everything", "W6", "the window has no bound", Fetch, "_has_room", _any_room),
    _bug(
        "takes-any-name",
        "W6",
        "a file's name may lead out of the directory it is put into",
        manifest,
        "name_problem",
        _any_name,
    ),
    _bug(
        "begins-anew",
        "W6",
        "what an earlier process fetched is sent again",
        Shelf,
        "begin",
        _begin_anew,
        "kills",
    ),
)
