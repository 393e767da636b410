"""Who may use a domain, and for what: a class that is not the application's, through every interface; hostile
names on a terminal; files that other users could read."""

import asyncio
import stat
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from domain import HOLDFAST, Domain
from group_client import Client, run

from holdfast.authority.groups import GroupRecord, Placement, create_unbegun_group, reserve_group
from holdfast.authority.placement import UNKNOWN_STORE
from holdfast.authority.recipe import Seen, perform
from holdfast.authority.remote import RemoteAuthority
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import GroupId, HostId, Nonce
from holdfast.net import Address
from holdfast.node.endpoints import admin_endpoint
from holdfast.node.layout import Layout

pytestmark = pytest.mark.cluster

SHELL = "subprocess:Popen"
ALLOWED = "holdfast.bench.objects:Counter"
SOURCE = """
from pathlib import Path
from subprocess import Popen

class Counter:
    def __init__(self) -> None:
        self.count = 0

    def add(self) -> int:
        self.count += 1
        return self.count

    def fail(self, text: str) -> None:
        raise ValueError(text)

class Shell(Popen):
    '''Of the application itself, which may do what it likes.'''
"""
SPYING = """
from pathlib import Path

Path(__file__).with_suffix(".ran").touch()

class Spy:
    def look(self) -> None: ...
"""


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Path:
    app = tmp_path_factory.mktemp("app")
    (app / "counting.py").write_text(SOURCE)
    (app / "outside").mkdir()
    (app / "linked.py").symlink_to(app.parent / "elsewhere.py")
    (app.parent / "elsewhere.py").write_text(SPYING)
    return app


@pytest.fixture(scope="module")
def domain(tmp_path_factory: pytest.TempPathFactory, app: Path) -> Iterator[Domain]:
    directory = tmp_path_factory.mktemp("side") / "d"
    options = ("--app", str(app), "--hosts", "1", "--allow-class", ALLOWED)
    with Domain(directory, *options) as made:
        run(made, make_count)
        yield made


async def make_count(client: Client) -> None:
    await client.connection.create("counting:Counter", name="count", replicas=1)


def http(domain: Domain, path: str, body: object) -> httpx.Response:
    (host,) = domain.status()["hosts"]
    url = host["report"]["details"]["http"] + path
    content, headers = msgspec.json.encode(body), {"content-type": "application/json"}
    return httpx.post(url, content=content, headers=headers, timeout=240, trust_env=False)


def problem_in(answer: httpx.Response) -> dict[str, Any]:
    assert 400 <= answer.status_code < 500, answer.text
    problem: dict[str, Any] = answer.json()["error"]
    return problem


class Marked:
    """A file that a shell would create, if one ran; and the arguments that would create it."""

    def __init__(self, directory: Path) -> None:
        self.file = directory / "ran"
        self.arguments = [["touch", str(self.file)]]

    @property
    def is_made(self) -> bool:
        return self.file.exists()


@pytest.fixture
def marked(tmp_path: Path) -> Marked:
    return Marked(tmp_path)


Try = Callable[[Client, list[Any]], Awaitable[object]]
DOORS: dict[str, Try] = {
    "create": lambda client, args: client.connection.create(SHELL, name="x", args=args),
    "create, stateless": lambda client, args: client.connection.create(
        SHELL, name="x", args=args, style="stateless"
    ),
    "create, with properties": lambda client, args: client.connection.create(
        SHELL,
        name="x",
        args=args,
        replicas=1,
        durability="memory",
        properties={"org.omg.ft.InitialNumberReplicas": 1},
    ),
    "the manager's factory": lambda client, args: client.connection.objects.create(
        SHELL, {"name": "x", "arguments": args}
    ),
    "a host's factory": lambda client, args: client.connection.factory("host1").create(
        SHELL, {"name": "x", "arguments": args}
    ),
}


