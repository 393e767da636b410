"""What strangers, squatters and limited clients can do to a domain that did not admit them."""

import asyncio
import contextlib
import json
import os
import resource
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from domain import WAIT_S, Domain, is_whole
from group_client import EXAMPLES, POLICY, Client, run

import holdfast as hf
from holdfast.agent.status_client import url_of
from holdfast.authority.recipe import Listing, perform
from holdfast.authority.remote import RemoteAuthority
from holdfast.authority.sessions import list_sessions
from holdfast.cli.admin import give_at
from holdfast.client.admin_client import AdminRefused
from holdfast.model.admin.groups import GroupHistory, ShowHistory
from holdfast.model.errors import HoldfastError, InvalidRequest, NoSuchGroup, Unavailable
from holdfast.net import Address, ConnectionSettings, Expected, Kind, PeerIdentity, Role
from holdfast.net.credentials import NONCE_BYTES
from holdfast.net.frame import HEADER
from holdfast.net.session import Session
from holdfast.node.endpoints import admin_endpoint
from holdfast.node.layout import Layout

pytestmark = pytest.mark.cluster

STRANGER = 65_534
MEMORY_BYTES_MAX = 300 << 20
FRAME_BYTES = 16 << 20
RULES = {"clients": {"shop": {"calls": {"books": ["deposit"]}}}}


@pytest.fixture(scope="module")
def domain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Domain]:
    """A domain with one group, whose http.json limits the client `shop`."""
    directory = tmp_path_factory.mktemp("walls") / "d"
    directory.mkdir(mode=0o700)
    (directory / "http.json").write_text(json.dumps(RULES))
    with Domain(directory, "--app", str(EXAMPLES)) as found:

        async def make(client: Client) -> None:
            await client.create("books")
            await client.create("other")
            await client.wait_in_sync("books")

        found.wait("every host hears every other", is_whole)
        run(found, make)
        yield found


async def heartbeat_addresses(layout: Layout) -> list[str]:
    description = layout.read()
    endpoint = admin_endpoint(layout, description)
    authority = RemoteAuthority(Address.parse(description.authority_address or ""), endpoint)
    try:
        listed = await perform(authority, list_sessions())
    finally:
        await authority.close()
    assert isinstance(listed, Listing)
    return [each.value.heartbeat_address for each in listed.items]


