"""Describing a domain: once, kept, and with new ports only if nobody relies on the old ones."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from holdfast.agent import startup
from holdfast.agent.agent import Agent
from holdfast.agent.startup import check_hosts, describe, hold, wait_until_alive, why_not_alive
from holdfast.model.errors import InvalidRequest, Unavailable
from holdfast.model.ids import HostId
from holdfast.net import Address
from holdfast.node.layout import Description, Layout
from holdfast.node.messages import AgentStatus, AuthorityStatus, DomainStatus, HostStatus
from holdfast.storage.lock import DirectoryLock, Holder, LockHeld


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "d")


@pytest.fixture
def squatter(layout: Layout) -> Iterator[str]:
    """Another program listens where the domain's agent used to."""
    address = Address.parse(describe(layout, hosts=2, etcd=()).agent_address)
    with socket.create_server((address.host, address.port)):
        yield str(address)


@contextmanager
def held_by_another(directory: Path) -> Iterator[int]:
    """Another process holds *directory*: a process does not see its own lock."""
    child = os.fork()
    if child == 0:
        DirectoryLock.take(directory, Holder(pid=os.getpid(), what="another"))
        os.kill(os.getpid(), signal.SIGSTOP)
        os._exit(0)
    try:
        os.waitpid(child, os.WUNTRACED)
        yield child
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_domain_keeps_its_description(layout: Layout) -> None:
    first = describe(layout, hosts=2, etcd=())
    assert first.hosts == ("host1", "host2")
    assert describe(layout, hosts=None, etcd=()) == first
    assert describe(layout, hosts=2, etcd=()) == first == layout.read()


def test_a_domain_is_not_changed_by_starting_it_otherwise(layout: Layout) -> None:
    first = describe(layout, hosts=2, etcd=())
    with pytest.raises(InvalidRequest, match="a domain of 2 hosts, not 3"):
        describe(layout, hosts=3, etcd=())
    with pytest.raises(InvalidRequest, match="another authority"):
        describe(layout, hosts=None, etcd=["http://127.0.0.1:2379"])
    assert layout.read() == first


def test_a_port_that_somebody_took_is_given_up(layout: Layout, squatter: str) -> None:
    again = describe(layout, hosts=None, etcd=())
    assert again.agent_address != squatter
    assert layout.read() == again


def test_a_port_that_a_running_process_relies_on_is_kept(layout: Layout, squatter: str) -> None:
    """A host that outlived its agent looks for the next one where the last one was."""
    with held_by_another(layout.host(HostId("host1"))):
        assert describe(layout, hosts=None, etcd=()).agent_address == squatter


@pytest.mark.parametrize("hosts", [-1, 0, 65])
def test_a_number_of_hosts_that_cannot_be_is_refused(hosts: int) -> None:
    with pytest.raises(InvalidRequest, match="1 to 64 hosts"):
        check_hosts(hosts)
    check_hosts(None)
    check_hosts(64)


def test_a_directory_whose_agent_runs_is_held_by_it(layout: Layout) -> None:
    with held_by_another(layout.agent_directory) as pid, pytest.raises(LockHeld, match=f"pid {pid}"):
        hold(layout)
    hold(layout).release()


def test_who_did_not_come_up_is_told_with_the_reason_or_else_the_last_words(layout: Layout) -> None:
    describe(layout, hosts=3, etcd=())
    layout.output("host3").write_text("waiting for something\n")
    status = DomainStatus(
        domain="d",
        hosts=(host("host1", alive=True), host("host2", last_exit="exited: no room"), host("host3")),
        authority=AuthorityStatus(
            kind="sqlite", alive=False, pid=None, address="", restarts=1, last_exit="exited: port taken"
        ),
        agent=None,
    )
    said = why_not_alive(layout, status)
    assert said.splitlines() == [
        "2 of 3 hosts did not come up:",
        "the authority exited: port taken",
        "host2 exited: no room",
        "host3 (starting) has said:",
        "  waiting for something",
    ]


