"""What only an etcd can do wrong: endpoints that die, hang, lose their leader, or are unsuitable."""

import asyncio
import datetime
import ssl
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
from authority_backends import EtcdBackend
from etcd_cluster import ELECTION_MS, EtcdCluster

from holdfast.authority.contract import (
    Absent,
    Applied,
    Compacted,
    Delete,
    Events,
    Get,
    Got,
    LeaseGrant,
    LeaseGranted,
    LeaseKeep,
    List,
    Listed,
    Older,
    Put,
    Refused,
    Txn,
    Unknown,
    WatchEvent,
)
from holdfast.authority.etcd.backend import Assembler, EtcdAuthority
from holdfast.authority.etcd.gateway import Deadlines, EtcdGateway
from holdfast.authority.etcd.wire import (
    COMPARISONS_MAX,
    Header,
    KeyDomain,
    StoredKey,
    WatchedEvent,
    WatchResponse,
    range_end,
)
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import LeaseId, Revision
from holdfast.net import Role
from holdfast.net.certificates import create_domain, issue

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.etcd,
    pytest.mark.anyio,
    # A timeout that ends an attempt while its connection is being made leaves the socket to the garbage
    # collector, because httpx gives no handle to it. On a busy machine these tests meet that.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

SILENCE_S = 0.5
PATIENCE_S = 60.0
"""For an answer that a busy machine may be slow to give."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def domain(request: pytest.FixtureRequest) -> str:
    return f"{request.node.name}/"


@pytest.fixture
async def authority(etcd_backend: EtcdBackend, domain: str) -> AsyncIterator[EtcdAuthority]:
    """An authority client that asks the leader first."""
    made = etcd_backend.connect_to(etcd_backend.leader_first(), domain, silence_s=SILENCE_S, call_s=1.0)
    yield made
    await made.close()


async def put(authority: EtcdAuthority, key: str) -> Revision:
    result = await authority.ask(Txn((), (Put(key, b""),)))
    assert isinstance(result, Applied), result
    return result.revision


# --- endpoints


async def test_a_read_is_answered_elsewhere_when_its_endpoint_hangs(
    etcd_backend: EtcdBackend,
) -> None:
    """Endpoints rotate on a timeout, not only on an error: a stopped follower costs one attempt, not the
    call."""
    cluster = etcd_backend.cluster
    leader = cluster.leader()
    follower = next(member for member in cluster.members if member is not leader)
    asked = etcd_backend.connect_to([follower.client, leader.client], "hang/")
    await asked.ask(Get("a"))
    cluster.pause(follower)
    try:
        assert isinstance(await asked.ask(Get("a")), Got)
        for _ in range(10):
            assert isinstance(await asked.ask(Get("a")), Got)
    finally:
        cluster.resume(follower)
        await asked.close()


async def test_a_change_to_an_endpoint_that_hangs_is_unknown_and_not_sent_again(
    etcd_backend: EtcdBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The change may be applied when the endpoint wakes, so another endpoint must not apply it now (A1)."""
    cluster = etcd_backend.cluster
    leader = cluster.leader()
    follower = next(member for member in cluster.members if member is not leader)
    endpoints = [follower.client, leader.client]

    async def stay_there(gateway: EtcdGateway) -> None:
        return

    # Long timeouts for each endpoint and no look for a nearer one; otherwise a busy machine would switch to
    # the leader before the test begins.
    monkeypatch.setattr(EtcdGateway, "_stay_near", stay_there)
    authority = etcd_backend.connect_to(endpoints, "hung-change/", attempt_s=10, connect_s=10, call_s=1.5)
    assert isinstance(await authority.ask(Get("a")), Got)
    cluster.pause(follower)
    try:
        assert isinstance(await authority.ask(Txn((), (Put("a", b"1"),))), Unknown)
        found = await authority.ask(Get("a"))
        assert isinstance(found, Got)
        assert found.item is None
    finally:
        cluster.resume(follower)
        await authority.close()


