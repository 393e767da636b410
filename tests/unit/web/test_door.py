"""The HTTP door of a starting host: where it is, when it stays closed, and what it answers meanwhile."""

import asyncio
import datetime
import socket
import ssl
from collections.abc import Awaitable, Callable
from hashlib import sha256
from pathlib import Path

import httpx
import msgspec
import pytest

from holdfast.model.ids import HostId
from holdfast.net import Role
from holdfast.net.certificates import create_domain, issue
from holdfast.net.tls import Rotation
from holdfast.node.layout import Layout
from holdfast.web.door import ADDRESS, HttpDoor
from holdfast.web.settings import FILE, Client, HttpSettings

HOST = HostId("host1")
TOKEN = sha256(b"secret").hexdigest()


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    made = Layout(tmp_path)
    made.host(HOST).mkdir(parents=True)
    return made


def opened(
    layout: Layout,
    settings: HttpSettings | None = None,
    work: Callable[[str], Awaitable[object]] | None = None,
) -> dict[str, str]:
    """What the session would say of the door; *work* runs while it is open."""
    if settings is not None:
        (layout.directory / FILE).write_bytes(msgspec.json.encode(settings))

    async def run() -> dict[str, str]:
        door = HttpDoor(layout, "main", HOST, rotation=Rotation(look_s=0.0))
        turns = asyncio.create_task(_turn(door))
        try:
            details = dict(await door.open())
            await door.settle()
            if work is not None:
                await work(details["http"])
            return details
        finally:
            turns.cancel()
            await door.close()

    return asyncio.run(run())


async def _turn(door: HttpDoor) -> None:
    """What the host's loop does for its doors."""
    while True:
        door.on_turn(0)
        await asyncio.sleep(0.02)


def test_a_door_is_on_loopback_and_stays_where_it_was(layout: Layout) -> None:
    """Clients are given its address once, and a host is started many times."""
    first = opened(layout)
    assert first["http"].startswith("http://127.0.0.1:")
    assert opened(layout) == first


def test_nothing_is_written_before_the_heart_watches_over_the_disk(layout: Layout) -> None:
    """A hanging disk would hang the host without being noticed (K3)."""

    async def run() -> None:
        door = HttpDoor(layout, "main", HOST)
        try:
            await door.open()
            assert list(layout.host(HOST).iterdir()) == []
            await door.settle()
            assert [each.name for each in layout.host(HOST).iterdir()] == [ADDRESS]
        finally:
            await door.close()

    asyncio.run(run())


def test_another_may_have_taken_its_place(layout: Layout) -> None:
    """Then the door listens elsewhere, and the session says where."""
    port = int(opened(layout)["http"].rpartition(":")[2])
    with socket.create_server(("127.0.0.1", port)):
        assert opened(layout)["http"] != f"http://127.0.0.1:{port}"


def test_no_door_at_all_can_be_asked_for(layout: Layout) -> None:
    assert opened(layout, HttpSettings(listen="")) == {}


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (HttpSettings(listen="0.0.0.0:0"), "is not on this machine"),
        (HttpSettings(certs="nowhere"), "holdfast certs"),
        (HttpSettings(listen="127.0.0.1:{taken}"), "cannot listen"),
    ],
)
def test_a_door_that_must_not_open_stays_shut_and_ends_nothing(
    layout: Layout, settings: HttpSettings, why: str
) -> None:
    """The host goes on without it, and `holdfast status` says why."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        settings = msgspec.structs.replace(settings, listen=settings.listen.replace("{taken}", str(port)))
        details = opened(layout, settings)
    assert list(details) == ["http_problem"]
    assert why in details["http_problem"]


def test_the_settings_say_who_comes_in(layout: Layout) -> None:
    """A token admits; without one, settings may refuse callers on this machine; over TLS as well."""
    now = datetime.datetime.now(datetime.UTC)
    certs = layout.directory / "certs"
    create_domain(certs, "main", now)
    issue(certs, Role.HOST, HOST, now, addresses=("127.0.0.1",))
    settings = HttpSettings(loopback="nobody", certs="certs", clients={"shop": Client(token_sha256=TOKEN)})
    statuses: list[int] = []

    async def work(url: str) -> None:
        trusted = ssl.create_default_context(cafile=certs / "ca.pem")
        async with httpx.AsyncClient(verify=trusted, trust_env=False, timeout=60) as client:
            for token in ("secret", "other"):
                headers = {"authorization": f"Bearer {token}"}
                statuses.append((await client.get(f"{url}/v1/groups", headers=headers)).status_code)
            statuses.append((await client.get(f"{url}/v1/groups")).status_code)

    assert opened(layout, settings, work)["http"].startswith("https://127.0.0.1:")
    assert statuses == [503, 401, 401]  # 503: admitted, and the host is still starting


def test_an_authority_that_was_removed_is_trusted_no_more(layout: Layout, tmp_path: Path) -> None:
    """Neither by a new connection nor by one that was let in before; nothing is restarted."""
    now = datetime.datetime.now(datetime.UTC)
    certs, later = layout.directory / "certs", tmp_path / "later"
    for each in (certs, later):
        create_domain(each, "main", now)
        issue(each, Role.HOST, HOST, now, addresses=("127.0.0.1",))
        issue(each, Role.CLIENT, "card", now)
    settings = HttpSettings(loopback="nobody", certs="certs", clients={"card": Client()})

    def trusting(mine: Path) -> ssl.SSLContext:
        found = ssl.create_default_context(cafile=later / "both.pem")
        found.load_cert_chain(mine / "client-card.pem", mine / "client-card.key")
        return found

    async def status(client: httpx.AsyncClient, url: str) -> int | None:
        try:
            return (await client.get(f"{url}/v1/groups")).status_code
        except httpx.TransportError:
            return None

    async def work(url: str) -> None:
        options = {"trust_env": False, "timeout": 60}
        async with (
            httpx.AsyncClient(verify=trusting(kept), **options) as old,
            httpx.AsyncClient(verify=trusting(later), **options) as new,
        ):
            assert (await status(old, url), await status(new, url)) == (503, None)
            for name in ("ca.pem", f"host-{HOST}.key", f"host-{HOST}.pem"):
                (certs / name).write_bytes((later / name).read_bytes())
            async with asyncio.timeout(60):
                while await status(new, url) != 503 or await status(old, url) is not None:
                    await asyncio.sleep(0.02)

    kept = tmp_path / "kept"
    kept.mkdir()
    for name in ("client-card.pem", "client-card.key"):
        (kept / name).write_bytes((certs / name).read_bytes())
    (later / "both.pem").write_bytes((certs / "ca.pem").read_bytes() + (later / "ca.pem").read_bytes())
    opened(layout, settings, work)
