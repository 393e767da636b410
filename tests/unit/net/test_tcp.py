"""Real sockets: pipelining, what ends a connection and what does not, limits, and back-pressure."""

import asyncio
import random
import socket
from collections.abc import Callable

import pytest
from msgspec import DecodeError
from net_world import CLIENT, EVERYBODY, HELLO, SECRET, Echo, Kept, World, endpoint, logged, run

from holdfast.model.errors import InvalidRequest, Unavailable
from holdfast.net import (
    Address,
    Connection,
    ConnectionSettings,
    Expected,
    Inbox,
    Kind,
    NotConnected,
    PeerIdentity,
    ProvenBy,
    Reason,
    Role,
    Server,
    Why,
    connect,
    serve,
)
from holdfast.net.credentials import NONCE_BYTES
from holdfast.net.frame import HEADER, encode_frame
from holdfast.net.handshake import Hello, encode_hello, encode_welcome

KIB, MIB = 1024, 1024 * 1024


def test_thousands_of_frames_are_answered_in_order() -> None:
    """Nothing waits for an answer, and frames arrive in the order of sending, in both directions."""

    async def main(world: World) -> None:
        server = await world.serve(lambda _: Echo())
        kept = Kept()
        connection = await world.connect(server, lambda _: kept)
        sent = [(Kind.STATUS_REQUEST, b"%d" % n) for n in range(20_000)]
        for kind, payload in sent:
            connection.send(kind, payload)
        assert await kept.frames_come(len(sent)) == sent

    run(main)


def test_frames_from_one_byte_to_the_longest_arrive_whole() -> None:
    """The sizes lie around every buffer on the way."""

    async def main(world: World) -> None:
        server = await world.serve(lambda _: Echo())
        kept = Kept()
        connection = await world.connect(server, lambda _: kept)
        sizes = [0, 1, 64 * KIB - 5, 64 * KIB - 4, 256 * KIB, 3 * MIB + 1, 16 * MIB]
        for size in sizes:
            connection.send(Kind.STATUS_REQUEST, bytes([size % 251]) * size)
            await connection.drain()
        frames = await kept.frames_come(len(sizes))
        assert [payload for _, payload in frames] == [bytes([size % 251]) * size for size in sizes]

    run(main)


def test_a_payload_longer_than_the_peer_takes_is_refused_at_home() -> None:
    """The connection and what was sent before are not affected."""

    async def main(world: World) -> None:
        server = await world.serve(lambda _: Echo(), endpoint(Role.HOST, frame_bytes_max=2000))
        kept = Kept()
        connection = await world.connect(server, lambda _: kept)
        connection.send(Kind.STATUS_REQUEST, b"x" * 2000)
        with pytest.raises(InvalidRequest):
            connection.send(Kind.STATUS_REQUEST, b"x" * 2001)
        assert await kept.frames_come(1) == [(Kind.STATUS_REQUEST, b"x" * 2000)]

    run(main)


class Picky(Echo):
    """Cannot decode HEARTBEAT frames, and breaks on AGENT_REPORT frames."""

    def on_frame(self, connection: Connection, kind: Kind, payload: bytes) -> None:
        if kind is Kind.HEARTBEAT:
            raise DecodeError("not a heartbeat")
        if kind is Kind.AGENT_REPORT:
            raise ZeroDivisionError
        super().on_frame(connection, kind, payload)