def test_another_user_of_the_machine_can_do_nothing(domain: Domain) -> None:
    """Whatever role it says that it is, at whatever port, over HTTP and in the domain's files."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    layout = Layout(domain.directory)
    description, status = layout.read(), domain.status()
    doors = {
        "host": [host["address"] for host in status["hosts"]],
        "heartbeats": asyncio.run(heartbeat_addresses(layout)),
        "agent": [description.agent_address],
        "authority": [description.authority_address],
    }
    http = [host["report"]["details"]["http"] for host in status["hosts"]]
    wanted = json.dumps({"domain": description.domain, "doors": doors, "http": http})
    program = [sys.executable, str(Path(__file__).with_name("stranger.py")), str(STRANGER)]
    done = subprocess.run(
        [*program, str(layout.directory), wanted], capture_output=True, text=True, timeout=WAIT_S, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(found) == 8 * (5 + 1) + 3 * 3 + 2
    assert set(found.values()) <= {"secret", "refused", "401", "denied"}, found
    assert {value for name, value in found.items() if "as client" in name and "host" in name} == {"secret"}


def test_a_client_with_a_key_does_what_its_rules_allow_and_nothing_else(domain: Domain) -> None:
    """The rules of http.json hold at the native door, for that client only, and the audit names who ordered
    what."""
    layout = Layout(domain.directory)
    url = asyncio.run(url_of(layout, layout.read()))
    shop, stranger = (domain.run("key", name).stdout.strip() for name in ("shop", "stranger"))

    async def work() -> None:
        async with hf.connect(url, key=shop, policy=POLICY) as client:
            books = await client.group("books")
            assert await books.deposit("shop", 5) == 5
            with pytest.raises(HoldfastError, match="client shop may not call balance of group 'books'"):
                await books.balance("shop")
            with pytest.raises(NoSuchGroup, match="that client shop may call"):
                await client.group("other")
            with pytest.raises(AdminRefused, match="that is for grade admin; client shop has client"):
                await client.delete("books")
            with pytest.raises(AdminRefused, match="that is for grade reader"):
                await client.groups()
        with pytest.raises(Unavailable, match=r"http\.json names clients, and stranger is not among them"):
            async with hf.connect(url, key=stranger, policy=hf.CallPolicy(duration_ns=1_000_000_000)):
                pass
        with pytest.raises(InvalidRequest, match="the key is of client 'shop'"):
            hf.connect(url, key=shop, name="admin")
        async with hf.connect(url, dir=domain.directory, name="owner", policy=POLICY) as own:
            await own.create("ledger:Ledger", name="short-lived")
            await own.delete("short-lived")

    asyncio.run(work())
    said = "".join(layout.output(host).read_text() for host in layout.read().hosts)
    for action in ("create_group", "delete_group"):
        (line,) = (each for each in said.splitlines() if action in each and "short-lived" in each)
        assert "native" in line
        assert "client owner" in line


# --- squatters


def connected(address: Address) -> socket.socket:
    return socket.create_connection((address.host, address.port), timeout=WAIT_S)


def opened(address: Address, layout: Layout, name: str) -> socket.socket:
    """The connection of a client that has proved itself and then asks for nothing."""
    description = layout.read()
    endpoint = ConnectionSettings(
        PeerIdentity(description.domain, Role.CLIENT, name), credentials=layout.secret(description.domain)
    )
    session = Session(
        endpoint.identity,
        is_connector=True,
        payload_bytes_max=FRAME_BYTES,
        idle_ms=600_000,
        expected=Expected(),
        credentials=endpoint.credentials,
        nonce=os.urandom(NONCE_BYTES),
    )
    wire = connected(address)
    while session.agreed is None:
        wire.sendall(session.take_output())
        session.receive(wire.recv(1 << 16))
        if session.reason is not None:
            wire.close()
            raise ConnectionRefusedError(str(session.reason))
    return wire


@contextlib.contextmanager
def squatting(layout: Layout, addresses: list[Address], each: int) -> Iterator[list[socket.socket]]:
    """*each* connections at every address, a third of each kind: silent, half a Hello, idle clients."""
    held: list[socket.socket] = []
    try:
        for number in range(each):
            for address in addresses:
                if number % 3 < 2:
                    wire = connected(address)
                    wire.send(b"\x00\x00\x00" * (number % 3))
                    held.append(wire)
                else:
                    with contextlib.suppress(OSError):
                        held.append(opened(address, layout, f"idle-{number}"))
        yield held
    finally:
        for wire in held:
            wire.close()


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()


def test_squatters_hold_up_no_failover(domain: Domain, rounds: Callable[..., int]) -> None:
    """Idle and half-open connections fill the places of strangers and clients. The primary is killed
    meanwhile; its agent's proof reaches the others, and the group goes on as without them."""
    layout = Layout(domain.directory)
    each = rounds(short=120, long=700)

    async def fail_over(client: Client) -> float:
        await client.wait_in_sync("books")
        books = await client.group("books")
        await books.deposit("alice", 1)
        pid = await client.pid((await client.info("books")).primary)
        began = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        await books.deposit("alice", 1)
        return time.monotonic() - began

    without_s = run(domain, fail_over)
    status = domain.wait("every host hears every other", is_whole)
    addresses = [Address.parse(host["address"]) for host in status["hosts"]]
    with squatting(layout, addresses, each):
        with_s = run(domain, fail_over)
        sizes = [resident_bytes(host["pid"]) for host in domain.status()["hosts"] if host["pid"]]
    assert max(sizes) <= MEMORY_BYTES_MAX
    history = asyncio.run(give_at(layout, ShowHistory(name="books"), GroupHistory))
    assert [view.why for view in history.views].count("dead") == 2
    print(f"failover {without_s:.3f} s without, {with_s:.3f} s with {3 * each} squatters")
    if each > 120:  # on a quiet machine, where times mean something
        assert with_s <= 2 * without_s + 0.1, (with_s, without_s)
    domain.wait("every host hears every other", is_whole)


def test_unfinished_frames_share_a_bounded_memory(domain: Domain) -> None:
    """More than a hundred clients announce the longest frame and send all of it but the last byte. The host
    reads what fits into its budget, and serves others meanwhile."""
    layout = Layout(domain.directory)
    status = domain.wait("every host hears every other", is_whole)
    host = status["hosts"][0]
    address = Address.parse(host["address"])
    with contextlib.ExitStack() as stack, selectors.DefaultSelector() as ready:
        left: dict[socket.socket, int] = {}
        for number in range(110):
            wire = stack.enter_context(opened(address, layout, f"long-{number % 50}"))
            wire.sendall(HEADER.pack(FRAME_BYTES, Kind.CALL))
            wire.setblocking(False)
            left[wire] = FRAME_BYTES - 1
            ready.register(wire, selectors.EVENT_WRITE)
        piece, deadline = bytes(1 << 18), time.monotonic() + WAIT_S
        while time.monotonic() < deadline and (writable := ready.select(timeout=1.0)):
            for key, _ in writable:
                wire = key.fileobj  # type: ignore[assignment]
                try:
                    left[wire] -= wire.send(piece[: left[wire]])
                except OSError:
                    left[wire] = 0  # it was told that there is no room
                if not left[wire]:
                    ready.unregister(wire)
        size = resident_bytes(host["pid"])
        assert size <= MEMORY_BYTES_MAX, f"{size >> 20} MiB"
        url = f"holdfast://{address}/{layout.read().domain}"

        async def call() -> None:
            async with hf.connect(url, dir=domain.directory, policy=POLICY) as client:
                assert await (await client.group("books")).deposit("bob", 1) >= 1

        asyncio.run(call())
