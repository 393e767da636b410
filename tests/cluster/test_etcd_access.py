"""A real etcd that asks for a certificate and a user: with what the domain's directory has, it serves."""

import asyncio
import json
import ssl
import time
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from etcd_cluster import EtcdCluster

from holdfast.authority.contract import Applied, Elsewhere, Get, Got, Listed, Put, Txn, Under, Unknown
from holdfast.authority.move.connecting import keep_access, open_etcd
from holdfast.authority.move.copying import list_all
from holdfast.authority.move.following import Places, perform_at
from holdfast.authority.move.mover import Moved, Mover
from holdfast.authority.move.place import EtcdSettings, Place, etcd_at, etcd_for, moved_to
from holdfast.authority.move.seat import read_seat
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import Nonce, Revision
from holdfast.net import Role
from holdfast.net.certificates import create_domain, issue

pytestmark = [pytest.mark.cluster, pytest.mark.etcd]

USER, PASSWORD = "holdfast", "correct horse"


class GuardedEtcd:
    """An etcd of one member with TLS and users. It asks nobody for a certificate: with users, its gateway
    takes only certificates without a common name, which a domain's are not."""

    def __init__(self, program: str, directory: Path) -> None:
        self.directory = directory
        self.certs = certs = directory / "certs"
        now = datetime.now(UTC)
        create_domain(certs, "test", now)
        issue(certs, Role.AUTHORITY, "etcd", now, addresses=("127.0.0.1",))
        issue(certs, Role.HOST, "a", now)
        options = (
            f"--cert-file={certs / 'authority-etcd.pem'}",
            f"--key-file={certs / 'authority-etcd.key'}",
            f"--trusted-ca-file={certs / 'ca.pem'}",
        )
        self.cluster = EtcdCluster(program, directory / "etcd", size=1, scheme="https", options=options)
        (self.endpoint,) = self.cluster.endpoints

    def start(self) -> None:
        self.cluster.start(is_answering=False)
        self._post("maintenance/status", {}, within_s=60)
        for user, password in (("root", "root"), (USER, PASSWORD)):
            self._post("auth/user/add", {"name": user, "password": password})
        self._post("auth/role/add", {"name": "root"})
        self._post("auth/user/grant", {"user": "root", "role": "root"})
        self._post("auth/role/add", {"name": USER})
        # Everything that begins with "ours": b64("ours") up to b64("ourt").
        allowed = {"permType": "READWRITE", "key": "b3Vycw==", "range_end": "b3VydA=="}
        self._post("auth/role/grant", {"name": USER, "perm": allowed})
        self._post("auth/user/grant", {"user": USER, "role": USER})
        self._post("auth/enable", {})

    def place(self, domain_directory: Path, *, user: str = USER, password: str = PASSWORD) -> Place:
        access = keep_access(
            domain_directory,
            name="x",
            prefix="ours/d",
            ca=self.certs / "ca.pem",
            certificate=self.certs / "host-a.pem",
            key=self.certs / "host-a.key",
            user=user,
            password=password,
        )
        return etcd_for("d", (self.endpoint,), access)

    def _post(self, path: str, body: dict[str, object], *, within_s: float = 60) -> None:
        context = ssl.create_default_context(cafile=str(self.certs / "ca.pem"))
        context.load_cert_chain(self.certs / "host-a.pem", self.certs / "host-a.key")
        request = urllib.request.Request(f"{self.endpoint}/v3/{path}", json.dumps(body).encode())
        deadline = time.monotonic() + within_s
        while True:
            try:
                urllib.request.urlopen(request, context=context, timeout=5).close()
                return
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)


@pytest.fixture(scope="module")
def guarded(etcd_program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedEtcd]:
    etcd = GuardedEtcd(etcd_program, tmp_path_factory.mktemp("guarded"))
    try:
        etcd.start()
        yield etcd
    finally:
        etcd.cluster.stop()


def settings(place: Place) -> EtcdSettings:
    assert place.etcd is not None
    return place.etcd