@pytest.mark.parametrize(
    ("is_known", "data", "why"),
    [
        (True, HEADER.pack(17 * MIB, Kind.STATUS_REQUEST) + b"x" * MIB, Why.FRAME_TOO_LONG),
        (True, HEADER.pack(5, 200) + b"12345", Why.UNKNOWN_KIND),
        (True, HELLO, Why.OUT_OF_ORDER),
        (False, HELLO + HELLO, Why.OUT_OF_ORDER),
        (False, HELLO + encode_frame(Kind.PROOF, bytes(32)), Why.SECRET),
        (False, HELLO + encode_frame(Kind.READY, b""), Why.OUT_OF_ORDER),
        (False, HELLO + encode_frame(Kind.STATUS_REQUEST, b"early"), Why.OUT_OF_ORDER),
        (False, HELLO + HEADER.pack(2000, Kind.PROOF) + b"x", Why.FRAME_TOO_LONG),
        (False, encode_frame(Kind.STATUS_REQUEST, b"early"), Why.OUT_OF_ORDER),
        (True, encode_frame(Kind.HEARTBEAT, b"?"), Why.MALFORMED),
        (True, encode_frame(Kind.AGENT_REPORT, b"?"), Why.INTERNAL),
        (False, encode_frame(Kind.HELLO, b"\x93\xa8gopher.."), Why.MALFORMED),
        (False, encode_frame(Kind.HELLO, b"\x93\xa8holdfast\x07\x09"), Why.VERSION),
        (False, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", Why.FRAME_TOO_LONG),
        (False, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", Why.TLS),
    ],
)
def test_a_bad_peer_ends_its_own_connection_only(is_known: bool, data: bytes, why: Why) -> None:
    """There is one Goodbye with one reason and one line in the log; another peer's conversation continues."""

    async def main(world: World) -> None:
        server = await world.serve(lambda _: Picky())
        kept = Kept()
        neighbour = await world.connect(server, lambda _: kept)
        neighbour.send(Kind.STATUS_REQUEST, b"before")
        await kept.frames_come(1)
        bad = await world.raw(server)
        if is_known:
            await bad.shake_hands()
        with logged() as logs:
            bad.writer.write(data)
            reason = await bad.goodbye()
        assert reason.why is why
        assert [entry["event"] for entry in logs].count("connection ended") == 1
        neighbour.send(Kind.STATUS_REQUEST, b"after")
        assert [payload for _, payload in await kept.frames_come(2)] == [b"before", b"after"]
        assert len(server.connections) == 1

    run(main)


def test_strangers_with_random_bytes_harm_nobody(
    rounds: Callable[..., int], caplog: pytest.LogCaptureFixture
) -> None:
    """Many peers at once send random bytes before and after a good hello. Another peer's conversation
    continues, every bad connection ends, and nothing fails in the loop."""
    dice = random.Random(6)

    async def main(world: World) -> None:
        server = await world.serve(lambda _: Echo())
        kept = Kept()
        neighbour = await world.connect(server, lambda _: kept)

        async def stranger(data: bytes, is_known: bool) -> None:
            peer = await world.raw(server)
            if is_known:
                await peer.shake_hands()
            peer.writer.write(data)
            peer.writer.write_eof()
            async with asyncio.timeout(60):
                await peer.reader.read(-1)

        for turn in range(rounds(short=10, long=500)):
            hellos = [dice.choice((b"", HELLO)) + dice.randbytes(dice.randrange(200)) for _ in range(20)]
            await asyncio.gather(*(stranger(data, dice.random() < 0.3) for data in hellos))
            neighbour.send(Kind.STATUS_REQUEST, b"%d" % turn)
            assert (await kept.frames_come(turn + 1))[-1] == (Kind.STATUS_REQUEST, b"%d" % turn)
        assert len(server.connections) == 1

    run(main)
    assert not caplog.records


def test_a_stream_cut_inside_a_frame_is_truncated() -> None:
    """The server reports it to its log, to the receiver and, on the open half, to the peer."""

    async def main(world: World) -> None:
        kept = Kept()
        server = await world.serve(lambda _: kept)
        peer = await world.raw(server)
        await peer.shake_hands()
        peer.writer.write(encode_frame(Kind.STATUS_REQUEST, b"whole") + HEADER.pack(10, 64) + b"half")
        peer.writer.write_eof()
        assert (await peer.goodbye()).why is Why.TRUNCATED
        assert (await kept.end_comes()).why is Why.TRUNCATED
        assert kept.frames == [(Kind.STATUS_REQUEST, b"whole")]

    run(main)


def test_a_goodbye_reaches_a_peer_that_is_still_sending() -> None:
    """Closing with unread bytes would reset the connection and lose the reason, so the server lingers."""

    async def main(world: World) -> None:
        server = await world.serve(lambda _: Echo())
        for _ in range(5):
            peer = await world.raw(server)
            await peer.shake_hands()
            peer.writer.write(HEADER.pack(0, 99) + b"x" * (4 * MIB))
            assert (await peer.goodbye()).why is Why.UNKNOWN_KIND

    run(main)


def test_frames_sent_before_close_arrive_before_the_goodbye() -> None:
    """close() loses nothing that was sent, however much there is."""

    async def main(world: World) -> None:
        kept = Kept()
        server = await world.serve(lambda _: kept)
        connection = await world.connect(server)
        for n in range(3000):
            connection.send(Kind.STATUS_REQUEST, b"%4d" % n * 50)
        connection.close(Reason(Why.DONE, "all said"))
        connection.send(Kind.STATUS_REQUEST, b"after the end: dropped")
        assert await kept.end_comes() == Reason(Why.DONE, "all said", by_peer=True)
        assert len(kept.frames) == 3000

    run(main)


def test_on_closed_is_told_once_on_both_ends() -> None:
    """Closing again, from either end, changes nothing."""

    async def main(world: World) -> None:
        here, there = Kept(), Kept()
        server = await world.serve(lambda _: there)
        connection = await world.connect(server, lambda _: here)
        connection.close()
        connection.close(Reason(Why.INTERNAL, "again"))
        await there.end_comes()
        await connection.wait_gone()
        await server.close()
        assert [reason.why for reason in here.closed + there.closed] == [Why.DONE, Why.DONE]

    run(main)


def test_a_connection_closed_by_its_own_admission_ends_like_any_other() -> None:
    """The receiver may close a new connection at once: both ends are told, once."""

    async def main(world: World) -> None:
        there, here = Kept(), Kept()

        def on_connection(connection: Connection) -> Kept:
            connection.send(Kind.STATUS_REPLY, b"parting words")
            connection.close(Reason(Why.REFUSED, "not today"))
            return there

        server = await world.serve(on_connection)
        await world.connect(server, lambda _: here)
        assert (await here.end_comes()).message == "not today"
        assert here.frames == [(Kind.STATUS_REPLY, b"parting words")]
        assert [reason.why for reason in there.closed] == [Why.REFUSED]

    run(main)


def test_a_silent_stranger_is_given_up() -> None:
    """A connection that never completes a hello lasts for handshake_s, even if bytes trickle in."""

    async def main(world: World) -> None:
        server = await world.serve(lambda _: Echo(), endpoint(Role.HOST, handshake_s=0.2))
        silent, trickling = await world.raw(server), await world.raw(server)
        trickling.writer.write(HELLO[:7])
        for peer in (silent, trickling):
            assert (await peer.goodbye()).why is Why.HANDSHAKE_TIMEOUT

    run(main)


def test_a_silent_peer_is_given_up_and_a_quiet_one_is_not() -> None:
    """ALIVE frames keep an idle connection open; without them it ends after idle_s."""

    async def main(world: World) -> None:
        quick = endpoint(Role.HOST, idle_s=1.0)
        server = await world.serve(lambda _: Echo(), quick)
        quiet = await world.connect(server)  # its own idle_s is longer, so it uses the server's
        silent = await world.raw(server)
        await silent.shake_hands()
        assert (await silent.goodbye()).why is Why.IDLE
        await asyncio.sleep(1.5)
        assert quiet.is_open
        assert len(server.connections) == 1

    run(main)


async def has_place(world: World, server: Server) -> bool:
    try:
        return (await world.connect(server)).is_open
    except NotConnected:
        return False


def test_one_connection_too_many_is_told_so() -> None:
    """Peers that have not yet said who they are take nobody's place; a freed place can be used again."""

    async def main(world: World) -> None:
        server = await world.serve(lambda _: Echo(), endpoint(Role.HOST, connections_max=2))
        first = await world.connect(server)
        await world.raw(server)
        await world.connect(server)
        with pytest.raises(NotConnected) as caught:
            await world.connect(server)
        assert (caught.value.reason.why, caught.value.reason.by_peer) == (Why.TOO_MANY_CONNECTIONS, True)
        first.close()
        await first.wait_gone()
        async with asyncio.timeout(60):
            while not await has_place(world, server):
                await asyncio.sleep(0.005)

    run(main)


def test_a_flood_of_connections_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    """Of hundreds at once, those within the bound are served, the rest end, and the server continues."""

    async def main(world: World) -> None:
        server = await world.serve(lambda _: Echo(), endpoint(Role.HOST, connections_max=20))
        results = await asyncio.gather(*(world.connect(server) for _ in range(300)), return_exceptions=True)
        assert sum(isinstance(result, Connection) for result in results) == 20
        assert all(isinstance(result, Connection | NotConnected) for result in results)
        assert len(server.connections) == 20

    run(main)
    assert not caplog.records  # the loop itself logged nothing


def test_versions_that_do_not_meet() -> None:
    """A peer with only later versions is told which versions this end speaks."""

    async def main(world: World) -> None:
        server = await world.serve(lambda _: Echo())
        peer = await world.raw(server)
        peer.writer.write(HELLO.replace(b"holdfast\x02\x02", b"holdfast\x03\x09"))
        reason = await peer.goodbye()
        assert reason.why is Why.VERSION
        assert "3 to 9" in reason.message

    run(main)


def test_refusals_reach_the_connecting_end() -> None:
    """NotConnected names the cause: wrong domain, a role not admitted, another server than expected."""

    async def main(world: World) -> None:
        hosts_only = ConnectionSettings(
            PeerIdentity("test", Role.HOST, "host1"),
            expected=Expected(roles=frozenset({Role.HOST})),
            credentials=SECRET,
        )
        server = await world.serve(lambda _: Echo(), hosts_only)
        wanting_host2 = ConnectionSettings(
            PeerIdentity("test", Role.HOST, "host3"), expected=Expected(id="host2"), credentials=SECRET
        )
        for ours in (endpoint(Role.HOST, domain="other"), endpoint(Role.CLIENT), wanting_host2):
            with pytest.raises(NotConnected) as caught:
                await world.connect(server, endpoint=ours)
            assert caught.value.reason.why is Why.REFUSED
        assert (await world.connect(server, endpoint=endpoint(Role.HOST))).peer.id == "host1"

    run(main)


def test_connecting_has_a_deadline() -> None:
    """If nobody listens, or a listener never answers, NotConnected is raised in time."""

    async def main(world: World) -> None:
        with socket.create_server(("127.0.0.1", 0)) as mute:
            address = Address(*mute.getsockname())
            with pytest.raises(NotConnected) as caught:
                await world.connect(address, deadline_s=0.2)
            assert caught.value.reason.why is Why.HANDSHAKE_TIMEOUT
        with pytest.raises(NotConnected) as caught:
            await world.connect(address)
        assert caught.value.reason.why is Why.LOST

    run(main)


def test_an_address_in_use_is_said_to_be() -> None:
    async def main(world: World) -> None:
        server = await world.serve(lambda _: Echo())
        with pytest.raises(Unavailable, match="cannot listen"):
            await serve(server.address, lambda _: Echo(), CLIENT, admits=EVERYBODY)

    run(main)


def test_beyond_this_machine_plain_tcp_must_be_asked_for() -> None:
    """Neither end uses plain TCP to another machine unless explicitly told to."""

    async def main(world: World) -> None:
        anywhere = Address("0.0.0.0", 0)
        with pytest.raises(InvalidRequest, match="TLS"):
            await serve(anywhere, lambda _: Echo(), CLIENT, admits=EVERYBODY)
        with pytest.raises(InvalidRequest, match="TLS"):
            await connect(Address("192.0.2.1", 1), lambda _: Echo(), CLIENT)
        server = await serve(anywhere, lambda _: Echo(), CLIENT, admits=EVERYBODY, insecure=True)
        await server.close()

    run(main)


def test_a_server_that_closes_says_so() -> None:
    """Every peer gets the reason, and the server is gone when close returns."""

    async def main(world: World) -> None:
        server = await world.serve(lambda _: Echo())
        kept = [Kept() for _ in range(10)]
        for one in kept:
            await world.connect(server, lambda _, one=one: one)
        address = server.address
        await server.close()
        assert {(await one.end_comes()).why for one in kept} == {Why.SHUTTING_DOWN}
        with pytest.raises(NotConnected):
            await world.connect(address)

    run(main)


# --- back-pressure


async def send_until_held(connection: Connection, payload: bytes, most: int) -> int:
    """Send and drain until the peer takes no more; return the number of frames sent."""
    for sent in range(most):
        connection.send(Kind.STATUS_REPLY, payload)
        try:
            async with asyncio.timeout(0.5):
                await connection.drain()
        except TimeoutError:
            return sent + 1
    return most


def test_a_slow_consumer_holds_the_sender() -> None:
    """The consumer's queue, the sender's buffer and the system's are bounded: the sender waits, and
    everything arrives in order once the consumer continues."""

    async def main(world: World) -> None:
        inbox = Inbox(frames_max=50, bytes_max=1 * MIB)
        server = await world.serve(lambda _: inbox)
        connection = await world.connect(server)
        payload = b"x" * 10_000
        sent = await send_until_held(connection, payload, most=20_000)
        assert sent < 20_000
        assert not connection.is_writable
        assert connection.unsent_bytes < 2 * MIB
        assert inbox.held_bytes < 1 * MIB + 512 * KIB
        draining = asyncio.create_task(connection.drain())
        async with asyncio.timeout(60):
            for _ in range(sent):
                assert (await inbox.take())[1] == payload
            await draining
        assert connection.is_writable

    run(main)


def test_a_server_stops_reading_from_a_peer_that_takes_no_answers() -> None:
    """An echo server ignores back-pressure. A peer that sends and never reads is stopped by its own unread
    answers, and the memory of both sides stays bounded."""

    async def main(world: World) -> None:
        server = await world.serve(lambda _: Echo())
        peer = await world.raw(server)
        await peer.shake_hands()
        written = 0
        with pytest.raises(TimeoutError):
            while written < 200 * MIB:
                peer.writer.write(encode_frame(Kind.STATUS_REQUEST, b"y" * 50_000))
                written += 50_005
                async with asyncio.timeout(0.5):
                    await peer.writer.drain()
        (served,) = server.connections
        assert served.unsent_bytes < 3 * MIB
        assert not served.is_writable

    run(main)


def test_a_sender_that_minds_nothing_loses_the_connection() -> None:
    """Beyond unsent_bytes_max the connection ends as too slow: memory is bounded, whoever sends."""

    async def main(world: World) -> None:
        here = Kept()
        bound = 8 * MIB
        ours = endpoint(Role.CLIENT, frame_bytes_max=1 * MIB, unsent_bytes_max=bound)
        inbox = Inbox(frames_max=1)
        server = await world.serve(lambda _: inbox)
        connection = await world.connect(server, lambda _: here, ours)
        payload, highest = b"z" * 100_000, 0
        for _ in range(2000):
            connection.send(Kind.STATUS_REPLY, payload)
            highest = max(highest, connection.unsent_bytes)
            await asyncio.sleep(0)
        assert [reason.why for reason in here.closed] == [Why.TOO_SLOW]
        assert highest <= bound + len(payload) + 64 * KIB

    run(main)


def test_a_peer_that_takes_nothing_for_long_is_given_up() -> None:
    """After idle_s without progress the connection ends, and callers waiting in drain are told."""

    async def main(world: World) -> None:
        inbox = Inbox(frames_max=1)
        server = await world.serve(lambda _: inbox)
        connection = await world.connect(server, endpoint=endpoint(Role.CLIENT, idle_s=0.4))
        with pytest.raises(NotConnected) as caught:
            while True:
                connection.send(Kind.STATUS_REPLY, b"w" * 100_000)
                await connection.drain()
        assert caught.value.reason.why is Why.TOO_SLOW

    run(main)


def test_two_ends_with_much_to_say_do_not_wait_for_each_other() -> None:
    """Both send megabytes before either reads: all of it arrives."""

    async def main(world: World) -> None:
        here, there = Kept(), Kept()
        accepted: list[Connection] = []

        def on_connection(connection: Connection) -> Kept:
            accepted.append(connection)
            return there

        server = await world.serve(on_connection)
        connection = await world.connect(server, lambda _: here)

        async def talk(sender: Connection) -> None:
            for _ in range(300):
                sender.send(Kind.HEARTBEAT, b"v" * 100_000)
                await sender.drain()

        async with asyncio.timeout(30):
            await asyncio.gather(talk(connection), talk(accepted[0]))
        await here.frames_come(300)
        await there.frames_come(300)

    run(main)


def test_a_hello_as_wide_as_it_may_be_fits() -> None:
    """The longest names and numbers stay within the handshake's bound."""
    longest = PeerIdentity("d" * 100, Role.AUTHORITY, "i" * 100, 2**63)
    assert len(encode_hello(longest, 2**28, 2**40, ProvenBy.CERTIFICATE, bytes(NONCE_BYTES))) < 1024
    assert len(encode_welcome(longest, 2, 2**28, 2**40, bytes(NONCE_BYTES), "a" * 100)) < 1024
    assert Hello.__struct_fields__[:3] == ("magic", "oldest_version", "newest_version")


def test_frames_come_with_capacity_for_any_receiver(rounds: Callable[..., int]) -> None:
    """Receivers that pause and resume at every frame lose nothing and keep the order."""

    async def main(world: World) -> None:
        inbox = Inbox(frames_max=2)
        server = await world.serve(lambda _: inbox)
        connection = await world.connect(server)
        count = rounds(short=2000, long=50_000)
        for n in range(count):
            connection.send(Kind.HEARTBEAT, b"%d" % n)
        found = [(await inbox.take())[1] for _ in range(count)]
        assert found == [b"%d" % n for n in range(count)]

    run(main)


class ClosedUnawares(asyncio.Transport):
    """A transport as uvloop leaves it when connecting was cancelled: closed, but is_closing() is false."""

    def __init__(self, wire: socket.socket) -> None:
        super().__init__({"socket": wire, "peername": ("127.0.0.1", 1)})

    def is_closing(self) -> bool:
        return False

    def write(self, data: object) -> None:
        raise RuntimeError("the handler is closed")

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        return None

    def get_write_buffer_size(self) -> int:
        return 0

    def write_eof(self) -> None:
        raise RuntimeError("the handler is closed")

    def close(self) -> None:
        return None

    def abort(self) -> None:
        return None


def test_a_connection_can_be_given_up_when_its_transport_is_gone_already() -> None:
    """The caller that cancelled connecting gets the cancellation, not the transport's error."""

    async def main() -> None:
        with socket.socket() as wire:
            connection = Connection(endpoint(Role.CLIENT), is_connector=True, on_open=lambda _: Kept())
            connection.connection_made(ClosedUnawares(wire))
            connection.abort()
            assert connection.reason is not None
            connection.connection_lost(None)

    asyncio.run(main())
