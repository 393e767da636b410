"""Which domain a command asks: by directory, by HOLDFAST_DIR, or by address."""

from pathlib import Path
from typing import Any

import pytest

from holdfast.cli.admin import here
from holdfast.cli.main import app
from holdfast.cli.show.remote_status import put_together
from holdfast.cli.where import Remote, Where
from holdfast.model.admin.hosts import HostInfo
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import HostId, Incarnation
from holdfast.net import Address
from holdfast.node.layout import DIRECTORY_DEFAULT, Layout
from holdfast.node.messages import AgentStatus, AuthorityStatus, DomainStatus, HostStatus

URL = "holdfast://10.0.0.1:7410,10.0.0.2:7410/main"
ASKING = (
    *("status", "host list", "host restart a", "restart --rolling", "group list", "group show g"),
    *("call g add 5", "explain g", "faults list", "faults watch", "properties get", "index list"),
    *("transactions", "domain recover", "chaos cut a b", "chaos heal", "group sends g", "group recover g"),
)


def at(words: str) -> Where:
    _, bound, _ = app.parse_args(words, exit_on_error=False, print_error=False)
    found: Any = bound.arguments.get("at", Where())
    assert isinstance(found, Where)
    return found


@pytest.mark.parametrize("command", ASKING)
def test_every_command_that_asks_a_domain_takes_the_same_options(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = at(f"{command} --connect {URL} --certs certs --as alice").target
    addresses = (Address("10.0.0.1", 7410), Address("10.0.0.2", 7410))
    assert found == Remote("main", addresses, Path("certs"), "alice")
    monkeypatch.setenv("HOLDFAST_DIR", "/srv/named")
    by_variable, by_option = at(command).target, at(f"{command} --dir /srv/other").target
    assert isinstance(by_variable, Layout)
    assert isinstance(by_option, Layout)
    assert (by_variable.directory, by_option.directory) == (Path("/srv/named"), Path("/srv/other"))


def test_without_options_it_is_the_default_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOLDFAST_DIR", raising=False)
    found = at("status").target
    assert isinstance(found, Layout)
    assert found.directory == DIRECTORY_DEFAULT.absolute()


@pytest.mark.parametrize("options", ["--certs certs", "--insecure"])
def test_how_to_connect_is_said_only_with_where(options: str) -> None:
    with pytest.raises(InvalidRequest, match="--connect"):
        _ = at(f"status {options}").target


def test_a_hint_leads_to_the_same_domain() -> None:
    target = at(f"status --connect {URL} --certs /srv/certs --as alice").target
    assert at(f"status{here(target)}").target == target


def test_each_host_is_shown_as_its_own_agent_sees_it() -> None:
    """One whose agent does not answer is shown as the domain knows it."""
    a, b, c = map(HostId, "abc")
    statuses = [machine(a, "alive"), machine(b, "restarting")]
    shown = put_together("main", (info(a), info(b), info(c)), statuses)
    assert [(each.id, each.state) for each in shown.hosts] == [(a, "alive"), (b, "restarting"), (c, "alive")]
    assert shown.agent == statuses[0].agent
    assert put_together("main", (info(a),), []).agent is None


def info(host: HostId) -> HostInfo:
    return HostInfo(
        host=host,
        is_alive=True,
        is_draining=False,
        members=0,
        primaries=0,
        leaving=0,
        incarnation=Incarnation(1),
    )


def machine(host: HostId, state: str) -> DomainStatus:
    return DomainStatus(
        domain="main",
        hosts=(
            HostStatus(
                id=host,
                alive=state == "alive",
                incarnation=Incarnation(1),
                pid=1,
                address=None,
                restarts=0,
                uptime_s=None,
                state=state,
                last_exit=None,
            ),
        ),
        authority=AuthorityStatus(kind="etcd", alive=True, pid=None, address="", restarts=0, last_exit=None),
        agent=AgentStatus(pid=1, address="", uptime_s=1.0),
    )
