"""The files of one directory, looked at without opening them for writing: also while a master serves them.

LMDB lets any number of processes read one moment while another writes, so whoever may read the files needs
no door. A reader that is left open keeps old pages from being used again: read, and close.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from holdfast.directory.lmdb_store import FILE, read_store
from holdfast.directory.replica.maps import FORMAT, IDENTITY, MAPS, REPLICA, Identity
from holdfast.directory.replica.snapshot import Snapshot, Suffix
from holdfast.directory.schema.standard import standard_schema
from holdfast.model.errors import InvalidRequest


def store_of(directory: Path) -> Path:
    """Where the store is: in *directory*, or in its folder ``store``. Raises ``InvalidRequest``."""
    for each in (directory / "store", directory):
        if (each / FILE).exists():
            return each
    raise InvalidRequest(
        f"{directory} holds no directory; `directory init --dir {directory} --suffix ...` makes one"
    )


@contextmanager
def reading(directory: Path) -> Iterator[Snapshot]:
    """One moment of the files of *directory*."""
    schema = standard_schema()
    reader, close = read_store(store_of(directory), MAPS)
    try:
        row = reader.get(REPLICA, IDENTITY)
        if row is None:
            raise InvalidRequest(f"{directory} holds no replica yet")
        identity = msgspec.msgpack.decode(row, type=Identity)
        if identity.format != FORMAT:
            raise InvalidRequest(
                f"{directory} is in format {identity.format}, and this reads format {FORMAT}"
            )
        yield Snapshot(reader, schema, Suffix(identity.suffix, schema))
    finally:
        reader.close()
        close()
