"""The authority's contract, one suite for every backend (A).

``sqlite`` is the embedded authority as a separate process, ``etcd`` a real cluster of three, ``sim`` the
embedded one on a simulated disk and network.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing
from itertools import count

import pytest
from authority_backends import Backend, EtcdBackend, SimBackend, SqliteBackend

from holdfast.authority.contract import (
    KEY_BYTES_MAX,
    LIST_ITEMS_MAX,
    TXN_BYTES_MAX,
    TXN_OPERATIONS_MAX,
    Absent,
    Applied,
    Changed,
    Compacted,
    Compare,
    Delete,
    Equals,
    Events,
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
    Older,
    Put,
    Refused,
    Request,
    Result,
    Txn,
    Unchanged,
    Unknown,
    WatchEvent,
)
from holdfast.authority.control_records import Status
from holdfast.authority.election import Elected, TermMoved, elect, read_term
from holdfast.authority.identity import ensure_identity
from holdfast.authority.membership import get_index_coordinator, join
from holdfast.authority.names import NotYours, Taken, bind, resolve, unbind
from holdfast.authority.recipe import Authority, InDoubt, NoAnswer, Removed, Seen, perform
from holdfast.authority.sessions import Session, open_session
from holdfast.authority.transactions import (
    AlreadyDecided,
    WrongCas,
    create_transaction,
    set_transaction_status,
)
from holdfast.model.ids import HostId, LeaseId, Nonce, Revision, Term

LEASE_S = 4
"""A busy machine may delay a test by seconds, and a lease that it keeps alive must outlast that."""
pytestmark = [pytest.mark.cluster, pytest.mark.anyio]

_roots = count(1)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def sqlite_backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqliteBackend]:
    backend = SqliteBackend(tmp_path_factory.mktemp("sqlite") / "authority")
    backend.start()
    yield backend
    backend.stop()


@pytest.fixture(params=["sqlite", pytest.param("etcd", marks=pytest.mark.etcd), "sim"])
def backend(request: pytest.FixtureRequest) -> Backend:
    if request.param == "sim":
        return SimBackend()
    chosen: Backend = request.getfixturevalue(f"{request.param}_backend")
    return chosen


@pytest.fixture(params=["sqlite", pytest.param("etcd", marks=pytest.mark.etcd)])
def real_backend(request: pytest.FixtureRequest) -> SqliteBackend | EtcdBackend:
    chosen: SqliteBackend | EtcdBackend = request.getfixturevalue(f"{request.param}_backend")
    return chosen


@pytest.fixture
def root() -> str:
    """Return a part of the key space, and of the hosts' names, that no other test uses."""
    return f"test{next(_roots)}/"


@pytest.fixture
async def authority(backend: Backend, root: str) -> AsyncIterator[Authority]:
    made = backend.connect(root)
    await answered(made, Get(root))
    yield made
    await made.close()


async def answered(authority: Authority, request: Request) -> Result:
    """Return the result of *request* once the authority serves again; only for requests that may be
    repeated."""
    for _ in range(20):
        result = await authority.ask(request)
        if not isinstance(result, Unknown):
            return result
    raise AssertionError(f"no answer: {result}")


async def put(authority: Authority, key: str, value: bytes = b"", lease: LeaseId = LeaseId(0)) -> Revision:  # noqa: B008  (a NewType)
    result = await authority.ask(Txn((), (Put(key, value, lease),)))
    assert isinstance(result, Applied), result
    return result.revision


async def get(authority: Authority, key: str) -> KeyValue | None:
    result = await answered(authority, Get(key))
    assert isinstance(result, Got), result
    return result.item


async def lease_of(authority: Authority, seconds: int) -> LeaseGranted:
    granted = await authority.ask(LeaseGrant(seconds))
    assert isinstance(granted, LeaseGranted), granted
    return granted