@pytest.mark.parametrize("door", DOORS)
def test_no_order_of_a_program_makes_a_class_that_is_not_the_applications(
    domain: Domain, marked: Marked, door: str
) -> None:
    async def attempt(client: Client) -> None:
        with pytest.raises(InvalidRequest, match="there is no module subprocess in"):
            await DOORS[door](client, marked.arguments)
        assert [each.name for each in await client.connection.groups()] == ["count"]

    run(domain, attempt)
    assert not marked.is_made


def test_nor_does_http(domain: Domain, marked: Marked) -> None:
    """It acts as another user of the machine, who needs only a port to have a shell run as the hosts'
    user."""
    order = {"name": "x", "class_name": SHELL, "arguments": marked.arguments, "style": "stateless"}
    answer = http(domain, "/v1/groups", order)
    assert problem_in(answer)["code"] == "bad_class"
    criteria = {"name": "x", "arguments": marked.arguments}
    for path in ("/v1/objects", "/v1/factories/host1/objects"):
        answer = http(domain, path, {"type_id": SHELL, "criteria": criteria})
        assert problem_in(answer)["code"] == "bad_class"
    answer = http(domain, "/v1/groups/count/members", {"location": "host1", "type_id": SHELL})
    assert "count is of counting:Counter" in problem_in(answer)["text"]
    answer = http(domain, "/v1/groups/count/added-members", {"host": "host1", "own": "os:environ"})
    assert "there is no module os in" in problem_in(answer)["text"]
    assert not marked.is_made


def test_nor_does_the_command_line(domain: Domain, marked: Marked) -> None:
    args = msgspec.json.encode(marked.arguments).decode()
    done = domain_command(domain, "group", "create", "x", SHELL, "--args", args)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.strip().splitlines()) == 1
    assert "there is no module subprocess in" in done.stderr
    assert not marked.is_made


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("counting:Popen", "imports it, and does not define it"),
        ("linked:Spy", "leads out of"),
        ("..elsewhere:Spy", "is not a name in Python"),
        ("../elsewhere:Spy", "is not a name in Python"),
        ("elsewhere:Spy", "there is no module elsewhere"),
        ("holdfast.machine.real_ports:MachineClock", "there is no module holdfast.machine.real_ports"),
        ("holdfast.bench.objects:Bulk", "there is no module holdfast.bench.objects"),
    ],
)
def test_a_name_that_leads_elsewhere_is_refused_and_nothing_runs(
    domain: Domain, app: Path, name: str, said: str
) -> None:
    answer = http(domain, "/v1/groups", {"name": "x", "class_name": name})
    assert problem_in(answer)["code"] == "bad_class"
    assert said in problem_in(answer)["text"]
    assert not (app.parent / "elsewhere.ran").exists()


def test_an_allowed_class_is_made(domain: Domain) -> None:
    """The permission is in the domain's file: the next start allows it too."""
    assert Layout(domain.directory).read().allowed_classes == (ALLOWED,)

    async def make(client: Client) -> None:
        made = await client.connection.create(ALLOWED, name="allowed", replicas=1)
        assert await made.add(2) == 2
        await client.connection.delete("allowed")

    run(domain, make)


def test_a_record_that_stands_at_the_authority_is_judged_like_an_order(
    domain: Domain, marked: Marked
) -> None:
    """The record was made by an earlier release, or by hand: the host says that it cannot have the class, now
    and after a restart, and serves its other groups."""

    async def put() -> None:
        layout = Layout(domain.directory)
        description = layout.read()
        endpoint = admin_endpoint(layout, description)
        authority = RemoteAuthority(Address.parse(description.authority_address or ""), endpoint)
        number = await perform(authority, reserve_group(nonce=Nonce("planted")))
        assert isinstance(number, int)
        record = GroupRecord(
            group=GroupId(number),
            class_name=SHELL,
            style="stateless",
            members=(Placement(host=HostId("host1"), store=UNKNOWN_STORE),),
            nonce=Nonce("planted"),
            name="planted",
            arguments=msgspec.json.encode(marked.arguments).decode(),
        )
        assert isinstance(await perform(authority, create_unbegun_group(record)), Seen)
        await authority.close()

    asyncio.run(put())
    domain.run("down")
    domain.up()

    run(domain, add_to)
    said = (domain.directory / "output" / "host1.log").read_text()
    assert "there is no module subprocess in" in said
    assert not marked.is_made
    run(domain, lambda client: client.connection.delete("planted"))