def test_an_etcd_with_tls_and_users_serves_below_its_prefix(guarded: GuardedEtcd, tmp_path: Path) -> None:
    """Reads, changes and the seat work with the user's token, also after etcd has forgotten it; what was kept
    is readable by its owner alone."""

    async def work() -> None:
        place = guarded.place(tmp_path)
        for kept in (tmp_path / "etcd" / "x").iterdir():
            assert kept.stat().st_mode & 0o077 == 0
        authority = open_etcd(settings(place), tmp_path)
        await authority.check()
        assert isinstance(await authority.ask(Txn((), (Put("k", b"1"),))), Applied)
        authority._gateway.client.headers["Authorization"] = "forgotten.1"
        found = await authority.ask(Get("k"))
        assert isinstance(found, Got)
        assert found.item is not None
        assert found.item.value == b"1"
        # Under a seat that this etcd does not have nothing is read or changed (A8).
        elsewhere = await authority.ask(Under(Revision(7), Txn((), (Put("k", b"2"),))))
        assert elsewhere == Elsewhere(None)
        await authority.close()

    asyncio.run(work())


def test_who_is_not_let_in_is_told_why(guarded: GuardedEtcd, tmp_path: Path) -> None:
    """A wrong password, a foreign prefix and a password that others can read are named before anything is
    done."""

    async def complaint(place: Place) -> str:
        authority = open_etcd(settings(place), tmp_path)
        try:
            with pytest.raises(InvalidRequest) as refused:
                await authority.check()
            return str(refused.value)
        finally:
            await authority.close()

    async def work() -> None:
        assert "authentication failed" in await complaint(guarded.place(tmp_path, password="wrong"))
        foreign = msgspec.structs.replace(settings(guarded.place(tmp_path)), prefix="no/")
        assert "permission denied" in await complaint(etcd_at(foreign))
        no_user = keep_access(
            tmp_path,
            name="y",
            prefix="ours/d",
            ca=guarded.certs / "ca.pem",
            certificate=guarded.certs / "host-a.pem",
            key=guarded.certs / "host-a.key",
        )
        authority = open_etcd(settings(etcd_for("d", (guarded.endpoint,), no_user)), tmp_path)
        assert isinstance(await authority.ask(Get("k")), Unknown)
        await authority.close()
        place = guarded.place(tmp_path)
        (tmp_path / settings(place).password_file).chmod(0o644)
        with pytest.raises(InvalidRequest, match="open to others"):
            open_etcd(settings(place), tmp_path)

    asyncio.run(work())


def test_everything_moves_from_one_etcd_to_the_next_stay(guarded: GuardedEtcd, tmp_path: Path) -> None:
    """The mover's recipe on a real etcd: the old prefix is sealed and points to the new, which has it all."""

    async def work() -> None:
        source = guarded.place(tmp_path)
        target = moved_to(source, 2)
        places = Places(lambda place: open_etcd(settings(place), tmp_path))
        for number in range(150):
            await places.ask(source, Txn((), (Put(f"many/{number}", b"x" * number),)))
        numbers = iter(range(1_000_000))
        mover = Mover(source, target, id="m", nonce=lambda: Nonce(str(next(numbers))), now=time.monotonic_ns)
        ended = await perform_at(places, mover.run())
        assert isinstance(ended, Moved)
        assert ended.copied is not None
        assert ended.copied.keys >= 150
        sealed = await perform_at(places, read_seat(source))
        assert (sealed.seat.state, sealed.seat.other) == ("sealed", target)
        refused = await places.ask(source, Txn((), (Put("many/0", b"late"),)))
        assert isinstance(refused, Elsewhere)
        arrived = await perform_at(places, list_all(ended.seen))
        assert arrived["many/149"].value == b"x" * 149
        assert not isinstance(await places.ask(source, Get("many/0")), Got | Listed)
        await places.leave_all_but(None)

    asyncio.run(work())