async def take(authority: Authority, prefix: str, revision: Revision, number: int) -> list[Events]:
    """Return the first *number* events of a watch."""
    found: list[Events] = []
    async with asyncio.timeout(60), aclosing(authority.watch(prefix, revision)) as watch:  # type: ignore[type-var]  # async generators all, and closed at once
        async for event in watch:
            assert isinstance(event, Events), event
            found.append(event)
            if len(found) == number:
                break
    return found


# --- keys and transactions


async def test_a_key_remembers_its_creation_and_its_last_change(authority: Authority, root: str) -> None:
    """A key is created once and modified by each change; every change raises the revision by one."""
    key = root + "k"
    assert await get(authority, key) is None
    first = await put(authority, key, b"1")
    second = await put(authority, key, b"2")
    assert second == first + 1
    assert await get(authority, key) == KeyValue(key, b"2", first, second, LeaseId(0))


async def test_a_transaction_is_applied_whole_or_not_at_all(authority: Authority, root: str) -> None:
    """One failing compare changes nothing, and the refusal shows the current value of every compared key."""
    a, b, c = root + "a", root + "b", root + "c"
    revision = await put(authority, a, b"1")
    refused = await authority.ask(Txn((Absent(c), Equals(a, b"1"), Absent(a)), (Put(b, b"2"), Delete(a))))
    standing = KeyValue(a, b"1", revision, revision, LeaseId(0))
    assert isinstance(refused, Refused)
    assert refused.found == (None, standing, standing)
    assert await get(authority, b) is None
    applied = await authority.ask(Txn((Absent(c), Equals(a, b"1")), (Put(b, b"2"), Delete(a))))
    assert applied == Applied(Revision(revision + 1))
    assert await get(authority, a) is None
    assert await get(authority, b) is not None


async def test_what_each_compare_holds_for(authority: Authority, root: str) -> None:
    """Absent, Unchanged, Older and Equals, on keys that exist, are empty, and do not exist."""
    there, empty, nowhere = root + "there", root + "empty", root + "nowhere"
    revision = await put(authority, there, b"v")
    await put(authority, empty, b"")
    held: list[Compare] = [
        Unchanged(there, revision),
        Older(there, Revision(revision + 1)),
        Equals(there, b"v"),
        Equals(empty, b""),
        Absent(nowhere),
    ]
    for compare in held:
        assert isinstance(await authority.ask(Txn((compare,), ())), Applied), compare
    failing: list[Compare] = [
        Absent(there),
        Absent(empty),
        Unchanged(there, Revision(revision + 1)),
        Unchanged(nowhere, Revision(0)),
        Older(there, revision),
        Older(nowhere, Revision(revision + 1)),
        Equals(there, b"w"),
        Equals(nowhere, b""),
    ]
    for compare in failing:
        assert isinstance(await authority.ask(Txn((compare,), ())), Refused), compare


async def test_removing_what_is_not_there_is_no_change(authority: Authority, root: str) -> None:
    """It gives no error, no revision and no event."""
    before = await put(authority, root + "a")
    assert await authority.ask(Txn((), (Delete(root + "b"),))) == Applied(before)
    after = await put(authority, root + "a")
    assert after == before + 1
    assert [each.revision for each in await take(authority, root, before, 2)] == [before, after]


async def test_lists_come_in_order_and_in_pages(authority: Authority, root: str) -> None:
    """The list contains all keys of the prefix and no others, by their bytes; ``after`` leads to the next
    page."""
    names = ["a", "a/1", "b", "z", "ä", "€", "𝄞"]
    await authority.ask(Txn((), tuple(Put(root + name, name.encode()) for name in reversed(names))))
    await put(authority, root[:-1] + "0 is the first key beyond the prefix")
    whole = await authority.ask(List(root))
    assert isinstance(whole, Listed)
    assert [item.key.removeprefix(root) for item in whole.items] == names
    assert not whole.more
    paged, after = [], ""
    for _ in range(len(names)):
        page = await authority.ask(List(root, limit=3, after=after))
        assert isinstance(page, Listed)
        assert len(page.items) <= 3
        paged += [item.key.removeprefix(root) for item in page.items]
        after = page.items[-1].key
        if not page.more:
            break
    assert paged == names
    beyond = await authority.ask(List(root, after=root[:-1] + "1"))
    assert isinstance(beyond, Listed)
    assert beyond.items == ()
    assert beyond.revision >= whole.revision


