"""The store of the embedded authority on a real SQLite file."""

from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from holdfast.authority import keys
from holdfast.authority.contract import (
    KEY_BYTES_MAX,
    LEASE_SECONDS_MAX,
    TXN_BYTES_MAX,
    TXN_OPERATIONS_MAX,
    Absent,
    Applied,
    Change,
    Compare,
    Delete,
    Equals,
    Get,
    Got,
    Invalid,
    KeyValue,
    LeaseGone,
    LeaseGrant,
    LeaseGranted,
    LeaseKeep,
    LeaseRevoke,
    List,
    Listed,
    Put,
    Refused,
    Request,
    Result,
    Txn,
    Unchanged,
)
from holdfast.authority.sqlite import HistoryLimits, SqliteStore
from holdfast.authority.sqlite_file import StoreFailed, first_lease, open_database, restore
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import SECOND, Epoch, LeaseId, Nonce, Revision

FIRST = LeaseId(first_lease("test") + 1)
"""The first lease of a store in these tests."""

Open = Callable[..., SqliteStore]


@pytest.fixture
def reopen(tmp_path: Path) -> Iterator[Open]:
    """Opens the same file again, after closing the one that was open."""
    opened: list[SqliteStore] = []

    def open_it(*, now_ns: int = 0, limits: HistoryLimits | None = None) -> SqliteStore:
        for store in opened:
            store.close()
        store = SqliteStore(str(tmp_path / "authority.sqlite"), now_ns=now_ns, new_id="test", limits=limits)
        opened.append(store)
        return store

    yield open_it
    for store in opened:
        store.close()


@pytest.fixture
def store(reopen: Open) -> SqliteStore:
    return reopen()


def one(store: SqliteStore, request: Request, now_ns: int = 0) -> Result:
    return store.apply([request], now_ns)[0]


def txn(*operations: Compare | Change) -> Txn:
    compares = tuple(each for each in operations if isinstance(each, Compare))
    return Txn(compares, tuple(each for each in operations if isinstance(each, Change)))


def value(store: SqliteStore, key: str) -> bytes | None:
    got = one(store, Get(key))
    assert isinstance(got, Got)
    return None if got.item is None else got.item.value


def test_a_new_file_has_an_identity_and_keeps_it(reopen: Open) -> None:
    """The identity is written once, as revision 1, and is an ordinary key (A5)."""
    first = reopen().identity
    store = reopen()
    assert (store.identity, first.id, first.generation) == (first, "test", 1)
    got = one(store, Get(keys.IDENTITY))
    assert isinstance(got, Got)
    assert got.item is not None
    assert got.revision == got.item.created == 1


def test_requests_of_one_batch_are_judged_in_order(store: SqliteStore) -> None:
    """Each request sees the effects of those before it in the same commit."""
    results = store.apply(
        [txn(Absent("k"), Put("k", b"1")), txn(Absent("k"), Put("k", b"2")), Get("k")], now_ns=0
    )
    item = KeyValue("k", b"1", Revision(2), Revision(2), LeaseId(0))
    assert results == [Applied(Revision(2)), Refused((item,), Revision(2)), Got(item, Revision(2))]


@pytest.mark.parametrize(
    ("compare", "holds"),
    [
        (Absent("k"), False),
        (Absent("other"), True),
        (Equals("k", b"1"), True),
        (Equals("k", b"2"), False),
        (Equals("other", b""), False),
        (Unchanged("k", Revision(2)), True),
        (Unchanged("k", Revision(1)), False),
        (Unchanged("other", Revision(0)), False),
    ],
)
def test_compares(store: SqliteStore, compare: Compare, holds: bool) -> None:
    """A transaction is applied exactly when each compare holds."""
    one(store, txn(Put("k", b"1")))
    assert isinstance(one(store, txn(compare, Put("new", b""))), Applied if holds else Refused)
    assert (value(store, "new") is not None) == holds


def test_a_key_keeps_the_revision_that_created_it(store: SqliteStore) -> None:
    """Putting again changes ``modified`` only; removing and putting again is a new creation."""
    store.apply([txn(Put("k", b"1")), txn(Put("k", b"2"))], now_ns=0)
    again = one(store, Get("k"))
    store.apply([txn(Delete("k")), txn(Put("k", b"3"))], now_ns=0)
    anew = one(store, Get("k"))
    assert isinstance(again, Got)
    assert isinstance(anew, Got)
    assert again.item == KeyValue("k", b"2", Revision(2), Revision(3), LeaseId(0))
    assert anew.item == KeyValue("k", b"3", Revision(5), Revision(5), LeaseId(0))


