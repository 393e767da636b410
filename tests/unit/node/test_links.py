"""A host listens where it did before, if it can: clients find it again after all hosts were gone."""

import asyncio
import datetime
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

import pytest
from net_world import SECRET

from holdfast.authority.sessions import LOCATION, Session
from holdfast.model.errors import DiskFailed, Unavailable
from holdfast.model.ids import HostId, Incarnation, Nonce
from holdfast.net import (
    Address,
    Connection,
    ConnectionSettings,
    Kind,
    PeerIdentity,
    Reason,
    Receiver,
    Role,
    Server,
    Tls,
    serve,
)
from holdfast.net.certificates import create_domain, issue
from holdfast.net.handshake import HOST_ADMITS
from holdfast.node.links import ADDRESS, PORTS, PORTS_AHEAD, HostLinks, free_addresses, listen, remember

NOW = datetime.datetime.now(datetime.UTC)

ANY = Address("127.0.0.1", 0)


def nobody(_: Connection) -> Receiver:
    raise AssertionError("nobody connects")


async def listening(at: Address, directory: Path) -> Server:
    endpoint = ConnectionSettings(PeerIdentity("test", Role.HOST, "a", 1), credentials=SECRET)
    return await listen(at, directory, lambda address: serve(address, nobody, endpoint, admits=HOST_ADMITS))


def run(story: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(30):
            await story()

    asyncio.run(bounded())


def test_the_next_process_listens_where_the_last_one_did(tmp_path: Path) -> None:
    async def story() -> None:
        first = await listening(ANY, tmp_path)
        address = first.address
        assert address.port in PORTS
        remember(address, tmp_path)
        await first.close()
        second = await listening(ANY, tmp_path)
        assert second.address == address
        await second.close()

    run(story)


def test_where_another_listens_meanwhile_it_goes_elsewhere(tmp_path: Path) -> None:
    async def story() -> None:
        first = await listening(ANY, tmp_path)
        remember(first.address, tmp_path)
        second = await listening(ANY, tmp_path)
        assert second.address.port != first.address.port
        remember(second.address, tmp_path)
        assert (tmp_path / ADDRESS).read_text() == str(second.address)
        await first.close()
        await second.close()

    run(story)


def test_a_port_that_was_asked_for_is_the_only_one(tmp_path: Path) -> None:
    async def story() -> None:
        other = await listening(ANY, tmp_path)
        remember(other.address, tmp_path)
        await other.close()
        wanted = await listening(ANY, tmp_path / "elsewhere")
        with pytest.raises(Unavailable):
            await listening(wanted.address, tmp_path)
        await wanted.close()

    run(story)


@pytest.mark.parametrize("damage", [b"", b"nowhere", b"\xff\x00", b"127.0.0.1:99999"])
def test_a_damaged_memory_is_no_memory(tmp_path: Path, damage: bytes) -> None:
    async def story() -> None:
        (tmp_path / ADDRESS).write_bytes(damage)
        server = await listening(ANY, tmp_path)
        assert server.address.port in PORTS
        await server.close()

    run(story)


def test_a_disk_that_cannot_keep_the_address_has_failed(tmp_path: Path) -> None:
    """D1: otherwise the next user of the address would not learn of the failure."""
    (tmp_path / f"{ADDRESS}.{os.getpid()}.new").mkdir()
    with pytest.raises(DiskFailed, match=ADDRESS):
        remember(Address("127.0.0.1", 20_000), tmp_path)


def test_a_machine_that_has_moved_keeps_its_port(tmp_path: Path) -> None:
    """Whoever knows it by a name still finds it there."""

    async def story() -> None:
        first = await listening(ANY, tmp_path)
        port = first.address.port
        remember(first.address, tmp_path)
        await first.close()
        moved = await listening(Address("127.0.0.2", 0), tmp_path)
        assert moved.address == Address("127.0.0.2", port)
        await moved.close()

    run(story)


def test_a_host_must_be_where_its_session_says(tmp_path: Path) -> None:
    """The certificate says where a host is; one whose session says otherwise gets no messages of groups."""
    create_domain(tmp_path, "test", NOW)
    issue(tmp_path, Role.HOST, "a", NOW, location="rack1/m1")
    issue(tmp_path, Role.HOST, "b", NOW, location="rack1/m2")

    def endpoint(host: str) -> ConnectionSettings:
        tls = Tls.load(tmp_path, Role.HOST, host)
        return ConnectionSettings(PeerIdentity("test", Role.HOST, host, 1), tls=tls)

    async def story() -> None:
        heard: list[bytes] = []
        server = await serve(ANY, lambda _: Heard(heard), endpoint("b"), admits=HOST_ADMITS)
        links = HostLinks(HostId("a"), endpoint("a"), random=Random(1))
        for location, is_heard in (("rack9/m2", False), ("rack1/m2", True)):
            session = Session(
                host=HostId("b"),
                incarnation=Incarnation(1),
                address=str(server.address),
                nonce=Nonce("n"),
                details={LOCATION: location},
            )
            links.set_peers({HostId("b"): session})
            for _ in range(100):
                links.send_as(Kind.CONTROL, HostId("b"), "x")
                await asyncio.sleep(0.01)
                if heard and is_heard:
                    break
            assert bool(heard) is is_heard
        await links.close()
        await server.close()

    run(story)


class Heard:
    """Keeps what arrives."""

    def __init__(self, heard: list[bytes]) -> None:
        self._heard = heard

    def on_frame(self, connection: Connection, kind: Kind, payload: bytes) -> None:
        self._heard.append(payload)

    def on_closed(self, connection: Connection, reason: Reason) -> None:
        return None


def test_addresses_for_processes_to_come_are_free_and_nobody_elses() -> None:
    """Neither hosts nor outgoing connections are given such a port before its process listens there."""
    first_of_outgoing = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    found = [each.port for each in free_addresses("127.0.0.1", 3)]
    assert len(set(found)) == 3
    assert all(port in PORTS_AHEAD and port not in PORTS and port < first_of_outgoing for port in found)
    with socket.create_server(("127.0.0.1", found[0])):
        for _ in range(5):
            assert free_addresses("127.0.0.1", 1, among=found[:2]) == [Address("127.0.0.1", found[1])]
