"""What every binding of the directory's store must do; a binding's test inherits from it."""

from abc import abstractmethod

import pytest

from holdfast.directory.store import BATCH_BYTES_MAX, STORE_KEY_BYTES_MAX, Batch, Store, prefix_end
from holdfast.model.errors import InvalidRequest

MAPS = ("entries", "changes")


def batch(*changes: tuple[str, bytes, bytes | None]) -> Batch:
    made = Batch()
    for name, key, value in changes:
        if value is None:
            made.erase(name, key)
        else:
            made.put(name, key, value)
    return made


class StoreContract:
    """A binding gives ``open``, ``settle`` and ``crash``; ``told`` has what the owner heard."""

    told: list[tuple[object, bool]]

    @abstractmethod
    def open(self) -> Store:
        """A store with empty MAPS; ``on_committed`` appends to ``told``."""

    @abstractmethod
    def settle(self, store: Store) -> None:
        """Wait until all that was written is committed."""

    @abstractmethod
    def crash(self, store: Store) -> Store:
        """The store after a power cut, opened anew."""

    def rows(self, store: Store, name: str = "entries") -> list[tuple[bytes, bytes]]:
        with store.read() as reader:
            return list(reader.rows(name))

    def test_what_is_committed_is_read_in_order_of_the_keys(self) -> None:
        store = self.open()
        store.write(batch(("entries", b"b", b"2"), ("entries", b"a", b"1"), ("entries", b"\xff", b"")), 1)
        self.settle(store)
        assert self.rows(store) == [(b"a", b"1"), (b"b", b"2"), (b"\xff", b"")]
        assert self.rows(store, "changes") == []
        with store.read() as reader:
            assert list(reader.rows("entries", is_reversed=True)) == self.rows(store)[::-1]
            assert reader.get("entries", b"b") == b"2"
            assert reader.get("entries", b"c") is None

    def test_a_range_has_its_start_and_not_its_end(self) -> None:
        store = self.open()
        store.write(batch(*(("entries", bytes([n]), b"") for n in range(1, 9))), 1)
        self.settle(store)
        with store.read() as reader:
            assert [key for key, _ in reader.rows("entries", start=b"\3", end=b"\5")] == [b"\3", b"\4"]
            found = reader.rows("entries", start=b"\3", end=b"\5", is_reversed=True)
            assert [key for key, _ in found] == [b"\4", b"\3"]
            assert list(reader.rows("entries", start=b"\5", end=b"\5")) == []

    def test_what_follows_a_prefix_is_found_up_to_a_bound(self) -> None:
        store = self.open()
        store.write(batch(*(("entries", key, b"") for key in (b"a", b"b", b"b1", b"b2", b"b\xff", b"c"))), 1)
        self.settle(store)
        with store.read() as reader:
            assert reader.tails("entries", b"b", 10) == [b"", b"1", b"2", b"\xff"]
            assert reader.tails("entries", b"b", 2) == [b"", b"1"]
            assert reader.tails("entries", b"b", 0) == []
            assert reader.tails("entries", b"b3", 10) == []
            assert reader.tails("entries", b"d", 10) == []
            assert reader.tails("changes", b"", 10) == []

    def test_the_owner_hears_of_transactions_in_order(self) -> None:
        store = self.open()
        for number in range(20):
            store.write(batch(("entries", b"k", bytes([number]))), number)
        self.settle(store)
        assert self.told == [(number, True) for number in range(20)]
        assert self.rows(store) == [(b"k", bytes([19]))]

    def test_the_last_change_of_a_key_counts(self) -> None:
        store = self.open()
        store.write(batch(("entries", b"k", b"1"), ("entries", b"k", None), ("entries", b"none", None)), 1)
        self.settle(store)
        assert self.rows(store) == []
        store.write(batch(("entries", b"k", None), ("entries", b"k", b"2")), 2)
        self.settle(store)
        assert self.rows(store) == [(b"k", b"2")]

    def test_a_reader_sees_one_moment(self) -> None:
        store = self.open()
        store.write(batch(("entries", b"k", b"1"), ("changes", b"k", b"1")), 1)
        self.settle(store)
        with store.read() as before:
            store.write(batch(("entries", b"k", b"2"), ("changes", b"k", b"2"), ("entries", b"l", b"2")), 2)
            self.settle(store)
            assert list(before.rows("entries")) == [(b"k", b"1")]
            assert before.get("changes", b"k") == b"1"
        assert self.rows(store) == [(b"k", b"2"), (b"l", b"2")]

    def test_a_power_cut_takes_back_whole_transactions_from_the_last(self) -> None:
        for committed in range(4):
            self.told = []
            store = self.open()
            for number in range(6):
                both = (("entries", bytes([1 + number]), b""), ("changes", bytes([1 + number]), b""))
                store.write(batch(*both), number)
                if number + 1 == committed:
                    self.settle(store)
            confirmed = len(self.told)
            store = self.crash(store)
            left = [key for key, _ in self.rows(store)]
            assert left == [key for key, _ in self.rows(store, "changes")]
            assert left == [bytes([1 + number]) for number in range(len(left))]
            assert len(left) >= confirmed
            assert len(self.told) == confirmed, "nobody hears of a transaction after the power cut"
            store.write(batch(("entries", b"x", b"")), "after")
            self.settle(store)
            assert self.told[-1] == ("after", True)

    def test_wrong_use_is_refused_and_changes_nothing(self) -> None:
        store = self.open()
        with store.read() as reader:
            with pytest.raises(InvalidRequest, match="no map"):
                reader.get("nothing", b"k")
            with pytest.raises(InvalidRequest, match="no map"):
                list(reader.rows("nothing"))
        with pytest.raises(InvalidRequest, match="closed"):
            reader.get("entries", b"k")
        with pytest.raises(InvalidRequest, match="no map"):
            store.write(batch(("entries", b"k", b"1"), ("nothing", b"k", b"1")), 1)
        self.settle(store)
        assert self.rows(store) == []
        longest = b"k" * STORE_KEY_BYTES_MAX
        store.write(batch(("entries", longest, b"1")), 2)
        self.settle(store)
        assert self.rows(store) == [(longest, b"1")]


def test_a_batch_is_bounded() -> None:
    made = Batch()
    for key in (b"", b"k" * (STORE_KEY_BYTES_MAX + 1)):
        with pytest.raises(InvalidRequest, match="bytes"):
            made.put("entries", key, b"")
        with pytest.raises(InvalidRequest, match="bytes"):
            made.put_keys("entries", [b"k", key])
    made.bytes = BATCH_BYTES_MAX - 2
    with pytest.raises(InvalidRequest, match="begin another"):
        made.put("entries", b"k", b"12")
    with pytest.raises(InvalidRequest, match="begin another"):
        made.put_keys("entries", [b"a", b"b", b"c"])
    made.put_keys("entries", [])
    assert made.changes == []
    made.put_keys("entries", [b"a", b"b"])
    assert (made.changes, made.bytes) == ([("entries", b"a", b""), ("entries", b"b", b"")], BATCH_BYTES_MAX)


def test_the_end_of_a_prefix() -> None:
    assert prefix_end(b"ab") == b"ac"
    assert prefix_end(b"a\xff\xff") == b"b"
    assert prefix_end(b"\xff") is None
    assert prefix_end(b"") is None