def test_only_changes_raise_the_revision(store: SqliteStore) -> None:
    """Reads, refusals and removals of nothing leave the revision and the history alone."""
    store.apply([Get("k"), txn(Absent(keys.IDENTITY), Put("k", b"")), txn(Delete("k")), txn()], now_ns=0)
    assert store.revision == 1
    assert store.take_events() == []


def test_lists_are_in_key_order_and_paged(store: SqliteStore) -> None:
    """Pages follow each other without gap or repetition; a prefix matches only keys that begin with it."""
    names = ["a", "a/1", "a/2", "a/é", "a/\U0010ffff", "b"]
    store.apply([txn(Put(name, b"")) for name in reversed(names)], now_ns=0)
    whole = one(store, List("a/"))
    assert isinstance(whole, Listed)
    assert [item.key for item in whole.items] == ["a/1", "a/2", "a/é", "a/\U0010ffff"]
    assert not whole.more
    first = one(store, List("a/", limit=2))
    assert isinstance(first, Listed)
    assert first.more
    rest = one(store, List("a/", limit=2, after=first.items[-1].key))
    assert isinstance(rest, Listed)
    assert first.items + rest.items == whole.items
    assert not rest.more


def test_prefixes_at_the_edges_of_unicode(store: SqliteStore) -> None:
    """The end of a prefix is found even where the next character does not exist."""
    store.apply([txn(Put(name, b"")) for name in ("\ud7ffx", "\ue000x", "\U0010ffffx")], now_ns=0)
    for prefix in ("\ud7ff", "\ue000", "\U0010ffff"):
        listed = one(store, List(prefix))
        assert isinstance(listed, Listed)
        assert [item.key for item in listed.items] == [prefix + "x"]


def test_a_page_ends_before_it_outgrows_a_message(store: SqliteStore) -> None:
    """Large values make pages shorter than the limit, and nothing is lost between them."""
    for number in range(6):
        one(store, txn(Put(f"big/{number}", bytes(900_000))))
    keys_found: list[str] = []
    more = True
    while more:
        page = one(store, List("big/", after=keys_found[-1] if keys_found else ""))
        assert isinstance(page, Listed)
        assert sum(len(item.value) for item in page.items) <= 3_000_000
        keys_found += [item.key for item in page.items]
        more = page.more
    assert keys_found == [f"big/{number}" for number in range(6)]


def test_a_refusal_stays_a_message(store: SqliteStore) -> None:
    """The answer is bounded however much is stored at the compared keys; nothing changes either way."""
    for number in range(6):
        one(store, txn(Put(f"big/{number}", bytes(900_000))))
    before = store.revision
    compares = [Absent(f"big/{number}") for number in range(6)]
    assert isinstance(one(store, txn(*compares, Put("k", b""))), Invalid)
    assert isinstance(one(store, txn(*compares[:2], Put("k", b""))), Refused)
    assert store.revision == before


@pytest.mark.parametrize(
    "request_",
    [
        Get(""),
        Get("k" * (KEY_BYTES_MAX + 1)),
        Get("zero\0"),
        Get("\ud800"),
        List("", limit=0),
        LeaseGrant(0),
        txn(Put("k", b""), Delete("k")),
        txn(Put("k", bytes(TXN_BYTES_MAX))),
        Txn((), tuple(Put(str(number), b"") for number in range(TXN_OPERATIONS_MAX + 1))),
    ],
)
def test_bounds_of_the_contract(store: SqliteStore, request_: Request) -> None:
    """A request past a bound is Invalid, changes nothing, and does not disturb its batch (A3)."""
    results = store.apply([txn(Put("before", b"")), request_, txn(Put("after", b""))], now_ns=0)
    assert isinstance(results[1], Invalid)
    assert results[0] == Applied(Revision(2))
    assert results[2] == Applied(Revision(3))


def test_what_was_answered_survives(reopen: Open) -> None:
    """Keys, revision, leases and history are there after the file is opened again."""
    store = reopen()
    store.apply([LeaseGrant(5), txn(Put("k", b"1", FIRST))], now_ns=0)
    store = reopen()
    assert value(store, "k") == b"1"
    assert store.revision == 2
    assert isinstance(one(store, LeaseKeep(FIRST)), LeaseGranted)
    assert [events.revision for events in store.history(Revision(1), 10)] == [1, 2]


