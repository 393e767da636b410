"""The server and client cores of the embedded authority, joined by a network that the test controls."""

import random as random_module
from collections.abc import Callable, Hashable, Iterator, Sequence
from pathlib import Path

import pytest

from holdfast.authority.client import AuthorityClient
from holdfast.authority.contract import (
    Absent,
    Applied,
    Compacted,
    Events,
    Get,
    Got,
    KeyValue,
    LeaseGrant,
    LeaseGranted,
    LeaseKeep,
    Put,
    Refused,
    Request,
    Result,
    Txn,
    Unknown,
    WatchEvent,
)
from holdfast.authority.server import STALL_NS, TICK_NS, AuthorityServer
from holdfast.authority.sqlite import HistoryLimits, SqliteStore
from holdfast.authority.sqlite_file import first_lease
from holdfast.authority.wire import (
    WATCH_WINDOW,
    Answer,
    Ask,
    Hello,
    Stale,
    WatchEvents,
    WatchStart,
    Welcome,
    decode_client_message,
    decode_server_message,
    encode,
)
from holdfast.model.ids import MILLISECOND, SECOND, LeaseId, Revision
from holdfast.model.ports import NoTrace, TimerId

FIRST = LeaseId(first_lease("test") + 1)
"""The first lease of a store in these tests."""


class Bench:
    """One server, one client, one clock; messages wait until the test delivers them."""

    def __init__(self, store: SqliteStore) -> None:
        self.time = 0
        self.timers: list[tuple[int, Callable[[Hashable], None], Hashable]] = []
        self.to_server: list[object] = []
        self.to_client: list[object] = []
        self.answers: dict[Hashable, Result] = {}
        self.events: list[WatchEvent] = []
        self.server = self.new_server(store)
        self.client = AuthorityClient(
            server="server",
            clock=self,
            timers=self.make_timers,
            network=Lane(self.to_server),
            random=self,
            trace=NoTrace(),
            on_authority=self.answers.__setitem__,
            on_watch=lambda token, event: self.events.append(event),
        )
        self.client.start()

    def new_server(self, store: SqliteStore) -> AuthorityServer:
        self.server = AuthorityServer(
            store=store,
            clock=self,
            timers=self.make_timers,
            network=Lane(self.to_client),
            random=self,
            trace=NoTrace(),
        )
        self.server.start()
        return self.server

    # the ports

    def now(self) -> int:
        return self.time

    def wall(self) -> int:
        return self.time

    def stream(self, name: str) -> random_module.Random:
        return random_module.Random(f"{name} {len(self.timers)} {self.time}")

    def make_timers(self, on_timer: Callable[[Hashable], None]) -> "BenchTimers":
        return BenchTimers(self, on_timer)

    # what the test does

    def carry(self) -> None:
        """Deliver all messages at this moment, until none is left."""
        self.fire()
        while self.to_server or self.to_client:
            while self.to_server:
                self.server.on_message("client", self.to_server.pop(0))
            self.fire()
            while self.to_client:
                self.client.on_message("server", self.to_client.pop(0))

    def fire(self) -> None:
        while due := [timer for timer in self.timers if timer[0] <= self.time]:
            self.timers.remove(due[0])
            due[0][1](due[0][2])

    def wait(self, duration_ns: int, *, carrying: bool = True) -> None:
        """Let time pass in small steps, with or without messages."""
        end = self.time + duration_ns
        while self.time < end:
            self.time = min(end, self.time + 50 * MILLISECOND)
            self.carry() if carrying else self.fire()

    def ask(self, request: Request) -> Result:
        token = len(self.answers)
        self.client.request(request, token)
        self.carry()
        return self.answers[token]

    def put(self, key: str, value: bytes = b"") -> Result:
        return self.ask(Txn((), (Put(key, value),)))


class Lane:
    """Messages in one direction, through the codec."""

    def __init__(self, messages: list[object]) -> None:
        self._messages = messages

    def send(self, peer: str, message: object) -> None:
        data = encode(message)  # type: ignore[arg-type]  # the cores send nothing else
        decode = decode_client_message if peer == "server" else decode_server_message
        self._messages.append(decode(data))


