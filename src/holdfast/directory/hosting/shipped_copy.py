"""Filling this host's store with the file of another's: fetched by shipping, edited aside, then put in place.

``store.editing``  the fetched file, whose rows about the giver become this replica's own
``store.copied``   the same, finished: whoever opens the store next puts it in place

The store that is there keeps its mark *half copied* until then, so a crash at any point begins anew, and goes
on with the chunks that were fetched (W5).
"""

import shutil
from pathlib import Path
from typing import Final

import lmdb
from msgspec import structs

from holdfast.directory.lmdb_store import MAP_BYTES
from holdfast.directory.replica.maps import IDENTITY, KEPT, MAPS, REPLICA, VECTOR
from holdfast.directory.replication.roster import (
    CSNSTATE,
    LAGGING,
    SELF,
    TOLD_OVER,
    Own,
    decoded_own,
    own_row,
)
from holdfast.directory.replication.taking import HALF_COPIED
from holdfast.machine.files import rename_durably
from holdfast.model.errors import DiskFailed, InvalidRequest
from holdfast.shipping.checkout import check_out
from holdfast.shipping.manifest import Contents

STORE: Final = "store"
EDITING: Final = "store.editing"
COPIED: Final = "store.copied"


def take_file(contents: Contents, shelf: Path, directory: Path, own: Own) -> None:
    """Make the fetched file the next store of *directory*, as replica *own*. Called on a thread: it copies as
    much as the file holds. Raises ``InvalidRequest`` for a file that is no replica's, and the disk's
    errors."""
    editing = directory / EDITING
    try:
        shutil.rmtree(editing, ignore_errors=True)
        check_out(contents, shelf, editing, is_shared=False)
        _edit(editing, own)
        shutil.rmtree(directory / COPIED, ignore_errors=True)
        rename_durably(editing, directory / COPIED)
    except (lmdb.Error, OSError) as fault:
        raise DiskFailed(f"{editing}: the copy cannot be used: {fault}") from None


def put_in_place(directory: Path) -> bool:
    """Let a finished copy be the store, if there is one; says whether there was."""
    copied, store = directory / COPIED, directory / STORE
    if not copied.exists():
        return False
    try:
        # A crash in between leaves the copy, and this is done again.
        shutil.rmtree(store, ignore_errors=True)
        rename_durably(copied, store)
    except OSError as fault:
        raise DiskFailed(f"{copied} cannot be put in place: {fault}") from None
    return True


def _edit(directory: Path, own: Own) -> None:
    """Turn the giver's rows about itself into this replica's."""
    environment = lmdb.open(str(directory), map_size=MAP_BYTES, max_dbs=len(MAPS), mode=0o600)
    try:
        kept = environment.open_db(KEPT.encode(), create=False)
        replica = environment.open_db(REPLICA.encode(), create=False)
        with environment.begin(write=True) as transaction:
            vector = transaction.get(VECTOR, db=replica)
            giver = transaction.get(SELF, db=kept)
            if vector is None or giver is None or transaction.get(IDENTITY, db=replica) is None:
                raise InvalidRequest("the file that was fetched is no replica's store")
            for row in (HALF_COPIED, CSNSTATE, TOLD_OVER):
                transaction.delete(row, db=kept)
            with transaction.cursor(db=kept) as cursor:
                lagging = [
                    bytes(key) for key in cursor.iternext(values=False) if bytes(key).startswith(LAGGING)
                ]
            for row in lagging:
                transaction.delete(row, db=kept)
            whole = joined(own, decoded_own(bytes(giver)), bytes(vector).decode())
            transaction.put(*own_row(whole), db=kept)
        environment.sync(True)
    finally:
        environment.close()


def joined(own: Own, giver: Own, base: str) -> Own:
    """What the replica is that has the giver's data: what the giver knows of others holds for it too."""
    return structs.replace(
        own,
        is_ready=True,
        base=base,
        known=tuple(sorted({*own.known, *giver.known, own.replica} - set(own.over))),
        over=tuple(sorted({*own.over, *giver.over})),
    )