def test_a_file_left_by_a_killed_process_is_whole(reopen: Open, tmp_path: Path) -> None:
    """Data that is only in the WAL is there when the file and its WAL are opened elsewhere."""
    store = reopen()
    for number in range(50):
        one(store, txn(Put(f"k{number}", bytes(100))))
    left = tmp_path / "left"
    left.mkdir()
    for name in ("authority.sqlite", "authority.sqlite-wal"):
        (left / name).write_bytes((tmp_path / name).read_bytes())
    found = SqliteStore(str(left / "authority.sqlite"), now_ns=0)
    assert found.revision == store.revision == 51
    assert value(found, "k49") == bytes(100)
    found.close()


# --- leases


def test_a_lease_takes_its_keys_with_it_in_one_revision(store: SqliteStore) -> None:
    """Expiry is a revision whose events remove every key of the lease, and only those."""
    store.apply(
        [LeaseGrant(5), txn(Put("mine", b"", FIRST), Put("also", b"", FIRST), Put("not", b""))],
        now_ns=0,
    )
    store.take_events()
    assert store.expire(5 * SECOND) == []
    assert store.expire(6 * SECOND) == [FIRST]
    (events,) = store.take_events()
    assert [(change.key, change.item) for change in events.changes] == [("also", None), ("mine", None)]
    assert value(store, "not") == b""
    assert one(store, LeaseKeep(FIRST)) == LeaseGone(FIRST)


def test_a_lease_kept_alive_stays(store: SqliteStore) -> None:
    """Each renewal restarts the whole time."""
    one(store, LeaseGrant(5))
    for second in range(4, 40, 4):
        assert one(store, LeaseKeep(FIRST), second * SECOND) == LeaseGranted(FIRST, 5)
        assert store.expire(second * SECOND) == []
    assert store.expire(42 * SECOND) == [FIRST]


def test_no_lease_expires_for_its_full_time_after_a_restart(reopen: Open) -> None:
    """A4: the holder may have been renewing all the while."""
    one(reopen(), LeaseGrant(5))
    store = reopen(now_ns=100 * SECOND)
    assert store.expire(105 * SECOND) == []
    assert store.expire(106 * SECOND) == [FIRST]


def test_a_key_belongs_to_the_lease_of_its_last_put(store: SqliteStore) -> None:
    """Putting without a lease detaches; the old lease's end no longer concerns the key."""
    store.apply([LeaseGrant(5), txn(Put("k", b"", FIRST)), txn(Put("k", b"kept"))], now_ns=0)
    store.expire(10 * SECOND)
    assert value(store, "k") == b"kept"


def test_revoking(store: SqliteStore) -> None:
    """Revoking removes lease and keys at once; a second one, or one of an unknown lease, finds it gone."""
    store.apply([LeaseGrant(5), txn(Put("k", b"", FIRST))], now_ns=0)
    assert one(store, LeaseRevoke(FIRST)) == Applied(Revision(3))
    assert value(store, "k") is None
    assert one(store, LeaseRevoke(FIRST)) == LeaseGone(FIRST)


def test_a_put_under_an_ended_lease_changes_nothing(store: SqliteStore) -> None:
    """The whole transaction is refused with LeaseGone, but only when its compares hold."""
    assert one(store, txn(Put("a", b""), Put("b", b"", LeaseId(9)))) == LeaseGone(LeaseId(9))
    assert isinstance(one(store, txn(Equals("a", b""), Put("b", b"", LeaseId(9)))), Refused)
    assert store.revision == 1


def test_no_two_files_issue_the_same_lease_number(tmp_path: Path) -> None:
    """A process that moved along holds leases of both, and must not take one for the other (A8)."""
    granted = set()
    for name in ("one", "two", "three"):
        store = SqliteStore(str(tmp_path / name), now_ns=0, new_id=name)
        granted |= {one(store, LeaseGrant(5)) for _ in range(3)}
        store.close()
    assert len(granted) == 9


