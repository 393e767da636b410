"""Masters of a directory on machines of their own, whose network is cut between them: not by our own order to
stop replication, but by a router that drops packets."""

import asyncio
import gc
import secrets
import ssl
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from directory_masters import ISSUED, SUCCESS, SUFFIX, Masters, Writer, wait_until
from faults.machine import require_tun
from spread_domain import AUTHORITY, CALLERS, HOSTS, MACHINES, SpreadDomain

from holdfast.cli import hosts
from holdfast.cli.directory.masters import ask, masters_at, reachable
from holdfast.demo.network.internet import Internet
from holdfast.directory.hosting.orders import FoundDirectory, OrderDone
from holdfast.directory.replica.passwords import hashed
from holdfast.model.errors import HoldfastError
from holdfast.net import Role

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import ldap3

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

PASSWORD = "secret of this test"
A, B, C = HOSTS

Fault = Callable[[Internet], None]


def alone(net: Internet) -> None:
    """C hears neither A nor B, nor they it."""
    net.cut(C, A)
    net.cut(C, B)


def deaf(net: Internet) -> None:
    """What A and C send to B vanishes; what B sends arrives."""
    net.cut(A, B, one_way=True)
    net.cut(C, B, one_way=True)


def without_authority(net: Internet) -> None:
    """B hears its peers and its clients, and no authority."""
    net.cut(B, AUTHORITY)


def flapping(net: Internet) -> None:
    net.flap(A, B, up_ms=300, down_ms=300)
    net.cut(A, C)


FAULTS = (alone, deaf, without_authority, flapping)


class SpreadMasters(Masters):
    """The directory of a spread domain, as clients on the callers' machine use it."""

    def __init__(self, domain: SpreadDomain) -> None:
        super().__init__(domain.layout(A).directory)
        self._domain = domain
        self.line = {"admin_dn": f"cn=admin,{SUFFIX}", "admin_password": PASSWORD, "masters": []}

    def found(self) -> None:
        """Begin the directory at A, and wait until all three serve it."""
        wait_until("all hosts answer", lambda: self._are_all(lambda each: bool(each["ldap"])))
        first = next(each for each in asyncio.run(masters_at(self._domain.layout(A))) if each.host == A)
        secret = hashed(PASSWORD.encode(), secrets.token_bytes(16))
        order = FoundDirectory(suffix=SUFFIX, secret=secret)
        asyncio.run(ask(reachable(first), self._domain.endpoint(Role.ADMIN), order, OrderDone, within_s=60))
        wait_until("all masters serve", lambda: all(self.may_write(each) for each in HOSTS))
        found = self.status()
        self.line["masters"] = [{"id": each, "ldap": found[each]["ldap"]} for each in HOSTS]

    def _are_all(self, holds: Callable[[dict[str, Any]], bool]) -> bool:
        try:
            found = self.status()
        except HoldfastError:
            return False
        return all(each in found and holds(found[each]) for each in HOSTS)

    def connect(self, id: str, *, as_admin: bool = True) -> ldap3.Connection:
        tls = ldap3.Tls(validate=ssl.CERT_NONE)
        server = ldap3.Server(f"ldap://{self.address(id)}", get_info=ldap3.NONE, tls=tls, connect_timeout=10)
        return ldap3.Connection(
            server,
            self.line["admin_dn"],
            PASSWORD,
            auto_bind=ldap3.AUTO_BIND_TLS_BEFORE_BIND,
            receive_timeout=30,
            auto_referrals=False,
        )

    def issued(self) -> list[tuple[str, str]]:
        texts = [self._domain.layout(each).output(each).read_text() for each in HOSTS]
        return [found.groups() for text in texts for found in ISSUED.finditer(text)]  # type: ignore[misc]


@pytest.fixture(autouse=True)
def leaked_sockets() -> Iterator[None]:
    """What ldap3 leaves open is collected here, and not within a test of someone else."""
    yield
    gc.collect()


@pytest.fixture(scope="module")
def domain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SpreadDomain]:
    require_tun()
    directory = tmp_path_factory.mktemp("spread")
    with Internet(MACHINES, seed=1) as net, SpreadDomain(net, directory) as made:
        for each in HOSTS:
            made.command(each, hosts.set_, host=each, roles="groups,directory", force=True)
        yield made


def test_masters_that_the_network_cuts_off_from_each_other_lose_nothing(
    domain: SpreadDomain, rounds: Callable[..., int]
) -> None:
    """Every master takes writes during every fault. Two that do not hear each other get each other's changes
    from a third; one that hears nobody gets them when the network is whole. All end equal, with every
    acknowledged change, and no CSN names two changes."""
    domain.net.inside(CALLERS, lambda: _work(domain, rounds(short=1, long=25)))


def _work(domain: SpreadDomain, turns: int) -> None:
    net, masters = domain.net, SpreadMasters(domain)
    masters.found()
    with masters.connect(A) as connection:
        net.cut(A, B)
        assert masters.add(connection, "by-way-of-c") == SUCCESS
        wait_until("B has it from C", lambda: masters.has(B, {"by-way-of-c"}))
        net.heal()
    acknowledged = {"by-way-of-c"}
    for turn in range(turns):
        for fault in FAULTS:
            writers = [
                Writer(masters, each, f"{fault.__name__}-{turn}-{each}", pause_s=0.02) for each in HOSTS
            ]
            fault(net)
            for each in writers:
                each.start()
            for each in writers:
                each.wait_for(5)
            if fault is alone:
                assert not masters.uids(C) & (writers[0].acknowledged | writers[1].acknowledged)
            net.heal()
            acknowledged |= set[str]().union(*(each.stop() for each in writers))
    masters.until_equal(acknowledged)
    issued = [csn for csn, _ in masters.issued()]
    assert len(issued) >= len(acknowledged) > 15 * len(FAULTS) * turns
    assert len(set(issued)) == len(issued)
