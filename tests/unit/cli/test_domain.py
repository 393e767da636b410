"""How a domain is shown: what clients connect to, and what a start waits for."""

import asyncio
import datetime
import socket
from pathlib import Path

import pytest

from holdfast.agent.machine_setup import new_machine
from holdfast.cli.domain import _say_whom_it_waits_for
from holdfast.cli.show.domain_table import url_in
from holdfast.model.ids import HostId
from holdfast.net import Role
from holdfast.net.certificates import create_domain, issue, issue_machine
from holdfast.node.messages import AuthorityStatus, DomainStatus, HostStatus


def host(name: str, address: str | None, *, alive: bool = True) -> HostStatus:
    return HostStatus(
        id=HostId(name),
        alive=alive,
        incarnation=None,
        pid=None,
        address=address,
        restarts=0,
        uptime_s=1.0,
        state="alive" if alive else "down",
        last_exit=None,
    )


def domain(*hosts: HostStatus) -> DomainStatus:
    authority = AuthorityStatus(
        kind="sqlite", alive=True, pid=None, address="127.0.0.1:1", restarts=0, last_exit=None
    )
    return DomainStatus(domain="shop", hosts=hosts, authority=authority, agent=None)


def test_the_url_names_every_host_that_lives() -> None:
    found = domain(host("a", "127.0.0.1:7"), host("b", "127.0.0.1:8", alive=False), host("c", "127.0.0.1:9"))
    assert url_in(found) == "holdfast://127.0.0.1:7,127.0.0.1:9/shop"


def test_where_no_host_lives_there_is_no_url() -> None:
    assert url_in(domain(host("a", None, alive=False))) == ""


def test_a_start_says_that_nobody_takes_the_machines_certificates(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its hosts wait for the authority, which refuses them: their logs alone said so, and up said nothing."""
    now = datetime.datetime.now(datetime.UTC)
    create_domain(tmp_path / "ca", "shop", now)
    made = tmp_path / "m1"
    issue_machine(tmp_path / "ca", "m1", now, to=made, hosts=["m1"], location="m1", with_authority=True)
    url = "holdfast://10.0.0.1:7401/shop"
    described = new_machine(url, listen="10.0.0.1", location="m1", certs=made, app=tmp_path)
    asyncio.run(_say_whom_it_waits_for(described))
    assert capsys.readouterr().err == ""
    long_ago = now - datetime.timedelta(days=9)
    issue(tmp_path / "ca", Role.AGENT, "m1", long_ago, days=5, to=made, renew=True)
    asyncio.run(_say_whom_it_waits_for(described))
    assert "agent-m1.pem is refused" in capsys.readouterr().err.replace("\n", "")


def test_a_start_says_that_the_authority_on_another_machine_does_not_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as found:
        free = found.getsockname()[1]
    url = f"holdfast://127.0.0.1:{free}/shop"
    described = new_machine(url, listen="127.0.0.2", location="m2", certs=None, app=tmp_path)
    asyncio.run(_say_whom_it_waits_for(described))
    said = capsys.readouterr().err.replace("\n", "")
    assert f"waiting for the authority, which does not answer: {url.removesuffix('/shop')}: " in said
    assert "refused" in said
