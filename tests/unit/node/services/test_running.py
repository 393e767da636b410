"""Services of a host: run where their role is, started and stopped in order, each for itself."""

import asyncio
import os
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from net_world import LOOPBACK, SECRET
from shipped_files import pattern

from holdfast.authority.sessions import Session
from holdfast.machine.workers import Workers
from holdfast.model.errors import DiskFailed, HoldfastError, Unavailable
from holdfast.model.ids import Epoch, HostId, Incarnation, Nonce, Position
from holdfast.model.ports import NoTrace
from holdfast.net import ConnectionSettings, Kind, PeerIdentity, Role
from holdfast.node.host_config import HostConfig
from holdfast.node.port_table import ANY
from holdfast.node.services.running import HostServices, ServiceContext, ServiceEntry
from holdfast.node.services.service_table import SERVICES
from holdfast.node.services.shipping_service import NAME, ShippingService
from holdfast.shipping.manifest import describe
from holdfast.storage.disk import Directory

A, B = HostId("a"), HostId("b")
GROUPS = frozenset({"groups"})
TIMEOUT_S = 60.0


class Part:
    """A service that writes down what is done with it."""

    def __init__(self, context: ServiceContext, said: list[str], *, fails: str = "") -> None:
        self.context = context
        self._said = said
        self._fails = fails
        self.name = context.directory.name

    def _say(self, what: str) -> None:
        self._said.append(f"{self.name} {what}")
        if what == self._fails:
            raise Unavailable(f"{self.name} cannot {what}")

    async def listen(self) -> Mapping[str, str]:
        self._say("listen")
        assert not self.context.directory.exists(), "nothing is written before the store is open"
        return {self.name: "here"}

    async def start(self) -> None:
        self._say("start")
        assert self.context.directory.is_dir()

    def on_frame(self, host: HostId, kind: Kind, payload: bytes) -> None:
        self._say(f"{kind.name} of {host}: {payload.decode()}")

    async def close(self) -> None:
        self._say("close")


def context_of(host: HostId, workers: Workers) -> Callable[..., ServiceContext]:
    def made(**known: Any) -> ServiceContext:
        return ServiceContext(
            host=host,
            endpoint=ConnectionSettings(PeerIdentity("test", Role.HOST, host, 1), credentials=SECRET),
            listen_at=LOOPBACK,
            ports=ANY,
            reached=lambda address: address,
            trace=NoTrace(),
            workers=workers,
            authority=cast(Any, None),  # no service here asks it
            config=HostConfig(),
            **known,
        )

    return made


