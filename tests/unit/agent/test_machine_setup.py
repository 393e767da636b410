"""What a machine of a domain on several is, as `machine init` and `machine set` make it."""

import asyncio
import datetime
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from holdfast.agent import machine_setup
from holdfast.agent.agent import dangers
from holdfast.agent.machine_setup import (
    DomainUrl,
    changed,
    found_or_join,
    has_left,
    listening,
    new_machine,
    strike_out,
)
from holdfast.authority.contract import Request, Result, Txn, Unknown
from holdfast.authority.sqlite import SqliteStore
from holdfast.cli import hosts as host_commands
from holdfast.cli import machine as machine_commands
from holdfast.model.errors import InvalidRequest, Rejected, Unavailable
from holdfast.model.ids import HostId
from holdfast.net import Address, Role
from holdfast.net.certificates import create_domain, issue, issue_machine
from holdfast.node.endpoints import host_endpoint
from holdfast.node.layout import Description, Layout

NOW = datetime.datetime.now(datetime.UTC)
URL = "holdfast://10.0.0.1:7401/shop"


@pytest.fixture(scope="module")
def certs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Those of the machine m1, which has the authority."""
    made = tmp_path_factory.mktemp("certs")
    create_domain(made / "ca", "shop", NOW)
    issue_machine(
        made / "ca", "m1", NOW, to=made / "m1", hosts=["m1"], location="rack1/m1", with_authority=True
    )
    return made / "m1"


def machine(**options: object) -> Description:
    given = {"listen": "10.0.0.1", "location": "rack1/m1", "insecure": True} | options
    return new_machine(URL, **given)  # type: ignore[arg-type]  # each test gives what it is about


def test_the_machine_that_the_url_names_has_the_authority(certs: Path) -> None:
    first = machine(certs=certs, insecure=False)
    assert (first.machine, first.agent, first.hosts) == ("m1", "m1", ("m1",))
    assert first.authority_listens == Address("10.0.0.1", 7401)
    assert first.agent_address == "10.0.0.1:7400"
    other = machine(listen="10.0.0.2:17400", location="rack1/m2", hosts=2)
    assert other.authority_listens is None
    assert other.hosts == ("m2-1", "m2-2")
    assert other.authority_address == "10.0.0.1:7401"


def test_an_advertised_address_is_what_others_are_told() -> None:
    """Behind a translation, or listening everywhere, a machine is reached elsewhere than it listens."""
    behind = machine(listen="0.0.0.0", advertise="m1.example", location="rack1/m1")
    assert behind.reached(Address("0.0.0.0", 5)) == Address("m1.example", 5)
    assert behind.own_agent == "127.0.0.1:7400"
    with pytest.raises(InvalidRequest, match="must advertise"):
        machine(listen="0.0.0.0")


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("10.0.0.2", Address("10.0.0.2", 7400)),
        ("10.0.0.2:1", Address("10.0.0.2", 1)),
        ("[fd00::2]", Address("fd00::2", 7400)),
        ("[fd00::2]:1", Address("fd00::2", 1)),
        ("m2.example", Address("m2.example", 7400)),
    ],
)
def test_names_and_addresses_of_both_kinds(text: str, address: Address) -> None:
    assert listening(text) == address


@pytest.mark.parametrize("text", ["fd00::2", "", ":1", "a:b"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        listening(text)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "shop",
        "http://a:1/shop",
        "holdfast://a:1",
        "holdfast://a/shop",
        "holdfast://a:1,b:2/shop",
        "etcd://a:1/",
    ],
)
def test_a_url_that_names_no_authority_is_refused(url: str) -> None:
    with pytest.raises(InvalidRequest):
        DomainUrl.parse(url)


def test_etcd_is_named_by_its_endpoints() -> None:
    found = DomainUrl.parse("etcd://a:2379,[fd00::1]:2379/shop")
    assert (found.domain, found.authority) == ("shop", None)
    assert found.etcd == ("http://a:2379", "http://[fd00::1]:2379")


def test_plain_tcp_beyond_loopback_must_be_asked_for() -> None:
    with pytest.raises(InvalidRequest, match=r"10\.0\.0\.1, beyond this machine: it needs certificates"):
        machine(insecure=False)
    assert any("INSECURE" in each for each in dangers(machine()))
    alone = new_machine("holdfast://127.0.0.1:7401/shop", listen="127.0.0.1", location="rack1/m1")
    assert alone.hosts == ("m1",)


def test_a_machine_must_be_where_others_find_it() -> None:
    """Otherwise it joins, its hosts live, and no host of another machine ever reaches them."""
    for loopback in ("localhost", "127.0.0.2:7400", "[::1]"):
        with pytest.raises(
            InvalidRequest, match=r"and find themselves; the authority is at 10\.0\.0\.1:7401"
        ):
            machine(listen=loopback)
    assert machine(listen="localhost", advertise="m1.example").advertise == "m1.example"
    for options in ({"listen": "10.0.0.2:0"}, {"listen": "0.0.0.0:0", "advertise": "m1.example"}):
        with pytest.raises(InvalidRequest, match="needs a port that others can know, not 0"):
            machine(**options)
    with pytest.raises(InvalidRequest, match=r"the authority is at 10\.0\.0\.1:0: it needs a port"):
        changed(machine(), url="holdfast://10.0.0.1:0/shop")


def test_certificates_that_nobody_would_take_are_refused(tmp_path: Path) -> None:
    """They are loaded without a complaint; peers refuse them, so that the machine would wait in vain."""
    create_domain(tmp_path / "ca", "shop", NOW)
    create_domain(tmp_path / "other", "shop", NOW)
    here = {"hosts": ["m1"], "location": "rack1/m1", "with_authority": True}
    long_ago = NOW - datetime.timedelta(days=9)
    issue_machine(tmp_path / "ca", "m1", long_ago, to=tmp_path / "old", days=5, **here)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest, match=r"agent-m1\.pem is refused by .*: certificate has expired"):
        machine(certs=tmp_path / "old", insecure=False)
    issue_machine(tmp_path / "ca", "m1", NOW, to=tmp_path / "m1", **here)  # type: ignore[arg-type]
    assert machine(certs=tmp_path / "m1", insecure=False).machine == "m1"
    (tmp_path / "m1" / "ca.pem").write_bytes((tmp_path / "other" / "ca.pem").read_bytes())
    with pytest.raises(InvalidRequest, match=r"agent-m1\.pem is refused by whoever has the same ca\.pem: "):
        machine(certs=tmp_path / "m1", insecure=False)


def test_the_loss_of_an_embedded_authority_is_said_and_the_way_out() -> None:
    (said,) = dangers(msgspec.structs.replace(machine(), insecure=False))
    assert "if its disk is lost the domain is lost" in said
    assert "etcd" in said
    assert not dangers(msgspec.structs.replace(machine(), insecure=False, authority_address=None))


def test_certificates_must_be_this_machines(certs: Path, tmp_path: Path) -> None:
    """One clear reason each: of another domain, for another location, for another host, missing."""
    with pytest.raises(
        InvalidRequest, match=r"is for location 'rack1/m1', and this machine .* at 'rack2/m1'"
    ):
        machine(certs=certs, location="rack2/m1")
    with pytest.raises(InvalidRequest, match=r"no agent-m2\.pem"):
        machine(certs=certs, location="rack1/m2")
    create_domain(tmp_path / "ca", "other", NOW)
    issue_machine(
        tmp_path / "ca", "m1", NOW, to=tmp_path / "m1", hosts=["m1"], location="rack1/m1", with_authority=True
    )
    with pytest.raises(InvalidRequest, match="of domain 'other': needed is one of agent m1 of domain 'shop'"):
        machine(certs=tmp_path / "m1")
    with pytest.raises(InvalidRequest, match=r"no host-m9\.pem"):
        host_endpoint(None, machine(certs=certs), HostId("m9"))


def test_a_machine_that_moves_keeps_its_hosts_and_takes_its_authority_along() -> None:
    before = machine()
    after = changed(before, listen="10.9.9.9")
    assert (after.hosts, after.token, after.machine) == (before.hosts, before.token, before.machine)
    assert (after.agent_address, after.authority_address) == ("10.9.9.9:7400", "10.9.9.9:7401")
    assert after.authority_listens == Address("10.9.9.9", 7401)
    other = machine(listen="10.0.0.2", location="rack1/m2")
    told = changed(other, url="holdfast://10.9.9.9:7401/shop")
    assert (told.authority_address, told.authority_listens) == ("10.9.9.9:7401", None)
    with pytest.raises(InvalidRequest, match="is not on this machine"):
        changed(other, url="holdfast://10.0.0.2:7401/shop")
    with pytest.raises(InvalidRequest, match="is of domain shop, not of cafe"):
        changed(other, url="holdfast://10.9.9.9:7401/cafe")


def test_a_domain_on_one_machine_becomes_the_first_of_several() -> None:
    alone = Description(
        domain="d", hosts=(HostId("host1"),), agent_address="127.0.0.1:1", authority_address="127.0.0.1:2"
    )
    with pytest.raises(InvalidRequest, match="--name"):
        changed(alone, listen="10.0.0.1")
    grown = changed(alone, name="m1", listen="10.0.0.1", location="rack1/m1", insecure=True)
    assert (grown.machine, grown.agent, grown.hosts) == ("m1", "m1", ("host1",))
    assert grown.authority_address == "10.0.0.1:2"
    assert grown.token


class StoreAuthority:
    """The authority of a domain in this process; it may do what it is asked and never say so."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self.backend = None
        self.falls_silent = False
        """Whether it answers nothing more from the next change on, which it makes."""
        self._is_silent = False

    async def ask(self, request: Request) -> Result:
        (result,) = self._store.apply([request], 0)
        self._is_silent = self.falls_silent and (self._is_silent or isinstance(request, Txn))
        return Unknown("the answer was lost") if self._is_silent else result