def host(name: str, *, alive: bool = False, last_exit: str | None = None) -> HostStatus:
    return HostStatus(
        id=HostId(name),
        alive=alive,
        incarnation=None,
        pid=None,
        address=None,
        restarts=0,
        uptime_s=None,
        state="starting",
        last_exit=last_exit,
    )


def test_hosts_are_dealt_out_over_locations_and_the_last_ones_get_roles(layout: Layout) -> None:
    described = describe(
        layout,
        hosts=5,
        etcd=(),
        locations=("rack1", "rack2", "host5=hall2/rack9"),
        roles=("search=1", "groups,directory=2"),
    )
    where = [described.location_of(host) for host in described.hosts]
    assert where == ["rack1", "rack2", "rack1", "rack2", "hall2/rack9"]
    what = [",".join(described.roles_of(host)) for host in described.hosts]
    assert what == ["groups", "groups", "groups,directory", "groups,directory", "search"]
    assert describe(layout, hosts=None, etcd=()) == described, "they stay"


@pytest.mark.parametrize(
    ("locations", "roles", "complaint"),
    [
        (("host9=rack1",), (), "no host 'host9'"),
        (("rack1//x",), (), "a location is"),
        ((), ("search",), "ROLES=COUNT"),
        ((), ("search=0",), "ROLES=COUNT"),
        ((), ("cooking=1",), "no role 'cooking'"),
        ((), ("search=2", "directory=2"), "1 of them without a role"),
    ],
)
def test_places_that_cannot_be_are_refused_and_nothing_is_written(
    layout: Layout, locations: tuple[str, ...], roles: tuple[str, ...], complaint: str
) -> None:
    with pytest.raises(InvalidRequest, match=complaint):
        describe(layout, hosts=3, etcd=(), locations=locations, roles=roles)
    assert not layout.exists


def test_what_another_agent_says_is_not_taken_for_ones_own(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory was copied, and the machine that it describes runs: the copy's agent cannot listen there.
    Until it has ended, the other one answers that all hosts live."""
    description = describe(layout, hosts=1, etcd=())
    authority = AuthorityStatus(
        kind="sqlite", alive=True, pid=3, address="127.0.0.1:2", restarts=0, last_exit=None
    )
    other = AgentStatus(pid=os.getpid(), address=description.agent_address, uptime_s=9.0)

    async def says_that_all_live(_: Layout, __: Description) -> DomainStatus:
        return DomainStatus(domain=description.domain, hosts=(), authority=authority, agent=other)

    async def main() -> None:
        await wait_until_alive(layout, description, agent, within_s=60, progress=lambda _: None)

    monkeypatch.setattr(startup, "ask_agent", says_that_all_live)
    (layout.output("agent").parent).mkdir(parents=True, exist_ok=True)
    layout.output("agent").write_text("cannot listen there\n")
    with (
        subprocess.Popen(
            [sys.executable, "-c", "import time; time.sleep(0.3); raise SystemExit(1)"]
        ) as agent,
        pytest.raises(Unavailable, match=r"(?s)the agent has ended.*cannot listen there"),
    ):
        asyncio.run(main())


def test_an_agent_that_cannot_listen_says_what_helps(layout: Layout, squatter: str) -> None:
    """A machine alone takes another port at its next start; one of several stays where others look for it."""
    alone = layout.read()
    for machine, helps in (
        ("", "the next start takes another port"),
        ("m1", "holdfast machine set --listen"),
    ):
        described = msgspec.structs.replace(alone, machine=machine, agent_address=squatter)
        with pytest.raises(Unavailable, match=f"cannot listen on {squatter}") as refused:
            asyncio.run(Agent(layout, described)._listen())
        assert helps in " ".join(refused.value.__notes__)
        assert ("another port" in refused.value.__notes__[0]) == (not machine)