# --- leases


async def test_a_lease_that_is_kept_alive_holds_its_keys_and_then_they_go_together(
    backend: Backend, authority: Authority, root: str
) -> None:
    """Kept alive for longer than its time it holds; left alone it ends, and its keys are removed in one
    revision."""
    granted = await lease_of(authority, LEASE_S)
    assert granted.seconds >= LEASE_S
    start = await put(authority, root + "a", b"", granted.lease)
    await put(authority, root + "b", b"", granted.lease)
    for _ in range(5):
        await backend.pass_time(granted.seconds / 4)
        kept = await answered(authority, LeaseKeep(granted.lease))
        assert kept == granted
    assert await get(authority, root + "a") is not None
    *_, last = await take(authority, root, start, 3)
    assert last.changes == (Changed(root + "a", None), Changed(root + "b", None))
    assert await answered(authority, LeaseKeep(granted.lease)) == LeaseGone(granted.lease)


async def test_a_key_put_again_leaves_its_lease(authority: Authority, root: str) -> None:
    """A key put again without a lease loses its lease; revoking a lease removes its remaining keys at
    once."""
    granted = await lease_of(authority, 60)
    await put(authority, root + "stays", b"", granted.lease)
    await put(authority, root + "goes", b"", granted.lease)
    await put(authority, root + "stays")
    assert isinstance(await authority.ask(LeaseRevoke(granted.lease)), Applied)
    assert await get(authority, root + "goes") is None
    assert await get(authority, root + "stays") is not None
    assert await authority.ask(LeaseRevoke(granted.lease)) == LeaseGone(granted.lease)


async def test_nothing_is_put_under_a_lease_that_has_ended(authority: Authority, root: str) -> None:
    """The answer is LeaseGone when every compare held; a compare that fails comes first."""
    granted = await lease_of(authority, 60)
    await authority.ask(LeaseRevoke(granted.lease))
    changes = (Put(root + "free", b""), Put(root + "leased", b"", granted.lease))
    assert await authority.ask(Txn((), changes)) == LeaseGone(granted.lease)
    assert await get(authority, root + "free") is None
    await put(authority, root + "taken")
    assert isinstance(await authority.ask(Txn((Absent(root + "taken"),), changes)), Refused)


async def test_a_lease_is_not_lost_with_the_process_that_granted_it(
    backend: Backend, authority: Authority, root: str
) -> None:
    """After a restart, or at a new leader, no lease ends before its full time (A4)."""
    granted = await lease_of(authority, LEASE_S)
    await put(authority, root + "a", b"", granted.lease)
    await backend.pass_time(granted.seconds * 0.8)
    await backend.strike()
    if not backend.survives_strike:
        await backend.recover()
    await answered(authority, Get(root))
    await backend.pass_time(granted.seconds * 0.3)
    assert await get(authority, root + "a") is not None
    assert await answered(authority, LeaseKeep(granted.lease)) == granted
    if backend.survives_strike:
        await backend.recover()


# --- watches