def test_a_join_whose_answer_was_lost_is_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine is known to the domain by a token that nobody else has: another try must have it too."""
    store = SqliteStore(str(tmp_path / "authority"), now_ns=0, new_id="a")
    authority, layout = StoreAuthority(store), Layout(tmp_path / "machine")

    @asynccontextmanager
    async def reached(*_: object) -> AsyncIterator[StoreAuthority]:
        yield authority

    monkeypatch.setattr(machine_setup, "authority_of", reached)
    monkeypatch.setattr(machine_setup, "AUTHORITY_S", 0.3)

    def init() -> None:
        described = new_machine(
            "holdfast://127.0.0.2:7000/main", listen="127.0.0.3", location="rack1/m2", app=tmp_path
        )
        asyncio.run(found_or_join(layout, described))

    authority.falls_silent = True
    with pytest.raises(Unavailable, match="did not answer"):
        init()
    assert not layout.exists
    authority.falls_silent = False
    init()
    assert layout.read().machine == "m2"
    assert layout.joining("m2", "main") is None
    with pytest.raises(InvalidRequest, match="holds a domain already"):
        init()
    other = Layout(tmp_path / "other")
    layout = other
    with pytest.raises(Rejected, match="has a machine m2"):
        init()
    assert not other.exists
    assert other.joining("m2", "main") is None
    store.close()


def test_whether_a_machine_has_left_is_said_by_the_authority(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SqliteStore(str(tmp_path / "authority"), now_ns=0, new_id="a")
    authority, layout = StoreAuthority(store), Layout(tmp_path / "machine")

    @asynccontextmanager
    async def reached(*_: object) -> AsyncIterator[StoreAuthority]:
        yield authority

    monkeypatch.setattr(machine_setup, "authority_of", reached)
    described = new_machine(
        "holdfast://127.0.0.2:7000/main", listen="127.0.0.3", location="rack1/m2", app=tmp_path
    )
    assert not asyncio.run(has_left(layout, described))
    asyncio.run(found_or_join(layout, described))
    assert not asyncio.run(has_left(layout, described))
    asyncio.run(strike_out(layout, described, "m2"))
    assert asyncio.run(has_left(layout, described))
    store.close()


def test_plain_tcp_is_not_for_a_machine_with_certificates(certs: Path) -> None:
    """TLS would be used all the same, and `status` would say in red that it is not."""
    known = new_machine(URL, listen="10.0.0.1", location="rack1/m1", certs=certs)
    with pytest.raises(InvalidRequest, match="--insecure is for one without"):
        changed(known, insecure=True)
    with pytest.raises(InvalidRequest, match="--insecure is for one without"):
        changed(machine(), certs=certs, insecure=True)
    assert not changed(machine(), certs=certs).insecure
    assert changed(known, insecure=False).certs


def test_a_directory_that_has_a_domain_is_refused_before_anybody_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asks from there follows the authority of that domain, and could write down another one."""
    asked: list[str] = []

    async def never(*_: object) -> None:
        asked.append("the authority")

    monkeypatch.setattr(machine_commands, "_take_names_back", never)
    layout = Layout(tmp_path / "d")
    layout.begin_joining(known := machine())
    layout.write(known)
    with pytest.raises(InvalidRequest, match="holds a domain already"):
        machine_commands.init(
            domain=URL, listen="10.0.0.2", location="m2", insecure=True, app=tmp_path, dir=layout.directory
        )
    assert not asked