class BenchTimers:
    def __init__(self, bench: Bench, on_timer: Callable[[Hashable], None]) -> None:
        self._bench = bench
        self._on_timer = on_timer

    def set(self, delay_ns: int, tag: Hashable) -> TimerId:
        self._bench.timers.append((self._bench.time + delay_ns, self._on_timer, tag))
        self._bench.timers.sort(key=lambda timer: timer[0])
        return TimerId(0)

    def cancel(self, timer: TimerId) -> None:
        raise AssertionError("neither core cancels timers")


class CountingStore(SqliteStore):
    """Remembers how many requests each commit held."""

    commits: list[int]

    def apply(self, requests: Sequence[Request], now_ns: int) -> list[Result]:
        self.commits.append(len(requests))
        return super().apply(requests, now_ns)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[CountingStore]:
    store = CountingStore(
        str(tmp_path / "a"), now_ns=0, new_id="test", limits=HistoryLimits(revisions_max=1000)
    )
    store.commits = []
    yield store
    store.close()


@pytest.fixture
def bench(store: SqliteStore) -> Bench:
    bench = Bench(store)
    bench.carry()
    return bench


def sent(bench: Bench, kind: type[Ask]) -> list[Ask]:
    return [message for message in bench.to_server if isinstance(message, kind)]


def test_requests_of_one_turn_share_a_commit(bench: Bench, store: "CountingStore") -> None:
    """Answers leave only after the commit that covers all requests gathered in the turn."""
    for number in range(10):
        bench.client.request(Txn((), (Put(f"k{number}", b""),)), number)
    while bench.to_server:
        bench.server.on_message("client", bench.to_server.pop(0))
    assert bench.to_client == []
    bench.carry()
    assert store.commits[-1] == 10
    assert [bench.answers[number] for number in range(10)] == [Applied(Revision(2 + n)) for n in range(10)]


def test_a_repeated_change_is_applied_once(bench: Bench) -> None:
    """However often and late a request arrives, it is applied once; a second copy is not answered."""
    bench.client.request(Txn((Absent("k"),), (Put("k", b"1"),)), "first")
    (copy,) = sent(bench, Ask)
    bench.to_server.append(copy)
    bench.carry()
    assert bench.answers["first"] == Applied(Revision(2))
    bench.put("k", b"2")
    bench.to_server.append(copy)
    bench.carry()
    assert bench.ask(Get("k")) == Got(item(b"2", created=2, modified=3), Revision(3))


def item(value: bytes, *, created: int, modified: int) -> KeyValue:
    return KeyValue("k", value, Revision(created), Revision(modified), LeaseId(0))


def test_a_change_that_outlives_its_server_is_not_applied_by_the_next(
    bench: Bench, store: SqliteStore
) -> None:
    """A session belongs to one server process: a delayed copy finds none, and the client is told at once."""
    bench.client.request(Txn((), (Put("k", b"late"),)), "late")
    delayed = bench.to_server[:]
    bench.to_server.clear()
    bench.time += 10
    bench.new_server(store)
    bench.to_server.extend(delayed)
    bench.carry()
    assert isinstance(bench.answers["late"], Unknown)
    assert bench.ask(Get("k")) == Got(None, Revision(1))


def test_an_unanswered_change_is_unknown_and_never_sent_again(bench: Bench) -> None:
    """A1: only Unknown can be said, and a late answer changes nothing."""
    bench.client.request(Txn((), (Put("k", b""),)), "lost")
    bench.to_server.clear()
    bench.wait(2 * SECOND, carrying=False)
    assert isinstance(bench.answers.pop("lost"), Unknown)
    assert not sent(bench, Ask)
    bench.wait(5 * SECOND)
    assert "lost" not in bench.answers
    assert bench.ask(Get("k")) == Got(None, Revision(1))