# --- names on a terminal


HOSTILE = ("[/red]", "[bold]x", ":skull:", "\\[")


def domain_command(domain: Domain, *words: str) -> "subprocess.CompletedProcess[str]":
    command = [*HOLDFAST, *words, "--dir", str(domain.directory)]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)


def test_every_command_shows_a_hostile_name_as_it_is(domain: Domain) -> None:
    made = domain_command(domain, "group", "create", HOSTILE[0], "counting:Counter", "--replicas", "1")
    assert (made.returncode, HOSTILE[0] in made.stdout) == (0, True), made

    async def make(client: Client) -> None:
        for name in HOSTILE[1:]:
            await client.connection.create("counting:Counter", name=name, replicas=1)

    run(domain, make)
    for words, code in (
        (("group", "list"), 0),
        (("group", "show", "[/red]"), 0),
        (("group", "history", "[/red]"), 0),
        (("group", "recover", "[/red]"), 0),
        (("group", "set-primary", "[/red]", "host1"), 0),
        (("explain", "[/red]"), 0),
        (("properties", "get", "--group", "[/red]"), 0),
        (("call", "[/red]", "add"), 0),
        (("call", "[/red]", "fail", '"\\u001b[31m[/red]\\u009b2J"'), 1),
        (("call", "[/red]", "[/red]"), 2),
        (("group", "show", "[/nobody]"), 2),
        (("group", "create", "[/red]", "[/red]:[/red]"), 2),
        (("faults", "list"), 0),
        (("host", "list"), 0),
        (("status",), 0),
        (("group", "delete", "[/red]", "--yes"), 0),
    ):
        done = domain_command(domain, *words)
        shown = done.stdout + done.stderr
        assert (done.returncode, "Traceback" in shown) == (code, False), f"{words}: {shown}"
        assert shown.replace("\n", "").isprintable(), words
    listed = domain_command(domain, "group", "list").stdout
    assert all(name in listed for name in HOSTILE[1:])


# --- files


def test_what_the_domain_keeps_is_its_users_alone(domain: Domain) -> None:
    """Its stores, logs, locks, the authority's file and SQLite's files next to it are private while they are
    in use; also when an earlier run had left them open."""
    directory = domain.directory

    def left_open() -> list[str]:
        found = [directory, *directory.rglob("*")]
        assert any(path.name == "authority.sqlite-wal" for path in found)
        assert len(found) > 20
        return [f"{path} {mode:o}" for path in found if (mode := stat.S_IMODE(path.lstat().st_mode)) & 0o077]

    run(domain, add_to)
    assert left_open() == []
    domain.run("down")
    for path in [directory, *directory.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    domain.up()
    run(domain, add_to)
    assert left_open() == []


async def add_to(client: Client) -> None:
    assert await (await client.group("count")).add() > 0


COMMAND = (sys.executable, "-P", "-m", "holdfast")
"""As the command `holdfast` is, wherever it is typed."""


def test_code_does_not_come_from_where_a_domain_was_started(tmp_path: Path) -> None:
    """A file there may be anybody's, and have the name of a module that every process of a domain imports."""
    started_in, directory = tmp_path / "started", tmp_path / "d"
    started_in.mkdir()
    for name in ("http", "ssl", "sqlite3", "resource"):
        (started_in / f"{name}.py").write_text(SPYING + "raise ImportError('not the right one')\n")
    up = [*COMMAND, "up", "--detach", "--hosts", "1", "--dir", str(directory)]
    try:
        started = subprocess.run(up, cwd=started_in, capture_output=True, text=True, timeout=240, check=False)
        assert started.returncode == 0, started.stderr
        assert not list(started_in.glob("*.ran"))
    finally:
        down = [*COMMAND, "down", "--dir", str(directory)]
        subprocess.run(down, capture_output=True, timeout=240, check=False)