def test_without_certificates_the_secret_must_come_from_another_machine(tmp_path: Path) -> None:
    """A secret made here would be another one: the machine would be refused everywhere, or let in nobody."""
    with pytest.raises(InvalidRequest, match="copy the file secret"):
        machine_commands.init(
            domain="holdfast://127.0.0.2:7000/main",
            listen="127.0.0.3",
            location="rack1/m2",
            app=tmp_path,
            dir=tmp_path / "machine",
        )
    assert not (tmp_path / "machine" / "secret").exists()


def test_a_host_is_added_only_with_its_certificate(tmp_path: Path) -> None:
    """Otherwise it would be added, and its process end again and again."""
    ca, certs, layout = tmp_path / "ca", tmp_path / "m1", Layout(tmp_path / "domain")
    create_domain(ca, "shop", NOW)
    issue_machine(ca, "m1", NOW, to=certs, hosts=["m1"], location="rack1/m1", with_authority=True)
    layout.write(new_machine(URL, listen="10.0.0.1", location="rack1/m1", certs=certs, app=tmp_path))
    before = layout.read()
    with pytest.raises(InvalidRequest, match=r"no host-m1-2\.pem"):
        host_commands.add("m1-2", dir=layout.directory)
    assert layout.read() == before
    issue(ca, Role.HOST, "m1-2", NOW, location="rack2/m1", to=certs)
    with pytest.raises(InvalidRequest, match="is for location 'rack2/m1'"):
        host_commands.add("m1-2", dir=layout.directory)
    assert layout.read() == before
    issue(ca, Role.HOST, "m1-2", NOW, location="rack1/m1", to=certs, renew=True)
    assert host_commands.add("m1-2", dir=layout.directory) == 0
    assert layout.read().hosts == ("m1", "m1-2")