def test_lease_numbers_and_times(reopen: Open) -> None:
    """Numbers are never issued twice, even across restarts; times are limited to the contract's maximum."""
    store = reopen()
    store.apply([LeaseGrant(5), LeaseRevoke(FIRST)], now_ns=0)
    store = reopen()
    assert one(store, LeaseGrant(10**9)) == LeaseGranted(LeaseId(FIRST + 1), LEASE_SECONDS_MAX)


# --- history


def test_history_is_bounded_by_count_and_stays_without_gaps(reopen: Open) -> None:
    """Old revisions are dropped, the newest stay without gaps, and this holds after opening again."""
    store = reopen(limits=HistoryLimits(revisions_max=50))
    for number in range(200):
        one(store, txn(Put(f"k{number}", b"")))
    for _ in range(2):
        kept = [events.revision for events in store.history(store.oldest, 1000)]
        assert kept == list(range(store.oldest, 202))
        assert 40 <= len(kept) <= 50
        store = reopen()


def test_history_is_bounded_by_bytes_but_keeps_the_newest(reopen: Open) -> None:
    """Even one revision larger than the bound is kept: the revision counter lives there."""
    store = reopen(limits=HistoryLimits(bytes_max=1000))
    for _ in range(3):
        one(store, txn(Put("k", bytes(5000))))
    assert (store.oldest, store.revision) == (4, 4)
    assert reopen().revision == 4


# --- the file


def test_any_error_finishes_the_store(tmp_path: Path) -> None:
    """A6: after the first error nothing is read or written any more."""
    path = str(tmp_path / "authority.sqlite")
    store = SqliteStore(path, now_ns=0, new_id="test")
    store.close()
    with apsw.Connection(path) as db:
        db.execute(
            "DROP TABLE event; CREATE TABLE event (revision INTEGER PRIMARY KEY, changes, more NOT NULL)"
        )
        db.execute("INSERT INTO event VALUES (1, x'90', 1)")
    db.close()
    store = SqliteStore(path, now_ns=0)
    with pytest.raises(StoreFailed):
        one(store, txn(Put("k", b"")))
    with pytest.raises(StoreFailed, match="out of use"):
        one(store, Get("k"))


def test_two_cannot_open_one_file(store: SqliteStore, tmp_path: Path) -> None:
    """The file is locked exclusively for as long as it is open."""
    with pytest.raises(StoreFailed, match="locked"):
        SqliteStore(str(tmp_path / "authority.sqlite"), now_ns=0)


def test_foreign_and_missing_files_are_refused(tmp_path: Path) -> None:
    """Neither file is written to."""
    with pytest.raises(StoreFailed):
        SqliteStore(str(tmp_path / "absent"), now_ns=0)
    assert not (tmp_path / "absent").exists()
    foreign = tmp_path / "foreign"
    foreign.write_bytes(b"not a database, but long enough to be looked at" * 20)
    with pytest.raises(StoreFailed):
        SqliteStore(str(foreign), now_ns=0, new_id="test")
    other = tmp_path / "other.sqlite"
    db = apsw.Connection(str(other))
    db.execute("CREATE TABLE something (foreign_to_us)")
    db.close()
    before = other.read_bytes()
    with pytest.raises(StoreFailed, match="not an authority's file"):
        SqliteStore(str(other), now_ns=0, new_id="test")
    assert other.read_bytes() == before


def test_restore_continues_above_everything_the_lost_file_issued(tmp_path: Path) -> None:
    """A5: there is a new generation and epoch floor; no lost revision or lease number is reused."""
    path = str(tmp_path / "authority.sqlite")
    store = SqliteStore(path, now_ns=0, new_id="test")
    store.apply([LeaseGrant(5), txn(Put("k", b"1"))], now_ns=0)
    store.close()
    db = open_database(path)
    restore(db, Epoch(17), nonce=Nonce("n"), wall_ns=1_800_000_000 * SECOND)
    with pytest.raises(InvalidRequest):
        restore(db, Epoch(16), nonce=Nonce("n"), wall_ns=1_800_000_001 * SECOND)
    db.close()
    store = SqliteStore(path, now_ns=0)
    assert (store.identity.generation, store.identity.floors.epoch) == (2, 17)
    start = 1_800_000_000 * 1_000_000
    assert store.identity.floors.incarnation == start
    assert store.oldest == store.revision == start
    assert value(store, "k") == b"1"
    assert one(store, LeaseGrant(5)) == LeaseGranted(LeaseId(FIRST + start + 1), 5)
    store.close()
