"""Mutual TLS over real sockets: which peers are admitted, and what the others are told."""

import asyncio
import datetime
import ssl
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from net_world import CLIENT, EVERYBODY, SERVER, Echo, Kept, World, logged, run

from holdfast.model.errors import InvalidRequest
from holdfast.net import (
    Address,
    ConnectionSettings,
    Expected,
    Inbox,
    Kind,
    Link,
    NotConnected,
    PeerIdentity,
    Role,
    Tls,
    Why,
    serve,
)
from holdfast.net.certificates import create_domain, issue
from holdfast.net.tls import Rotation

NOW = datetime.datetime.now(datetime.UTC)
LONG_AGO = NOW - datetime.timedelta(days=400)


@pytest.fixture(scope="module")
def certs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("certs")
    create_domain(directory, "test", NOW)
    issue(directory, Role.HOST, "server", NOW)
    issue(directory, Role.HOST, "other", NOW)
    issue(directory, Role.CLIENT, "client", NOW)
    issue(directory, Role.AGENT, "agent1", NOW)
    issue(directory, Role.CLIENT, "expired", LONG_AGO)
    issue(directory, Role.HOST, "expired", LONG_AGO)
    return directory


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates of a domain with the same name and ids, signed by another authority."""
    directory = tmp_path_factory.mktemp("strangers")
    create_domain(directory, "test", NOW)
    issue(directory, Role.HOST, "server", NOW)
    issue(directory, Role.CLIENT, "client", NOW)
    return directory


def with_tls(
    directory: Path, role: Role, id: str, *, says: PeerIdentity | None = None, **more: Expected
) -> ConnectionSettings:
    """An endpoint with that certificate; *says* is the identity it claims in the handshake."""
    return ConnectionSettings(
        says or PeerIdentity("test", role, id), tls=Tls.load(directory, role, id), **more
    )


def refused(server: ConnectionSettings, client: ConnectionSettings) -> tuple[NotConnected, list[str]]:
    """Let *client* try to connect; return the error it gets and the reasons the server logged."""

    async def main(world: World) -> tuple[NotConnected, list[str]]:
        listening = await world.serve(lambda _: Echo(), server)
        with logged() as logs:
            with pytest.raises(NotConnected) as caught:
                await world.connect(listening, endpoint=client)
            while len(logs) < 2:
                await asyncio.sleep(0.01)
            await listening.close()
        ended = [entry for entry in logs if entry["event"] == "connection ended"]
        assert len(ended) == 2  # one line at each end, and no more
        at_server = [entry["reason"] for entry in ended if entry["address"] != caught.value.where]
        return caught.value, at_server

    return run(main)


def test_frames_travel_both_ways_under_tls(certs: Path) -> None:
    """Small, many and long frames; each end knows the other by its certificate."""

    async def main(world: World) -> None:
        server = await world.serve(lambda _: Echo(), with_tls(certs, Role.HOST, "server"))
        kept = Kept()
        connection = await world.connect(server, lambda _: kept, with_tls(certs, Role.CLIENT, "client"))
        assert connection.peer.id == "server"
        assert server.connections[0].peer == PeerIdentity("test", Role.CLIENT, "client")
        sent = [(Kind.STATUS_REQUEST, b"%d" % n) for n in range(3000)]
        sent += [(Kind.STATUS_REQUEST, b"x" * 5_000_000)]
        for kind, payload in sent:
            connection.send(kind, payload)
        assert await kept.frames_come(len(sent)) == sent
        connection.close()
        assert connection.reason is not None
        await connection.wait_gone()

    run(main)


def test_a_slow_consumer_holds_the_sender_under_tls(certs: Path) -> None:
    """Back-pressure passes through the TLS layer."""

    async def main(world: World) -> None:
        inbox = Inbox(frames_max=10)
        server = await world.serve(lambda _: inbox, with_tls(certs, Role.HOST, "server"))
        connection = await world.connect(server, endpoint=with_tls(certs, Role.CLIENT, "client"))
        sent = 0
        while connection.is_writable:
            connection.send(Kind.STATUS_REPLY, b"x" * 50_000)
            sent += 1
            assert sent < 2000
        assert connection.unsent_bytes < 3_000_000
        for _ in range(sent):
            assert len((await inbox.take())[1]) == 50_000
        await connection.drain()

    run(main)


def test_a_client_of_another_authority_is_refused(certs: Path, strangers: Path) -> None:
    """The right names do not help: the signature decides."""
    told, logged = refused(with_tls(certs, Role.HOST, "server"), with_tls(strangers, Role.CLIENT, "client"))
    assert told.reason.why is Why.TLS
    assert "certificate" in told.reason.message
    assert logged[0].startswith("tls: the peer")


def test_a_server_of_another_authority_is_refused(certs: Path, strangers: Path) -> None:
    """The client refuses a server it cannot trust before it reveals its own identity."""
    told, _ = refused(with_tls(strangers, Role.HOST, "server"), with_tls(certs, Role.CLIENT, "client"))
    assert (told.reason.why, told.reason.by_peer) == (Why.TLS, False)
    assert "certificate" in told.reason.message


@pytest.mark.parametrize(
    "says",
    [
        PeerIdentity("test", Role.HOST, "client"),
        PeerIdentity("test", Role.AGENT, "agent1"),
        PeerIdentity("test", Role.CLIENT, "client2"),
    ],
)
def test_a_name_that_is_not_in_the_certificate_is_refused(certs: Path, says: PeerIdentity) -> None:
    """No process becomes a host, an agent (K2) or another client by claiming to be one."""
    impostor = with_tls(certs, Role.CLIENT, "client", says=says)
    told, logged = refused(with_tls(certs, Role.HOST, "server"), impostor)
    assert (told.reason.why, told.reason.by_peer) == (Why.REFUSED, True)
    assert "certificate is of client client" in told.reason.message
    assert logged[0].startswith("refused: ")


def test_a_server_that_is_not_the_one_in_its_certificate_is_refused(certs: Path) -> None:
    impostor = with_tls(certs, Role.HOST, "other", says=PeerIdentity("test", Role.HOST, "server"))
    told, _ = refused(impostor, with_tls(certs, Role.CLIENT, "client"))
    assert (told.reason.why, told.reason.by_peer) == (Why.REFUSED, False)


def test_a_role_that_is_not_admitted_is_refused_with_a_good_certificate(certs: Path) -> None:
    agents_only = with_tls(certs, Role.HOST, "server", expected=Expected(roles=frozenset({Role.AGENT})))
    told, _ = refused(agents_only, with_tls(certs, Role.CLIENT, "client"))
    assert (told.reason.why, told.reason.by_peer) == (Why.REFUSED, True)


def test_expired_certificates_are_refused_on_either_side(certs: Path) -> None:
    """Both ends report the expiry."""
    told, logged = refused(with_tls(certs, Role.HOST, "server"), with_tls(certs, Role.CLIENT, "expired"))
    assert told.reason.why is Why.TLS
    assert "expired" in told.reason.message
    assert "expired" in logged[0]
    told, _ = refused(with_tls(certs, Role.HOST, "expired"), with_tls(certs, Role.CLIENT, "client"))
    assert told.reason.why is Why.TLS
    assert "expired" in told.reason.message


def test_a_client_without_a_certificate_is_refused(certs: Path) -> None:
    """The client is told that a certificate is required."""
    bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    bare.check_hostname = False
    bare.load_verify_locations(certs / "ca.pem")
    anonymous = ConnectionSettings(CLIENT.identity, tls=Tls(connector=bare, acceptor=bare))
    told, logged = refused(with_tls(certs, Role.HOST, "server"), anonymous)
    assert told.reason.why is Why.TLS
    assert told.reason.message == "the peer demands a certificate"
    assert logged == ["tls: the peer sent no certificate"]


def test_plain_to_a_tls_port_and_tls_to_a_plain_port(certs: Path) -> None:
    """Both get a plain explanation instead of a reset."""
    told, logged = refused(with_tls(certs, Role.HOST, "server"), CLIENT)
    assert (told.reason.why, told.reason.by_peer) == (Why.TLS, True)
    assert told.reason.message == "this port requires TLS"
    assert logged == ["tls: this port requires TLS"]
    told, logged = refused(SERVER, with_tls(certs, Role.CLIENT, "client"))
    assert (told.reason.why, told.reason.by_peer) == (Why.TLS, True)
    assert told.reason.message == "this port does not speak TLS"
    assert logged == ["tls: this port does not speak TLS"]


def test_an_older_tls_is_refused(certs: Path) -> None:
    old = Tls.load(certs, Role.CLIENT, "client")
    old.connector.minimum_version = ssl.TLSVersion.TLSv1_2
    old.connector.maximum_version = ssl.TLSVersion.TLSv1_2
    told, logged = refused(with_tls(certs, Role.HOST, "server"), ConnectionSettings(CLIENT.identity, tls=old))
    assert told.reason.why is Why.TLS
    assert logged == ["tls: the peer does not speak TLS 1.3"]


def test_damaged_records_end_that_connection_only(certs: Path) -> None:
    """Garbage inside a TLS handshake, or silence in it, does not affect other connections."""

    async def main(world: World) -> None:
        server = await world.serve(lambda _: Echo(), with_tls(certs, Role.HOST, "server"))
        kept = Kept()
        neighbour = await world.connect(server, lambda _: kept, with_tls(certs, Role.CLIENT, "client"))
        bad = await world.raw(server)
        with logged() as logs:
            bad.writer.write(b"\x16\x03\x01\x00\x20" + b"\xff" * 32)
            await bad.reader.read(-1)
        assert [entry["event"] for entry in logs] == ["connection ended"]
        assert logs[0]["reason"].startswith("tls: ")
        neighbour.send(Kind.STATUS_REQUEST, b"still here")
        await kept.frames_come(1)

    run(main)


@pytest.mark.parametrize("missing", ["ca.pem", "host-server.pem", "host-server.key"])
def test_missing_files_are_named(certs: Path, tmp_path: Path, missing: str) -> None:
    for file in certs.iterdir():
        if file.name != missing:
            (tmp_path / file.name).write_bytes(file.read_bytes())
    with pytest.raises(InvalidRequest, match=missing):
        Tls.load(tmp_path, Role.HOST, "server")


def test_a_key_of_another_certificate_is_refused(certs: Path, tmp_path: Path) -> None:
    files = {"ca.pem": "ca.pem", "host-server.pem": "host-server.pem", "host-server.key": "host-other.key"}
    for name, source in files.items():
        (tmp_path / name).write_bytes((certs / source).read_bytes())
    with pytest.raises(InvalidRequest, match="host-server"):
        Tls.load(tmp_path, Role.HOST, "server")


def test_a_refusal_names_both_ends(certs: Path) -> None:
    """Whoever reads the log of either end knows which two processes did not come together, and why."""
    agents_only = with_tls(certs, Role.HOST, "server", expected=Expected(roles=frozenset({Role.AGENT})))
    told, logged = refused(agents_only, with_tls(certs, Role.CLIENT, "client"))
    for text in (str(told), logged[0]):
        assert "host server refuses client client: role client is not admitted here" in text
    told, _ = refused(with_tls(certs, Role.HOST, "server"), with_tls(certs, Role.CLIENT, "expired"))
    assert str(told).startswith(f"client expired to {told.where}: ")


def test_a_host_that_says_it_is_elsewhere_is_refused(tmp_path: Path) -> None:
    """Members are placed in different locations: a host must not be able to invent one."""
    create_domain(tmp_path, "test", NOW)
    issue(tmp_path, Role.HOST, "server", NOW, location="rack1/m1")
    issue(tmp_path, Role.HOST, "other", NOW, location="rack1/m2")
    server = with_tls(tmp_path, Role.HOST, "server")
    at_home = with_tls(tmp_path, Role.HOST, "other", expected=Expected(location="rack1/m1"))

    async def main(world: World) -> None:
        await world.connect(await world.serve(lambda _: Echo(), server), endpoint=at_home)

    run(main)
    elsewhere = with_tls(tmp_path, Role.HOST, "other", expected=Expected(location="rack2/m1"))
    told, logged = refused(server, elsewhere)
    for text in (str(told), logged[0]):
        assert "its certificate is for location 'rack1/m1', and it says that it is at 'rack2/m1'" in text


QUICKLY = Rotation(look_s=0.01, renew_s=0.02, outdated_s=0.2)


def test_new_files_are_used_without_a_restart(tmp_path: Path) -> None:
    """The end whose files were replaced connects again; the other closes, in time, what it accepted with old
    files. A key whose certificate has not come yet changes nothing."""
    create_domain(tmp_path, "test", NOW)
    issue(tmp_path, Role.HOST, "server", NOW)
    issue(tmp_path, Role.CLIENT, "client", NOW)

    def endpoint(role: Role, id: str) -> ConnectionSettings:
        return ConnectionSettings(PeerIdentity("test", role, id), tls=Tls.load(tmp_path, role, id, QUICKLY))

    async def main(world: World) -> None:
        server = await world.serve(lambda _: Echo(), endpoint(Role.HOST, "server"))
        kept: list[Kept] = []

        def on_up(_: object) -> Kept:
            kept.append(Kept())
            return kept[-1]

        link = Link("peer", lambda: server.address, on_up, endpoint(Role.CLIENT, "client"), random=Random(1))
        try:
            await _until(lambda: len(kept) == 1)
            key, certificate = tmp_path / "client-client.key", tmp_path / "client-client.pem"
            old = certificate.read_bytes()
            issue(tmp_path, Role.CLIENT, "client", NOW, renew=True)
            new = certificate.read_bytes()
            await _until(lambda: len(kept) == 2 and link.connection is not None)
            certificate.write_bytes(old)  # it does not fit the key
            await asyncio.sleep(0.1)
            assert link.connection is not None
            assert len(kept) == 2
            certificate.write_bytes(new)
            key.touch()
            await _until(lambda: len(kept) > 2 and link.connection is not None)
            await asyncio.sleep(0.1)  # the client has no other reason to connect again
            before = len(kept)
            issue(tmp_path, Role.HOST, "server", NOW, renew=True)
            await _until(lambda: len(kept) > before and link.connection is not None)
            assert {reason.why for each in kept for reason in each.closed} == {Why.DONE}
        finally:
            await link.close()

    run(main)


def test_certificates_that_cannot_be_read_for_a_moment_are_tried_again(tmp_path: Path) -> None:
    """A directory that is being replaced, or a full table of files, ends no process: the old ones stay in
    use, and the new ones are used as soon as they can be read."""
    certs, away = tmp_path / "certs", tmp_path / "away"
    create_domain(certs, "test", NOW)
    issue(certs, Role.HOST, "server", NOW)
    tls = Tls.load(certs, Role.HOST, "server", Rotation(look_s=0.0))
    before, generation = tls.acceptor, tls.generation
    issue(certs, Role.HOST, "server", NOW, renew=True)
    certs.rename(away)
    for _ in range(3):
        assert tls.acceptor is before
        assert tls.connector is not None
        assert tls.generation == generation
    away.rename(certs)
    assert tls.generation == generation + 1
    assert tls.acceptor is not before


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.005)


def test_ipv6_is_as_good(certs: Path) -> None:
    async def main(world: World) -> None:
        server = await serve(
            Address("::1", 0), lambda _: Echo(), with_tls(certs, Role.HOST, "server"), admits=EVERYBODY
        )
        world.servers.append(server)
        address = Address.parse(str(server.address))
        assert str(address).startswith("[::1]:")
        connection = await world.connect(address, endpoint=with_tls(certs, Role.CLIENT, "client"))
        assert connection.peer.id == "server"

    run(main)
