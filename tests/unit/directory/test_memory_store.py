"""The store in memory keeps the contract of all stores, and loses what a disk may lose."""

import random

import pytest
from directory_store_contract import (
    MAPS,
    StoreContract,
    batch,
    test_a_batch_is_bounded,
    test_the_end_of_a_prefix,
)

from holdfast.directory.memory_store import MemoryStore, StoreImage
from holdfast.directory.store import Store
from holdfast.model.errors import DiskFailed

__all__ = ["test_a_batch_is_bounded", "test_the_end_of_a_prefix"]


class TestMemoryStore(StoreContract):
    def setup_method(self) -> None:
        self.told = []
        self.rng = random.Random(1)

    def open(self) -> Store:
        self.image = StoreImage(MAPS)
        return self._opened()

    def _opened(self) -> MemoryStore:
        return MemoryStore(self.image, lambda token, ok: self.told.append((token, ok)))

    def settle(self, store: Store) -> None:
        assert isinstance(store, MemoryStore)
        store.commit()

    def crash(self, store: Store) -> Store:
        self.image.cut(self.rng.randrange(7))
        return self._opened()

    def test_nothing_is_seen_before_it_is_committed(self) -> None:
        store = self._opened() if hasattr(self, "image") else self.open()
        store.write(batch(("entries", b"k", b"1")), 1)
        assert self.rows(store) == []
        assert self.told == []
        store.write(batch(("entries", b"k", b"2")), 2)
        store.commit(1)
        assert self.rows(store) == [(b"k", b"1")]
        assert store.on_its_way == 1

    def test_a_failed_commit_ends_it(self) -> None:
        store = self.open()
        store.write(batch(("entries", b"k", b"1")), 1)
        store.commit()
        store.write(batch(("entries", b"k", b"2")), 2)
        store.write(batch(("entries", b"k", b"3")), 3)
        store.fail()
        assert self.told == [(1, True), (2, False), (3, False)]
        with pytest.raises(DiskFailed):
            store.write(batch(("entries", b"k", b"4")), 4)
        assert self.rows(store) == [(b"k", b"1")]

    def test_a_copy_of_the_image_is_a_backup(self) -> None:
        store = self.open()
        store.write(batch(("entries", b"k", b"1")), 1)
        store.commit()
        store.write(batch(("entries", b"k", b"2")), 2)
        self.image = self.image.copy()
        assert self.rows(self._opened()) == [(b"k", b"1")]