def test_an_applied_change_whose_answer_was_lost_is_unknown(bench: Bench) -> None:
    """The change is there: unknown does not mean refused."""
    bench.client.request(Txn((), (Put("k", b"1"),)), "lost")
    bench.server.on_message("client", bench.to_server.pop())
    bench.fire()
    (answer,) = [message for message in bench.to_client if isinstance(message, Answer)]
    bench.to_client.clear()
    bench.wait(2 * SECOND, carrying=False)
    assert isinstance(bench.answers["lost"], Unknown)
    bench.client.on_message("server", answer)
    assert isinstance(bench.answers["lost"], Unknown)
    bench.wait(2 * SECOND)
    assert bench.ask(Get("k")) == Got(item(b"1", created=2, modified=2), Revision(2))


def test_a_read_is_sent_again_when_the_connection_is_made_anew(bench: Bench) -> None:
    """A read survives the loss of a session within its deadline; a change in flight does not."""
    bench.client.request(Get("k"), "read")
    bench.client.request(Txn((), (Put("k", b""),)), "change")
    bench.to_server.clear()
    bench.client.on_disconnected()
    assert isinstance(bench.answers["change"], Unknown)
    assert "read" not in bench.answers
    bench.client.on_connected()
    bench.carry()
    assert bench.answers["read"] == Got(None, Revision(1))


def test_a_request_below_the_floor_is_dropped(bench: Bench) -> None:
    """Once the server knows the floor, it does not apply requests that the client has given up."""
    bench.client.request(Txn((), (Put("k", b""),)), "given up")
    (late,) = sent(bench, Ask)
    bench.to_server.clear()
    bench.wait(2 * SECOND)
    assert isinstance(bench.answers["given up"], Unknown)
    assert bench.ask(Get("k")) == Got(None, Revision(1))
    bench.to_server.append(late)
    bench.carry()
    assert bench.ask(Get("k")) == Got(None, Revision(1))


def test_another_peer_cannot_use_a_session(bench: Bench) -> None:
    """A session belongs to its peer; any other peer that names it is told that there is none."""
    bench.client.request(Txn((), (Put("k", b""),)), "x")
    bench.server.on_message("stranger", bench.to_server.pop())
    assert isinstance(bench.to_client[-1], Stale)
    bench.to_client.clear()
    assert bench.ask(Get("k")) == Got(None, Revision(1))


# --- leases