async def test_a_watch_gives_each_revision_once_and_whole(authority: Authority, root: str) -> None:
    """From the requested revision, only what is below the prefix, with one Events for each transaction."""
    await put(authority, root + "in/early")
    first = await authority.ask(
        Txn((), (Put(root + "in/a", b"1"), Put(root + "in/b", b"2"), Put(root + "out/c", b"3")))
    )
    assert isinstance(first, Applied)
    await put(authority, root + "out/d")
    second = await authority.ask(Txn((), (Delete(root + "in/a"), Put(root + "in/b", b"4"))))
    assert isinstance(second, Applied)
    one, two = await take(authority, root + "in/", first.revision, 2)
    assert [each.key.removeprefix(root) for each in one.changes] == ["in/a", "in/b"]
    assert (one.revision, two.revision) == (first.revision, second.revision)
    created = KeyValue(root + "in/b", b"4", first.revision, second.revision, LeaseId(0))
    assert two.changes == (Changed(root + "in/a", None), Changed(root + "in/b", created))


async def test_a_watch_goes_on_after_what_served_it_has_died(
    backend: Backend, authority: Authority, root: str
) -> None:
    """Across the death of the serving process no revision is missing and none comes twice."""
    start = await put(authority, root + "0")
    seen: list[Events] = []

    async def consume() -> None:
        async with aclosing(authority.watch(root, start)) as watch:  # type: ignore[type-var]  # as above
            async for event in watch:
                assert isinstance(event, Events), event
                seen.append(event)
                if event.changes[-1].key == root + "end":
                    return

    consumer = asyncio.create_task(consume())
    await put(authority, root + "1")
    await backend.strike()
    await backend.recover()
    written = [f"{root}{number}" for number in range(2, 12)]
    for key in written:
        await answered(authority, Txn((), (Put(key, b""),)))
    await answered(authority, Txn((), (Put(root + "end", b""),)))
    async with asyncio.timeout(60):
        await consumer
    revisions = [each.revision for each in seen]
    assert revisions == sorted(set(revisions))
    listed = await answered(authority, List(root))
    assert isinstance(listed, Listed)
    assert {change.key for each in seen for change in each.changes} == {item.key for item in listed.items}


async def test_a_watch_from_forgotten_history_says_so_and_ends(
    backend: Backend, authority: Authority, root: str
) -> None:
    """The watch gives Compacted and ends: the watcher lists again and continues from that revision."""
    old = await put(authority, root + "a", b"1")
    for _ in range(3):
        newest = await put(authority, root + "a", b"2")
    await backend.forget(newest)
    await answered(authority, Get(root))
    async with asyncio.timeout(60):
        events = [event async for event in authority.watch(root, old)]
    assert len(events) == 1
    assert isinstance(events[0], Compacted)
    assert events[0].oldest > old
    listed = await authority.ask(List(root))
    assert isinstance(listed, Listed)
    assert [item.value for item in listed.items] == [b"2"]
    revision = await put(authority, root + "b")
    (event,) = await take(authority, root, Revision(listed.revision + 1), 1)
    assert event.revision == revision


async def test_a_watch_from_a_revision_yet_to_come_is_told_to_list_again(
    authority: Authority, root: str
) -> None:
    """The authority was restored to an older state (A5): a watch that waited until it has counted up to there
    again would miss everything in between."""
    revision = await put(authority, root + "a")
    async with asyncio.timeout(60):
        events = [event async for event in authority.watch(root, Revision(revision + 1_000_000))]
    assert [type(event) for event in events] == [Compacted]


# --- bounds (A3)


async def test_what_is_within_the_bounds_is_done_and_what_is_beyond_is_refused(
    authority: Authority, root: str
) -> None:
    """On every backend the largest allowed request works, and one more is Invalid and changes nothing."""
    puts = tuple(Put(f"{root}{number:03}", b"") for number in range(TXN_OPERATIONS_MAX))
    assert isinstance(await authority.ask(Txn((), puts)), Applied)
    assert isinstance(await authority.ask(Txn((Absent(root + "x"),), puts)), Invalid)
    large = Put(root + "large", b"x" * (TXN_BYTES_MAX - len(root) - 100))
    assert isinstance(await authority.ask(Txn((), (large,))), Applied)
    item = await get(authority, root + "large")
    assert item is not None
    assert item.value == large.value
    longest = root + "k" * (KEY_BYTES_MAX - len(root))
    await put(authority, longest)
    beyond: list[Request] = [
        Txn((), (Put(root + "huge", b"x" * TXN_BYTES_MAX),)),
        Txn((), (Put(root + "twice", b"1"), Delete(root + "twice"))),
        Txn((), (Put(longest + "k", b""),)),
        Txn((), (Put("", b""),)),
        Get(longest + "k"),
        List(root, limit=LIST_ITEMS_MAX + 1),
        List(root, limit=0),
        LeaseGrant(0),
    ]
    for request in beyond:
        assert isinstance(await authority.ask(request), Invalid), request
    assert await get(authority, root + "huge") is None
    assert await get(authority, root + "twice") is None


