"""The files of one directory, looked at without opening them for writing: also while a master serves them.

LMDB lets any number of processes read one moment while another writes, so whoever may read the files needs
no door. A reader that is left open keeps old pages from being used again: read, and close.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from holdfast.directory.dn import Dn
from holdfast.directory.hosting.places import STORE, places, why_none
from holdfast.directory.lmdb_store import FILE, read_store
from holdfast.directory.replica.maps import FORMATS, IDENTITY, MAPS, REPLICA, Identity
from holdfast.directory.replica.snapshot import Snapshot, Suffix
from holdfast.directory.schema.standard import standard_schema
from holdfast.directory.store import Reader
from holdfast.model.errors import InvalidRequest


def store_of(directory: Path) -> Path:
    """Where the store is: in *directory*, or in its folder ``store``. Raises ``InvalidRequest``."""
    for each in (directory / STORE, directory):
        if (each / FILE).exists():
            return each
    raise InvalidRequest(why_none(directory))


def directory_of(directory: Path, below: str | None) -> Path:
    """The files of one suffix: of several below *directory*, the nearest above the name *below*. Raises
    ``InvalidRequest``."""
    schema, found = standard_schema(), files_of(directory)
    if below is None:
        if len(found) > 1:
            raise InvalidRequest(
                f"{directory} holds several suffixes; say --suffix: {', '.join(sorted(found))}"
            )
        return next(iter(found.values()), directory)
    name = Dn.parse(below)
    above = [each for each in found if Suffix(each, schema).covers(name, schema)]
    if not above and found:
        raise InvalidRequest(f"{directory} holds {', '.join(sorted(found))}, not {below}")
    return found[max(above, key=len)] if above else directory


def files_of(directory: Path) -> dict[str, Path]:
    """The files of each suffix below *directory* that has a store there."""
    return {suffix_of(each).text: each for each in places(directory) if (each / STORE / FILE).exists()}


def suffix_of(directory: Path) -> Suffix:
    """Whose files these are. Raises ``InvalidRequest``."""
    with _opened(directory) as (_, suffix):
        return suffix


@contextmanager
def reading(directory: Path, below: str | None = None) -> Iterator[Snapshot]:
    """One moment of the files of *directory*; of several suffixes, of the one above the name *below*."""
    with _opened(directory_of(directory, below)) as (reader, suffix):
        yield Snapshot(reader, standard_schema(), suffix)


@contextmanager
def _opened(directory: Path) -> Iterator[tuple[Reader, Suffix]]:
    reader, close = read_store(store_of(directory), MAPS)
    try:
        row = reader.get(REPLICA, IDENTITY)
        if row is None:
            raise InvalidRequest(f"{directory} holds no replica yet")
        identity = msgspec.msgpack.decode(row, type=Identity)
        if identity.format not in FORMATS:
            raise InvalidRequest(
                f"{directory} is in format {identity.format}, and this reads formats {FORMATS}"
            )
        yield reader, Suffix(identity.suffix, standard_schema())
    finally:
        reader.close()
        close()