async def test_a_change_whose_connection_breaks_is_unknown_and_not_sent_again(
    etcd_backend: EtcdBackend,
) -> None:
    """An endpoint that took the change and died may have passed it on; a read is simply repeated elsewhere
    (A1)."""

    async def take_and_die(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(take_and_die, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    endpoints = [f"http://127.0.0.1:{port}", *etcd_backend.cluster.endpoints]
    # Connecting takes a while on a busy machine, and a change that nobody took goes elsewhere.
    changing = etcd_backend.connect_to(endpoints, "broken/", connect_s=10)
    reading = etcd_backend.connect_to(endpoints, "broken/", connect_s=10)
    try:
        assert isinstance(await changing.ask(Txn((), (Put("a", b"1"),))), Unknown)
        found = await reading.ask(Get("a"))
        assert isinstance(found, Got)
        assert found.item is None
    finally:
        await changing.close()
        await reading.close()
        server.close()


async def test_a_change_goes_elsewhere_when_it_was_certainly_not_taken(etcd_backend: EtcdBackend) -> None:
    """A refused connection has carried nothing: another endpoint may be asked."""
    dead = "http://127.0.0.1:1"
    authority = etcd_backend.connect_to([dead, *etcd_backend.cluster.endpoints], "refused/")
    result = await authority.ask(Txn((Absent("a"),), (Put("a", b"1"),)))
    await authority.ask(Txn((), (Delete("a"),)))
    await authority.close()
    assert isinstance(result, Applied)


async def test_every_call_ends_within_its_deadline_when_nobody_is_there() -> None:
    """All endpoints are dead: reads and changes alike end as Unknown, in time."""
    authority = EtcdAuthority(
        ["http://127.0.0.1:1", "http://127.0.0.1:2"], deadlines=Deadlines(call_s=0.3, connect_s=0.1)
    )
    async with asyncio.timeout(60):
        assert isinstance(await authority.ask(Get("a")), Unknown)
        assert isinstance(await authority.ask(Txn((), (Put("a", b"1"),))), Unknown)
    await authority.close()


async def test_without_a_leader_nothing_is_taken_and_no_lease_is_lost(
    etcd_backend: EtcdBackend, authority: EtcdAuthority
) -> None:
    """Two of three are dead: 'no leader' is a reason to ask elsewhere and then to answer Unknown, never to
    say that a lease has gone; when they are back the lease is alive, and a watch has continued without a gap.
    """
    granted = await authority.ask(LeaseGrant(120))
    assert isinstance(granted, LeaseGranted)
    start = await put(authority, "before")
    cluster = etcd_backend.cluster
    seen: list[Events] = []

    async def consume() -> None:
        async with aclosing(authority.watch("", start)) as watch:  # type: ignore[type-var]  # an async generator
            async for event in watch:
                assert isinstance(event, Events), event
                seen.append(event)
                if len(seen) == 2:
                    return

    consumer = asyncio.create_task(consume())
    leader = cluster.leader()
    survivor = next(member for member in cluster.members if member is not leader)
    alone = etcd_backend.connect_to([survivor.client], "alone/", call_s=0.5)
    for member in cluster.members:
        if member is not survivor:
            cluster.kill(member)
    try:
        # Until its election time is over the survivor believes in its old leader, and a request to it only
        # times out; on a busy machine that takes an unknown time, so it is asked until it knows.
        await asyncio.sleep(2 * ELECTION_MS / 1000)
        for _ in range(20):
            refused = await alone.ask(Txn((), (Put("during", b""),)))
            assert isinstance(refused, Unknown)
            if "no leader" in refused.reason:
                break
        assert "no leader" in refused.reason  # the request was refused at once, not left to hang
        assert isinstance(await authority.ask(LeaseKeep(granted.lease)), Unknown)
    finally:
        await alone.close()
        cluster.heal()
    assert await authority.ask(LeaseKeep(granted.lease)) == granted
    after = await put(authority, "after")
    async with asyncio.timeout(60):
        await consumer
    assert [each.revision for each in seen] == [start, after]


async def test_a_watch_on_an_endpoint_that_hangs_is_opened_elsewhere(etcd_backend: EtcdBackend) -> None:
    """A stopped peer neither ends its streams nor refuses new ones: silence ends both, and nothing is
    missed."""
    cluster = etcd_backend.cluster
    leader = cluster.leader()
    follower = next(member for member in cluster.members if member is not leader)
    writer = etcd_backend.connect_to([leader.client], "silent/")
    readers = [
        etcd_backend.connect_to([follower.client, leader.client], "silent/", silence_s=SILENCE_S)
        for _ in range(2)
    ]
    first = await put(writer, "a")
    early, late = (reader.watch("", first) for reader in readers)
    try:
        async with asyncio.timeout(60):
            assert await revision_of(early) == first
            cluster.pause(follower)
            second = await put(writer, "b")
            assert await revision_of(early) == second
            assert [await revision_of(late), await revision_of(late)] == [first, second]
    finally:
        cluster.resume(follower)
        for authority in (writer, *readers):
            await authority.close()


async def revision_of(watch: AsyncIterator[WatchEvent]) -> Revision:
    """Return the revision of the watch's next event."""
    event = await anext(watch)
    assert isinstance(event, Events), event
    return event.revision


async def test_a_quiet_watch_is_opened_again_and_misses_nothing(authority: EtcdAuthority) -> None:
    """After several silences the next change is still the first one delivered."""
    first = await put(authority, "a")
    async with asyncio.timeout(60), aclosing(authority.watch("", first)) as watch:  # type: ignore[type-var]  # as above
        assert isinstance(await anext(watch), Events)
        waiting = asyncio.ensure_future(anext(watch))
        await asyncio.sleep(2.5 * SILENCE_S)
        second = await put(authority, "b")
        event = await waiting
    assert isinstance(event, Events)
    assert event.revision == second


async def test_a_watch_from_the_compacted_revision_itself_is_not_trusted(
    etcd_backend: EtcdBackend, authority: EtcdAuthority
) -> None:
    """What that revision removed may be forgotten though the watch would be accepted; the answer is Compacted
    instead."""
    await put(authority, "a")
    removed = await authority.ask(Txn((), (Delete("a"),)))
    assert isinstance(removed, Applied)
    await put(authority, "b")
    etcd_backend.cluster.compact(removed.revision)
    async with asyncio.timeout(60):
        events = [event async for event in authority.watch("", removed.revision)]
    assert len(events) == 1
    assert isinstance(events[0], Compacted)


async def test_domains_share_an_etcd_without_seeing_each_other(etcd_backend: EtcdBackend) -> None:
    """Each domain is below its own prefix; the same key is two keys."""
    one = etcd_backend.connect_to(etcd_backend.cluster.endpoints, "one/")
    other = etcd_backend.connect_to(etcd_backend.cluster.endpoints, "one0/")
    await put(one, "a")
    assert isinstance(await other.ask(Txn((Absent("a"),), (Put("a", b"other"),))), Applied)
    listed = await one.ask(List(""))
    assert isinstance(listed, Listed)
    assert [(item.key, item.value) for item in listed.items] == [("a", b"")]
    for authority in (one, other):
        await authority.close()


# --- requirements of an etcd


@pytest.fixture(scope="module")
def deaf_etcd(etcd_program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdCluster]:
    """A single member with its gateway switched off."""
    cluster = EtcdCluster(
        etcd_program,
        tmp_path_factory.mktemp("deaf"),
        size=1,
        options=("--enable-grpc-gateway=false",),
    )
    try:
        cluster.start(is_answering=False)
        yield cluster
    finally:
        cluster.stop()


async def test_an_etcd_that_demands_certificates_is_served_over_tls(
    etcd_program: str, tmp_path: Path
) -> None:
    """With the domain's certificates calls and watches work; without one nothing is answered."""
    certs = tmp_path / "certs"
    now = datetime.datetime.now(datetime.UTC)
    create_domain(certs, "test", now)
    issue(certs, Role.AUTHORITY, "etcd", now, addresses=("127.0.0.1",))
    issue(certs, Role.HOST, "a", now)
    cluster = EtcdCluster(
        etcd_program,
        tmp_path / "etcd",
        size=1,
        scheme="https",
        options=(
            f"--cert-file={certs / 'authority-etcd.pem'}",
            f"--key-file={certs / 'authority-etcd.key'}",
            f"--trusted-ca-file={certs / 'ca.pem'}",
            "--client-cert-auth",
        ),
    )
    ours = ssl.create_default_context(cafile=certs / "ca.pem")
    stranger = ssl.create_default_context(cafile=certs / "ca.pem")
    ours.load_cert_chain(certs / "host-a.pem", certs / "host-a.key")
    authority = EtcdAuthority(cluster.endpoints, tls=ours, deadlines=Deadlines(call_s=1))
    refused = EtcdAuthority(cluster.endpoints, tls=stranger, deadlines=Deadlines(call_s=1))
    try:
        cluster.start(is_answering=False)
        async with asyncio.timeout(60):
            while isinstance(await authority.ask(Get("a")), Unknown):
                await asyncio.sleep(0.05)
            await authority.check()
            revision = await put(authority, "a")
            async with aclosing(authority.watch("", revision)) as watch:  # type: ignore[type-var]  # as above
                assert await revision_of(watch) == revision
        assert isinstance(await refused.ask(Get("a")), Unknown)
    finally:
        await authority.close()
        await refused.close()
        cluster.stop()


async def test_a_gateway_that_is_switched_off_is_told_plainly(deaf_etcd: EtcdCluster) -> None:
    """The check says so, and so does the first call without a check."""
    authority = EtcdAuthority(deaf_etcd.endpoints, deadlines=Deadlines(call_s=5))
    async with asyncio.timeout(60):
        while isinstance(await _outcome(authority), Unknown):
            await asyncio.sleep(0.05)
    with pytest.raises(InvalidRequest, match="--enable-grpc-gateway"):
        await authority.check()
    with pytest.raises(InvalidRequest, match="--enable-grpc-gateway"):
        await authority.ask(Get("a"))
    await authority.close()


async def _outcome(authority: EtcdAuthority) -> object:
    try:
        return await authority.ask(Get("a"))
    except InvalidRequest as refusal:
        return refusal


class OldEtcd(BaseHTTPRequestHandler):
    """A server that reports an old version, and knows nothing else."""

    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        body = b'{"etcdserver":"3.3.11","etcdcluster":"3.3.0"}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        return None


@contextmanager
def old_etcd() -> Iterator[str]:
    """Yield where it listens. It runs on threads that have all ended afterwards: a server on the test's own
    loop may still have a connection when the loop ends."""
    with ThreadingHTTPServer(("127.0.0.1", 0), OldEtcd) as server:
        server.daemon_threads = False
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


async def test_an_etcd_that_is_too_old_is_told_plainly() -> None:
    """The version decides, before anything else is requested."""
    with old_etcd() as url:
        authority = EtcdAuthority([url], deadlines=Deadlines(attempt_s=PATIENCE_S, connect_s=PATIENCE_S))
        with pytest.raises(InvalidRequest, match=r"3\.3\.11"):
            await authority.check()
        await authority.close()
    assert OldEtcd.asked == ["/version"]


async def test_a_good_etcd_passes_the_check(authority: EtcdAuthority) -> None:
    """It passes also while one of its endpoints is down."""
    await authority.check()


# --- translation


def test_a_revision_cut_into_fragments_is_put_together() -> None:
    """There is one Events for each revision, however the responses are split."""

    def event(key: str, revision: int) -> WatchedEvent:
        return WatchedEvent(StoredKey(f"d/{key}".encode(), mod_revision=revision))

    def response(*events: WatchedEvent, fragment: bool = False) -> WatchResponse:
        return WatchResponse(header=Header(9), events=list(events), fragment=fragment)

    assembler = Assembler(KeyDomain("d/"))
    assert assembler.feed(response(event("a", 4), event("a", 5), fragment=True))[0].revision == 4
    assert assembler.feed(response(event("b", 5), fragment=True)) == []
    last = assembler.feed(response(event("c", 5), event("a", 6)))
    assert [(each.revision, [change.key for change in each.changes]) for each in last] == [
        (5, ["a", "b", "c"]),
        (6, ["a"]),
    ]


@pytest.mark.parametrize(
    ("prefix", "end"), [(b"a/", b"a0"), (b"a\xff", b"b"), (b"\xff", b"\0"), (b"", b"\0")]
)
def test_the_end_of_a_range_is_the_first_key_beyond_it(prefix: bytes, end: bytes) -> None:
    """Zero stands for the end of all keys, as in etcd."""
    assert range_end(prefix) == end


def test_an_authority_needs_an_endpoint() -> None:
    """It gives one clear error at the start."""
    with pytest.raises(InvalidRequest):
        EtcdAuthority([])


def test_lease_ids_of_64_bits_survive() -> None:
    """They do not fit a float; JSON must not round them."""
    stored = StoredKey(b"d/a", lease=2**62 + 1, mod_revision=1, create_revision=1)
    (changed,) = KeyDomain("d/").events(1, [WatchedEvent(stored)]).changes
    assert changed.item is not None
    assert changed.item.lease == LeaseId(2**62 + 1)


async def test_a_change_with_more_comparisons_than_an_etcd_takes_in_one_transaction(
    authority: EtcdAuthority,
) -> None:
    """That keys are there at all is then asked of those that are changed; a key that is gone still is not
    older than anything (A8)."""
    names = [f"k{number:03}" for number in range(70)]
    for start in range(0, len(names), 35):
        applied = await authority.ask(Txn((), tuple(Put(each, b"") for each in names[start : start + 35])))
        assert isinstance(applied, Applied)
    later = Revision(applied.revision + 1)
    compares = tuple(Older(each, later) for each in names)
    assert 1 + 2 * len(compares) > COMPARISONS_MAX
    wanted = Txn(compares, tuple(Put(each, b"new") for each in names[:30]))
    gone = await authority.ask(Txn((), (Delete(names[0]),)))
    assert isinstance(gone, Applied)
    refused = await authority.ask(wanted)
    assert isinstance(refused, Refused)
    assert refused.found[0] is None
    restored = await put(authority, names[0])
    again = (Older(names[0], Revision(restored + 1)), *compares[1:])
    assert isinstance(await authority.ask(Txn(again, wanted.changes)), Applied)