# --- what is built on it, where a real authority matters


async def session_of(authority: Authority, host: str) -> Session:
    lease = await lease_of(authority, 60)
    opened = await perform(
        authority,
        open_session(HostId(host), lease=lease.lease, address=f"{host}:1", nonce=Nonce(f"{host} opens")),
    )
    assert isinstance(opened, Seen), opened
    return opened.value


async def test_of_two_racers_for_one_name_one_wins(backend: Backend, authority: Authority, root: str) -> None:
    """However they interleave, one holds the name and the others are told which one (A7)."""
    rivals = [backend.connect(root) for _ in range(4)]
    sessions = [await session_of(authority, f"{root}racer-{number}") for number in range(4)]
    outcomes = await asyncio.gather(
        *(
            perform(rival, bind(root + "name", session.host, owner=session, nonce=Nonce(session.host)))
            for rival, session in zip(rivals, sessions, strict=True)
        )
    )
    for rival in rivals:
        await rival.close()
    winners = [each for each in outcomes if isinstance(each, Seen)]
    losers = [each for each in outcomes if isinstance(each, Taken)]
    assert len(winners) == 1, outcomes
    assert len(losers) == 3, outcomes
    assert {each.entry for each in losers} == {winners[0].value}


async def test_processes_of_one_host_that_race_get_different_incarnations(
    backend: Backend, authority: Authority, root: str
) -> None:
    """No two processes ever share an incarnation (V2)."""
    lease = await lease_of(authority, 60)
    rivals = [backend.connect(root) for _ in range(4)]
    host = HostId(root + "host")
    outcomes = await asyncio.gather(
        *(
            perform(rival, open_session(host, lease=lease.lease, address="", nonce=Nonce(str(number))))
            for number, rival in enumerate(rivals)
        )
    )
    for rival in rivals:
        await rival.close()
    assert all(isinstance(each, Seen) for each in outcomes), outcomes
    assert len({each.value.incarnation for each in outcomes if isinstance(each, Seen)}) == 4


async def test_a_late_unbinding_leaves_the_successors_entry(authority: Authority, root: str) -> None:
    """Unbind removes only the caller's own entry (A7)."""
    old = await session_of(authority, root + "a")
    await perform(authority, bind(root + "name", "old", owner=old, nonce=Nonce("1")))
    found = await get(authority, f"sessions/{old.host}")
    assert found is not None
    await authority.ask(LeaseRevoke(found.lease))
    new = await session_of(authority, root + "b")
    assert isinstance(await perform(authority, bind(root + "name", "new", owner=new, nonce=Nonce("2"))), Seen)
    late = await perform(authority, unbind(root + "name", owner=old, nonce=Nonce("3")))
    assert isinstance(late, NotYours)
    resolved = await perform(authority, resolve(root + "name"))
    assert isinstance(resolved, Seen)
    assert resolved.value.target == "new"
    assert await perform(authority, unbind(root + "name", owner=new, nonce=Nonce("4"))) == Removed()


