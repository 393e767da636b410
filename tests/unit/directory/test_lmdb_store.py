"""The store on LMDB keeps the contract of all stores."""

import queue
from collections.abc import Callable
from pathlib import Path

import pytest
from directory_store_contract import MAPS, StoreContract, batch

from holdfast.directory.lmdb_store import LmdbStore
from holdfast.directory.store import Store
from holdfast.model.errors import DiskFailed


class TestLmdbStore(StoreContract):
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path):
        self.told = []
        self.folder = tmp_path
        self.opened: list[LmdbStore] = []
        self.posted: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        yield
        for store in self.opened:
            store.close()

    def open(self) -> Store:
        for store in self.opened:
            store.close()
        self.opened.clear()
        self.folder = self.folder / "next"
        self.folder.mkdir()
        return self._open()

    def _open(self, **bounds: int) -> LmdbStore:
        store = LmdbStore(
            self.folder, MAPS, lambda token, ok: self.told.append((token, ok)), self.posted.put, **bounds
        )
        self.opened.append(store)
        return store

    def settle(self, store: Store) -> None:
        """A mark behind all that was written says when it is committed."""
        assert isinstance(store, LmdbStore)
        store.write(batch(), "settled")
        while ("settled", True) not in self.told:
            self.posted.get(timeout=60)()
        self.told.remove(("settled", True))

    def crash(self, store: Store) -> Store:
        """The process ends between two commits; ``tests/cluster`` cuts the power under a real one."""
        assert isinstance(store, LmdbStore)
        store.close(is_dropping=True)
        self.opened.remove(store)
        while not self.posted.empty():
            self.posted.get_nowait()
        return self._open()

    def test_what_gathers_is_committed_together_and_survives_closing(self) -> None:
        store = self.open()
        for number in range(200):
            store.write(batch(("entries", number.to_bytes(2, "big"), b"v" * 100)), number)
        self.opened.remove(store)
        store.close()
        assert self.posted.qsize() < 200
        while not self.posted.empty():
            self.posted.get_nowait()()
        assert self.told == [(number, True) for number in range(200)]
        assert len(self.rows(self._open())) == 200

    def test_a_failed_commit_ends_it(self) -> None:
        self.open()
        self.opened.pop().close()
        store = self._open(map_bytes=64 << 10)
        store.write(batch(("entries", b"k", b"1")), 1)
        self.settle(store)
        store.write(batch(("entries", b"k", bytes(1 << 20))), 2)
        self.posted.get(timeout=60)()
        assert self.told == [(1, True), (2, False)]
        assert store.failure == "no_space"
        with pytest.raises(DiskFailed, match="no_space"):
            store.write(batch(("entries", b"k", b"3")), 3)
        assert self.rows(store) == [(b"k", b"1")]

    def test_a_file_that_is_none_of_ours_is_refused(self) -> None:
        self.open()
        self.opened.pop().close()
        (self.folder / "data.mdb").write_bytes(b"not a store" * 1000)
        with pytest.raises(DiskFailed, match="cannot be opened"):
            self._open()