def test_leases_expire_by_the_tick_and_not_before(bench: Bench) -> None:
    """A lease that is renewed stays; left alone, it ends within its time, the margin and one tick."""
    assert bench.ask(LeaseGrant(3)) == LeaseGranted(FIRST, 3)
    for _ in range(5):
        bench.wait(2 * SECOND)
        assert bench.ask(LeaseKeep(FIRST)) == LeaseGranted(FIRST, 3)
    bench.ask(Txn((), (Put("k", b"", FIRST),)))
    bench.wait(3 * SECOND)
    assert isinstance(bench.ask(Get("k")), Got)
    assert bench.ask(LeaseKeep(FIRST)) == LeaseGranted(FIRST, 3)
    bench.wait(3 * SECOND + 3 * SECOND // 100 + TICK_NS + 50 * MILLISECOND)
    assert bench.ask(Get("k")) == Got(None, Revision(3))


def test_a_server_that_stood_still_expires_nobody(bench: Bench) -> None:
    """A4: the server heard nobody, so silence proves nothing; every lease gets its full time from then on."""
    bench.ask(LeaseGrant(1))
    bench.time += 10 * STALL_NS
    bench.fire()
    assert bench.ask(LeaseKeep(FIRST)) == LeaseGranted(FIRST, 1)


# --- watches


def revisions(bench: Bench) -> list[int]:
    return [event.revision for event in bench.events if isinstance(event, Events)]


def test_a_watch_sees_its_prefix_in_order_from_its_revision(bench: Bench) -> None:
    """The watch delivers history first, then new events, and does not mention other keys."""
    for number in range(4):
        bench.put(f"w/{number}")
        bench.put(f"other/{number}")
    bench.client.watch("w/", Revision(4), "watch")
    bench.carry()
    bench.put("w/4")
    assert revisions(bench) == [4, 6, 8, 10]
    bench.client.unwatch("watch")
    bench.carry()
    bench.put("w/5")
    assert revisions(bench) == [4, 6, 8, 10]


@pytest.mark.parametrize("lost", range(6))
def test_a_lost_event_is_fetched_again(bench: Bench, lost: int) -> None:
    """Whichever message is lost, even the watch's start or the last event: no gap, no repetition."""
    bench.client.watch("w/", Revision(1), "watch")
    if lost == 0:
        bench.to_server.clear()
    bench.carry()
    for number in range(1, 6):
        bench.client.request(Txn((), (Put(f"w/{number}", b""),)), number)
        while bench.to_server:
            bench.server.on_message("client", bench.to_server.pop(0))
        bench.fire()
        if number == lost:
            bench.to_client[:] = [each for each in bench.to_client if not isinstance(each, WatchEvents)]
        bench.carry()
    bench.wait(2 * SECOND)
    assert revisions(bench) == [2, 3, 4, 5, 6]


def test_repeated_and_overtaking_events_are_put_in_order(bench: Bench) -> None:
    """The client passes on each revision once, in order, whatever the network does."""
    bench.client.watch("w/", Revision(1), "watch")
    bench.carry()
    for number in range(20):
        bench.client.request(Txn((), (Put(f"w/{number}", b""),)), number)
    while bench.to_server:
        bench.server.on_message("client", bench.to_server.pop(0))
    bench.fire()
    bench.to_client += bench.to_client
    random_module.Random(1).shuffle(bench.to_client)
    bench.wait(2 * SECOND)
    assert revisions(bench) == list(range(2, 22))


def test_a_watch_goes_on_at_the_next_server(bench: Bench, store: SqliteStore) -> None:
    """After a restart of the server the watch continues at the first revision not seen."""
    bench.client.watch("w/", Revision(1), "watch")
    bench.carry()
    bench.put("w/1")
    bench.time += 10
    bench.new_server(store)
    store.apply([Txn((), (Put("w/2", b""),))], bench.time)
    bench.wait(1 * SECOND)
    bench.put("w/3")
    assert revisions(bench) == [2, 3, 4]


def test_a_watcher_that_does_not_acknowledge_is_sent_no_more_than_a_window(bench: Bench) -> None:
    """A slow watcher costs the server nothing but history."""
    bench.server.on_message("slow", Hello(7))
    welcome = bench.to_client.pop()
    assert isinstance(welcome, Welcome)
    bench.server.on_message("slow", WatchStart(welcome.session, 1, "w/", Revision(1)))
    for number in range(WATCH_WINDOW + 50):
        bench.put(f"w/{number}")
    bench.server.on_message("slow", WatchStart(welcome.session, 2, "w/", Revision(1)))
    received = [message for message in bench.to_client if isinstance(message, WatchEvents)]
    assert len(received) == WATCH_WINDOW


def test_many_events_pass_the_window(bench: Bench) -> None:
    """Acknowledgements keep a long watch going without waiting for the next ping."""
    for number in range(5 * WATCH_WINDOW):
        bench.put(f"w/{number}")
    bench.client.watch("w/", Revision(1), "watch")
    bench.carry()
    assert revisions(bench) == list(range(2, 2 + 5 * WATCH_WINDOW))


def test_history_that_is_gone_is_said_so_and_ends_the_watch(bench: Bench) -> None:
    """A3: after compacted history, or for a revision this file never had, the client must list again."""
    for number in range(1100):
        bench.put(f"w/{number % 10}")
    bench.client.watch("w/", Revision(1), "old")
    bench.client.watch("w/", Revision(10_000), "from a lost future")
    bench.carry()
    bench.put("w/0")
    assert len(bench.events) == 2
    assert all(isinstance(event, Compacted) for event in bench.events)


def test_refusals_reach_the_client(bench: Bench) -> None:
    """A refusal reports what was found, through the codec."""
    bench.put("k", b"1")
    refused = bench.ask(Txn((Absent("k"),), (Put("k", b"2"),)))
    assert refused == Refused((item(b"1", created=2, modified=2),), Revision(2))