async def test_a_deposed_term_cannot_commit(authority: Authority, root: str) -> None:
    """The election turns the open transaction to rollback; the old commit comes too late (T2)."""
    a, b = await session_of(authority, root + "a"), await session_of(authority, root + "b")
    for session in (a, b):
        joined = await perform(authority, join(session, context_cas=0, nonce=Nonce(session.host)))
        assert isinstance(joined, Seen), joined
    before = await perform(authority, read_term())
    assert not isinstance(before, NoAnswer)
    term = Term(0) if before is None else before.term
    elected = await perform(authority, elect(term, nonce=Nonce(root + "1"), prefer=a.host))
    assert isinstance(elected, Elected)
    assert await perform(authority, get_index_coordinator()) == a.address
    old = elected.term.term
    wrong = await perform(authority, create_transaction(old, 0, [a.host, b.host], nonce=Nonce(root + "2")))
    assert isinstance(wrong, WrongCas), wrong
    cas = wrong.next_cas
    opened = await perform(authority, create_transaction(old, cas, [a.host, b.host], nonce=Nonce(root + "2")))
    assert isinstance(opened, Seen), opened
    assert isinstance(await perform(authority, elect(old, nonce=Nonce(root + "3"), prefer=b.host)), Elected)
    late = await perform(authority, set_transaction_status(old, cas, Status.COMMIT, nonce=Nonce(root + "4")))
    assert isinstance(late, AlreadyDecided)
    assert late.transaction.status is Status.ROLLBACK
    assert isinstance(await perform(authority, elect(old, nonce=Nonce(root + "5"))), TermMoved)


async def test_an_authority_has_one_identity(backend: Backend, authority: Authority, root: str) -> None:
    """The first to set it up determines it; all others are told (A5)."""
    rivals = [backend.connect(root) for _ in range(3)]
    found = await asyncio.gather(
        *(perform(each, ensure_identity(str(each), nonce=Nonce(str(each)))) for each in rivals)
    )
    for rival in rivals:
        await rival.close()
    assert all(isinstance(each, Seen) for each in found), found
    assert len({each.value.id for each in found if isinstance(each, Seen)}) == 1


# --- doubt (A1)


@pytest.mark.parametrize("way", ["the request is delayed", "the answer is lost"])
async def test_a_change_applied_after_its_sender_timed_out_is_recognised_by_its_nonce(
    real_backend: SqliteBackend | EtcdBackend, root: str, way: str
) -> None:
    """On a real socket: the sender gives up, the change is applied, and repeating it finds that (A1)."""
    proxy = real_backend.proxy()
    direct = real_backend.connect(root)
    through = real_backend.connect_through(await proxy.start(), root)
    try:
        session = await session_of(direct, root + "host")
        await answered(through, Get(root))
        trouble = proxy.hold if way == "the request is delayed" else proxy.swallow_answers
        binding = bind(root + "name", "here", owner=session, nonce=Nonce("mine"))
        outcome = await perform(TroubledAuthority(through, trouble), binding)
        assert isinstance(outcome, InDoubt)
        if way == "the request is delayed":
            assert await get(direct, f"names/{root}name") is None
        proxy.release()
        async with asyncio.timeout(60):
            while await get(direct, f"names/{root}name") is None:
                await asyncio.sleep(0.02)
        settled = await perform(direct, bind(root + "name", "here", owner=session, nonce=Nonce("mine")))
        assert isinstance(settled, Seen)
        assert settled.value.nonce == "mine"
        item = await get(direct, f"names/{root}name")
        assert item is not None
        assert item.created == item.modified == settled.modified
    finally:
        await through.close()
        await direct.close()
        await proxy.close()


class TroubledAuthority:
    """Another authority on which a fault begins just before its first transaction."""

    def __init__(self, authority: Authority, begin_trouble: Callable[[], None]) -> None:
        self._authority = authority
        self._begin_trouble = begin_trouble

    async def ask(self, request: Request) -> Result:
        if isinstance(request, Txn):
            self._begin_trouble()
        return await self._authority.ask(request)

    def watch(self, prefix: str, revision: Revision) -> AsyncIterator[WatchEvent]:
        return self._authority.watch(prefix, revision)

    async def close(self) -> None:
        await self._authority.close()