def run(work: Callable[[Callable[..., ServiceContext]], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(TIMEOUT_S):
            await work(context_of(A, Workers()))

    asyncio.run(main())


def never(error: HoldfastError) -> None:
    raise AssertionError(error)


def entry(name: str, said: list[str], role: str | None = None, fails: str = "", **more: Any) -> ServiceEntry:
    return ServiceEntry(name, role, lambda context: Part(context, said, fails=fails), **more)


def test_services_run_where_their_role_is_in_the_order_of_the_table(tmp_path: Path) -> None:
    said: list[str] = []
    table = [entry("one", said), entry("two", said, "search"), entry("three", said, "groups")]

    async def work(context: Callable[..., ServiceContext]) -> None:
        services = HostServices(table, GROUPS, tmp_path)
        assert await services.listen(context) == {"one": "here", "three": "here"}
        assert [each.state for each in services.status] == ["starting", "starting"]
        await services.start(never)
        assert [(each.name, each.state) for each in services.status] == [("one", "runs"), ("three", "runs")]
        assert sorted(os.listdir(tmp_path / "services")) == ["one", "three"]
        with pytest.raises(Unavailable, match="does not run two"):
            services.running("two")
        await services.close()
        assert [each.state for each in services.status] == ["stopped", "stopped"]

    run(work)
    assert said == [
        *("one listen", "three listen", "one start", "three start"),
        *("three close", "one close"),
    ]


@pytest.mark.parametrize("fails", ["listen", "start"])
def test_a_service_that_fails_is_a_fault_and_the_others_run(tmp_path: Path, fails: str) -> None:
    said: list[str] = []
    faults: list[tuple[str, str]] = []

    async def work(context: Callable[..., ServiceContext]) -> None:
        services = HostServices([entry("bad", said, fails=fails), entry("good", said)], GROUPS, tmp_path)
        await services.listen(context)
        await services.start(never)
        services.report_to(lambda name, why: faults.append((name, why)))
        assert [(each.name, each.state, each.why) for each in services.status] == [
            ("bad", "failed", f"bad cannot {fails}"),
            ("good", "runs", ""),
        ]
        with pytest.raises(Unavailable, match=f"bad does not run here: bad cannot {fails}"):
            services.running("bad")
        await services.close()

    run(work)
    assert faults == [("bad", f"bad cannot {fails}")]
    assert "bad close" in said


def test_a_service_that_fails_later_says_so_from_any_thread(tmp_path: Path) -> None:
    said: list[str] = []
    faults: list[tuple[str, str]] = []

    async def work(context: Callable[..., ServiceContext]) -> None:
        services = HostServices([entry("one", said)], GROUPS, tmp_path)
        await services.listen(context)
        await services.start(never)
        services.report_to(lambda name, why: faults.append((name, why)))
        part = services.running("one")
        assert isinstance(part, Part)
        await asyncio.to_thread(part.context.on_failed, Unavailable("it is broken"))
        while not faults:
            await asyncio.sleep(0.001)
        await asyncio.to_thread(part.context.on_failed, Unavailable("twice"))
        await asyncio.sleep(0)
        await services.close()

    run(work)
    assert faults == [("one", "it is broken")]


def test_a_failing_disk_ends_the_host(tmp_path: Path) -> None:
    """Whoever uses it: at the start it is raised, later told (D1)."""
    failures: list[HoldfastError] = []

    class OnBadDisk(Part):
        async def start(self) -> None:
            raise DiskFailed("it is gone")

    async def work(context: Callable[..., ServiceContext]) -> None:
        services = HostServices(
            [ServiceEntry("bad", None, lambda each: OnBadDisk(each, []))], GROUPS, tmp_path
        )
        await services.listen(context)
        with pytest.raises(DiskFailed):
            await services.start(failures.append)
        other = HostServices([entry("one", [])], GROUPS, tmp_path / "other")
        await other.listen(context)
        await other.start(failures.append)
        part = other.running("one")
        assert isinstance(part, Part)
        await asyncio.to_thread(part.context.on_disk_failed, DiskFailed("later"))
        while not failures:
            await asyncio.sleep(0.001)

    run(work)
    assert [str(each) for each in failures] == ["later"]


def test_frames_of_a_services_kinds_reach_it_while_it_runs(tmp_path: Path) -> None:
    """From hosts only; one that has failed is as good as a host that is down."""
    said: list[str] = []
    kinds = frozenset({Kind.SHIPPING_ASK})

    async def work(context: Callable[..., ServiceContext]) -> None:
        services = HostServices([entry("one", said, kinds=kinds), entry("two", said)], GROUPS, tmp_path)
        assert services.admits == {Kind.SHIPPING_ASK: frozenset({Role.HOST})}
        assert services.takes(Kind.SHIPPING_ASK)
        assert not services.takes(Kind.CALL)
        await services.listen(context)
        services.on_frame(B, Kind.SHIPPING_ASK, b"too early")
        await services.start(never)
        services.on_frame(B, Kind.SHIPPING_ASK, b"now")
        part = services.running("one")
        assert isinstance(part, Part)
        part.context.on_failed(Unavailable("gone"))
        await asyncio.sleep(0.01)
        services.on_frame(B, Kind.SHIPPING_ASK, b"too late")

    run(work)
    assert [each for each in said if "SHIPPING_ASK" in each] == ["one SHIPPING_ASK of b: now"]


def session(host: HostId, details: Mapping[str, str]) -> Session:
    return Session(
        host=host, incarnation=Incarnation(1), address="127.0.0.1:1", nonce=Nonce("n"), details=dict(details)
    )


def test_files_get_from_one_hosts_shipping_to_anothers(tmp_path: Path) -> None:
    """As hosts run it: each finds the other by what its session says."""
    files = {"data.db": pattern(1_000_000), "log/1": pattern(90_000, salt=1)}
    for name, data in files.items():
        (tmp_path / "files" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "files" / name).write_bytes(data)
    contents = describe(
        Directory(tmp_path / "files"), sorted(files), subject="files", epoch=Epoch(1), position=Position(7)
    )

    async def work(_: Callable[..., ServiceContext]) -> None:
        hosts = {host: HostServices(SERVICES, GROUPS, tmp_path / host) for host in (A, B)}
        sessions = {
            host: session(host, await services.listen(context_of(host, Workers())))
            for host, services in hosts.items()
        }
        threads = {}
        for host, services in hosts.items():
            services.on_hosts(sessions)
            await services.start(never)
            found = services.running(NAME)
            assert isinstance(found, ShippingService)
            threads[host] = found.thread
        threads[A].offer(contents, tmp_path / "files")
        progress = await asyncio.wrap_future(threads[B].fetch(contents, [A]))
        assert progress.received == contents.bytes
        assert (tmp_path / B / "services" / NAME).is_dir()
        while threads[B].latest.counting != (contents.id.hex(),):
            await asyncio.sleep(0.01)
        assert threads[B].latest.is_open
        sessions[A] = replace_details(sessions[A], {})
        hosts[B].on_hosts(sessions)
        assert hosts[B].detail_of(A, NAME) == ""
        for services in hosts.values():
            await services.close()

    run(work)


def replace_details(found: Session, details: Mapping[str, str]) -> Session:
    return msgspec.structs.replace(found, details=dict(details))


def test_every_service_of_the_table_has_a_name_of_its_own() -> None:
    assert len({each.name for each in SERVICES}) == len(SERVICES)
    kinds = [kind for each in SERVICES for kind in each.kinds]
    assert len(set(kinds)) == len(kinds)
