"""Shipping on threads of its own: what a host does with it, from its own."""

from collections.abc import Iterator
from concurrent.futures import CancelledError
from pathlib import Path
from random import Random
from time import sleep

import pytest
from net_world import LOOPBACK, SECRET
from shipped_files import pattern

from holdfast.model.errors import HoldfastError, Unavailable
from holdfast.model.ids import Epoch, HostId, Position
from holdfast.model.ports import NoTrace
from holdfast.net import Address, ConnectionSettings, PeerIdentity, Role
from holdfast.shipping.checkout import check_out
from holdfast.shipping.fetch import ShippingConfig
from holdfast.shipping.manifest import Contents, describe
from holdfast.shipping.shipping_thread import ShippingSettings, ShippingThread
from holdfast.storage.disk import Directory

A, C = HostId("a"), HostId("c")
FILES = {"data.db": pattern(1_000_000), "log/1": pattern(90_000, salt=1)}
TIMEOUT_S = 60


class Hosts:
    """Two hosts, each with its shipping."""

    def __init__(self, tmp: Path) -> None:
        self.tmp = tmp
        self.addresses: dict[HostId, Address] = {}
        self.failures: list[HoldfastError] = []
        self.a, self.c = (self._made(host) for host in (A, C))

    def _made(self, host: HostId) -> ShippingThread:
        settings = ShippingSettings(
            directory=self.tmp / host,
            connection=ConnectionSettings(PeerIdentity("test", Role.HOST, host, 1), credentials=SECRET),
            where=self.addresses.get,
            on_failed=self.failures.append,
            listen_at=LOOPBACK,
            config=ShippingConfig(),
        )
        shipping = ShippingThread(settings, NoTrace(), random=Random(1))
        self.addresses[host] = shipping.start()
        return shipping


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    hosts = Hosts(tmp_path)
    yield hosts
    hosts.a.close()
    hosts.c.close()
    assert hosts.failures == []


@pytest.fixture
def contents(tmp_path: Path) -> Contents:
    for name, data in FILES.items():
        (tmp_path / "files" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "files" / name).write_bytes(data)
    return describe(
        Directory(tmp_path / "files"), sorted(FILES), subject="files", epoch=Epoch(1), position=Position(7)
    )


def test_files_get_from_one_host_to_another(hosts: Hosts, contents: Contents) -> None:
    hosts.a.offer(contents, hosts.tmp / "files")
    progress = hosts.c.fetch(contents, [A]).result(TIMEOUT_S)
    assert progress.received == contents.bytes
    assert hosts.c.holds(contents.id)
    check_out(contents, hosts.tmp / C, hosts.tmp / "out", is_shared=True)
    assert {name: (hosts.tmp / "out" / name).read_bytes() for name in FILES} == FILES
    source, target = hosts.a.status(), hosts.c.status()
    assert source.offered == (repr(contents),)
    assert source.sent_bytes == contents.bytes
    assert target.counting == (contents.id.hex(),)
    assert target.fetching is None
    assert hosts.a.unasked_s(contents.id) < TIMEOUT_S
    hosts.a.withdraw(contents.id)
    assert hosts.a.unasked_s(contents.id) == float("inf")


def test_a_fetch_can_be_watched_and_given_up(hosts: Hosts, contents: Contents) -> None:
    """It tries a source that offers nothing until nobody wants it any more; then the shelf is emptied."""
    fetching = hosts.c.fetch(contents, [A])
    while (found := hosts.c.status().fetching) is None or not found.problem:
        sleep(0.002)
    assert (found.subject, found.total_bytes, found.phase) == ("files", contents.bytes, "fetching")
    assert "not offered here" in found.problem
    fetching.cancel()
    with pytest.raises(CancelledError):
        fetching.result(TIMEOUT_S)
    hosts.c.keep_only([]).result(TIMEOUT_S)
    hosts.c.close()  # the disk's own thread has done what it was told
    assert list((hosts.tmp / C).iterdir()) == []


def test_one_manifest_is_forgotten_and_others_keep_their_files(hosts: Hosts, contents: Contents) -> None:
    """A file that another manifest has as well stays on the shelf."""
    files = hosts.tmp / "files"
    other = describe(Directory(files), ["log/1"], subject="log", epoch=Epoch(1), position=Position(7))
    for each in (contents, other):
        hosts.a.offer(each, files)
        hosts.c.fetch(each, [A]).result(TIMEOUT_S)
    hosts.c.drop(contents).result(TIMEOUT_S)
    assert not hosts.c.holds(contents.id)
    assert hosts.c.holds(other.id)
    check_out(other, hosts.tmp / C, hosts.tmp / "out", is_shared=True)
    hosts.c.drop(other).result(TIMEOUT_S)
    hosts.c.close()  # the disk's own thread has done what it was told
    assert list((hosts.tmp / C).iterdir()) == []


def test_what_keeps_it_from_starting_is_said(hosts: Hosts) -> None:
    settings = ShippingSettings(
        directory=hosts.tmp / "other",
        connection=ConnectionSettings(PeerIdentity("test", Role.HOST, "x", 1), credentials=SECRET),
        where=hosts.addresses.get,
        on_failed=hosts.failures.append,
        listen_at=hosts.addresses[A],
        config=ShippingConfig(),
    )
    with pytest.raises(Unavailable, match="cannot listen"):
        ShippingThread(settings, NoTrace(), random=Random(1)).start()


def test_what_has_ended_says_so(hosts: Hosts, contents: Contents) -> None:
    hosts.c.close()
    with pytest.raises(Unavailable, match="has ended"):
        hosts.c.fetch(contents, [A])