async def test_no_acknowledged_change_is_lost_when_what_serves_is_killed_in_the_middle(
    backend: Backend, authority: Authority, root: str, rounds: Callable[..., int]
) -> None:
    """Writers append by compare-and-set. Each acknowledged change is in the history exactly once, no refused
    change is, and changes in doubt are identified by their nonces (A1)."""
    key = root + "register"
    start = await put(authority, key, b"start")
    writers = [Writer(backend.connect(root), key, f"w{number}") for number in range(3)]
    changes = rounds(short=25, long=300)
    tasks = [asyncio.create_task(writer.write(changes)) for writer in writers]
    for _ in range(rounds(short=1, long=5)):
        await writers[0].has_written(len(writers[0].acknowledged) + 5)
        await backend.strike()
        await backend.pass_time(0.2)
        await backend.recover()
    async with asyncio.timeout(100):
        await asyncio.gather(*tasks)
    for writer in writers:
        await writer.authority.close()
    await answered(authority, Txn((), (Put(root + "end", b""),)))
    history = await history_of(authority, root, start)
    acknowledged = [nonce for writer in writers for nonce in writer.acknowledged]
    refused = [nonce for writer in writers for nonce in writer.refused]
    assert len(acknowledged) == 3 * changes
    assert sorted(history) == sorted(acknowledged)
    assert not set(history) & set(refused)


async def history_of(authority: Authority, root: str, start: Revision) -> list[bytes]:
    """Return every value that the register has had since *start*, in order, until the end was written."""
    values: list[bytes] = []
    async with asyncio.timeout(60), aclosing(authority.watch(root, Revision(start + 1))) as watch:  # type: ignore[type-var]  # as above
        async for event in watch:
            assert isinstance(event, Events), event
            for change in event.changes:
                if change.key == root + "end":
                    return values
                assert change.item is not None
                values.append(change.item.value)
    raise AssertionError("the watch ended")


class Writer:
    """Changes one register by compare-and-set, each time to a new nonce."""

    def __init__(self, authority: Authority, key: str, name: str) -> None:
        self.authority = authority
        self._key = key
        self._name = name
        self.acknowledged: list[bytes] = []
        self.refused: list[bytes] = []
        self._progress = asyncio.Event()

    async def write(self, number: int) -> None:
        attempt = 0
        while len(self.acknowledged) < number:
            attempt += 1
            nonce = f"{self._name}-{attempt}".encode()
            (self.acknowledged if await self._change(nonce) else self.refused).append(nonce)
            self._progress.set()

    async def has_written(self, number: int) -> None:
        while len(self.acknowledged) < number:
            self._progress.clear()
            await self._progress.wait()

    async def _change(self, nonce: bytes) -> bool:
        """Return whether the register held *nonce*; a doubt is settled by a compare-and-set, never by
        reading."""
        item = await get(self.authority, self._key)
        assert item is not None
        change = Txn((Unchanged(self._key, item.modified),), (Put(self._key, nonce),))
        result = await self.authority.ask(change)
        in_doubt = isinstance(result, Unknown)
        while isinstance(result, Unknown):
            result = await self.authority.ask(change)
        if isinstance(result, Applied):
            return True
        assert isinstance(result, Refused)
        found = result.found[0]
        assert found is not None
        if found.value == nonce or not in_doubt:
            return found.value == nonce
        return await self._stood_once(nonce, item.modified)

    async def _stood_once(self, nonce: bytes, base: Revision) -> bool:
        """Return whether the first change after *base* was this writer's: the change was compared with
        exactly that."""
        (first,) = await take(self.authority, self._key, Revision(base + 1), 1)
        assert first.changes[0].item is not None
        return first.changes[0].item.value == nonce
