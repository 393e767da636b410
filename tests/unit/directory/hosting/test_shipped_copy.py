"""The file of another's store becomes this host's, with all state, under this host's replica id; or not at
all."""

import shutil
from pathlib import Path

import pytest

from holdfast.directory.hosting.shipped_copy import COPIED, EDITING, STORE, put_in_place, take_file
from holdfast.directory.lmdb_store import FILE, LmdbStore
from holdfast.directory.replica.maps import ENTRIES, IDENTITY, KEPT, MAPS, REPLICA, VECTOR
from holdfast.directory.replication.roster import CSNSTATE, SELF, Own, decoded_own, own_row
from holdfast.directory.replication.taking import HALF_COPIED
from holdfast.directory.store import Batch
from holdfast.model.errors import Corruption, InvalidRequest
from holdfast.model.ids import Epoch, Position, ReplicaId
from holdfast.shipping.manifest import Contents, describe
from holdfast.shipping.shelf import file_name
from holdfast.storage.disk import Directory

GIVER = Own(replica=ReplicaId(1), is_ready=True, known=(ReplicaId(1), ReplicaId(7)), over=(ReplicaId(3),))
OWN = Own(replica=ReplicaId(7), is_ready=False, over=(ReplicaId(2),), is_read_only=True)


def made(directory: Path, rows: list[tuple[str, bytes, bytes]]) -> LmdbStore:
    store = LmdbStore(directory, MAPS, lambda token, ok: None, lambda work: work())
    batch = Batch()
    for name, key, value in rows:
        batch.put(name, key, value)
    store.write(batch, "rows")
    store.close()
    return LmdbStore(directory, MAPS, lambda token, ok: None, lambda work: work())


def shipped(store: LmdbStore, at: Path) -> tuple[Contents, Path]:
    """A copy of *store* as shipping leaves it on a shelf."""
    store.copy(at / "copy")
    contents = describe(
        Directory(at / "copy"), [FILE], subject="directory", epoch=Epoch(1), position=Position(7)
    )
    (at / "shelf").mkdir()
    shutil.copy(at / "copy" / FILE, at / "shelf" / file_name(contents.files[0]))
    store.close()
    return contents, at / "shelf"


DATA = [
    (ENTRIES, b"e" * 16, b"state with CSNs"),
    (REPLICA, IDENTITY, b"identity"),
    (REPLICA, VECTOR, b"g 0000000010000 0001"),
    (KEPT, *own_row(GIVER)),
    (KEPT, CSNSTATE, b"the giver's clock"),
    (KEPT, b"lagging/0005", b"since"),
    (KEPT, b"stated/0001", b"what the giver said"),
]


def test_the_giver_s_data_under_the_own_id(tmp_path: Path) -> None:
    """Everything comes over but what is about the giver alone; what it knows of others holds here too."""
    contents, shelf = shipped(made(tmp_path / "giver", DATA), tmp_path)
    here = tmp_path / "here"
    made(here / STORE, [(KEPT, HALF_COPIED, b"1"), (ENTRIES, b"o" * 16, b"old")]).close()
    take_file(contents, shelf, here, OWN)
    # Not in place yet: a crash now leaves the store as it was, and the copy.
    assert put_in_place(here)
    assert not put_in_place(here)
    assert not (here / COPIED).exists()
    assert not (here / EDITING).exists()
    store = LmdbStore(here / STORE, MAPS, lambda token, ok: None, lambda work: work())
    with store.read() as reader:
        assert [(bytes(key), bytes(value)) for key, value in reader.rows(ENTRIES)] == [
            (b"e" * 16, b"state with CSNs")
        ]
        kept = {bytes(key): bytes(value) for key, value in reader.rows(KEPT)}
        assert set(kept) == {SELF, b"stated/0001"}
        assert decoded_own(kept[SELF]) == Own(
            replica=ReplicaId(7),
            is_ready=True,
            base="g 0000000010000 0001",
            known=(ReplicaId(1), ReplicaId(7)),
            over=(ReplicaId(2), ReplicaId(3)),
            is_read_only=True,
        )
    store.close()


def test_a_crash_before_the_last_name_is_made_good(tmp_path: Path) -> None:
    contents, shelf = shipped(made(tmp_path / "giver", DATA), tmp_path)
    take_file(contents, shelf, tmp_path / "here", OWN)
    # The old store was removed, and the power failed.
    assert put_in_place(tmp_path / "here")
    assert (tmp_path / "here" / STORE / FILE).exists()


def test_what_is_no_replica_s_store_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    contents, shelf = shipped(made(tmp_path / "giver", DATA[:1]), tmp_path)
    with pytest.raises(InvalidRequest, match="no replica's store"):
        take_file(contents, shelf, tmp_path / "here", OWN)
    assert not put_in_place(tmp_path / "here")


def test_a_damaged_file_is_noticed(tmp_path: Path) -> None:
    contents, shelf = shipped(made(tmp_path / "giver", DATA), tmp_path)
    (file,) = shelf.iterdir()
    damaged = bytearray(file.read_bytes())
    damaged[-1] ^= 1
    file.write_bytes(bytes(damaged))
    with pytest.raises(Corruption):
        take_file(contents, shelf, tmp_path / "here", OWN)
    assert not put_in_place(tmp_path / "here")
