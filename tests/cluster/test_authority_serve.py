"""`holdfast authority` as people and agents run it: real processes, real files."""

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from holdfast.authority.contract import Applied, Get, Got, Put, Request, Result, Txn, Unknown
from holdfast.authority.remote import RemoteAuthority
from holdfast.authority.server_process import FILE_NAME
from holdfast.net import (
    Address,
    ConnectionSettings,
    DomainSecret,
    Inbox,
    NotConnected,
    PeerIdentity,
    Role,
    connect,
)
from holdfast.net.certificates import create_domain, issue
from holdfast.net.credentials import SECRET_BYTES
from holdfast.net.secret_file import keep_secret
from holdfast.net.tls import Tls

pytestmark = [pytest.mark.cluster, pytest.mark.anyio]

HOLDFAST = [sys.executable, "-m", "holdfast", "authority"]
FILE_BYTES_MAX = 300_000
SECRET = DomainSecret("holdfast", b"s" * SECRET_BYTES)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def run(*arguments: str, answer: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*HOLDFAST, *arguments], input=answer, capture_output=True, text=True, timeout=240, check=False
    )


@contextmanager
def serving(
    directory: Path, *options: str, before: Callable[[], None] | None = None
) -> Iterator[tuple[subprocess.Popen[str], Address]]:
    """Start a process that serves *directory*, and yield its address; it is killed at the end if it still
    runs."""
    if "--certs" not in options:
        keep_secret(directory, SECRET)
    process = subprocess.Popen(
        [*HOLDFAST, "serve", "--dir", str(directory), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=before,
    )
    assert process.stdout is not None
    try:
        yield process, Address.parse(process.stdout.readline().split()[-1])
    finally:
        process.kill()
        process.communicate(timeout=240)


async def ask(
    address: Address,
    *requests: Request,
    tls: Tls | None = None,
    role: Role = Role.HOST,
    secret: DomainSecret = SECRET,
) -> list[Result]:
    endpoint = ConnectionSettings(PeerIdentity("holdfast", role, "test"), tls=tls, credentials=secret)
    authority = RemoteAuthority(address, endpoint)
    try:
        return [await authority.ask(request) for request in requests]
    finally:
        await authority.close()


def put(key: str, value: bytes) -> Txn:
    return Txn((), (Put(key, value),))


def ends(process: subprocess.Popen[str]) -> tuple[int, str]:
    _, errors = process.communicate(timeout=240)
    return process.returncode, errors


async def test_what_was_applied_survives_kill_and_termination(tmp_path: Path) -> None:
    """kill -9 loses nothing; SIGTERM ends cleanly with exit code 0 and leaves no WAL behind."""
    with serving(tmp_path) as (process, address):
        (applied,) = await ask(address, put("k", b'"kept"'))
        assert isinstance(applied, Applied)
        process.kill()
    with serving(tmp_path) as (process, address):
        (got,) = await ask(address, Get("k"))
        assert isinstance(got, Got)
        assert got.item is not None
        assert got.item.value == b'"kept"'
        process.send_signal(signal.SIGTERM)
        assert ends(process)[0] == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [FILE_NAME, "lock", "secret"]


def test_a_second_one_says_who_holds_the_directory(tmp_path: Path) -> None:
    """No two processes can serve, inspect or restore one file; the message names the holder's pid."""
    with serving(tmp_path) as (process, _):
        for verb in (["serve"], ["inspect"], ["restore", "--above-epoch", "1", "--yes"]):
            refused = run(verb[0], "--dir", str(tmp_path), *verb[1:])
            assert refused.returncode == 1
            assert f"pid {process.pid}" in refused.stderr


def test_other_addresses_need_tls_or_an_explicit_word(tmp_path: Path) -> None:
    """Only loopback is allowed by default: other addresses are refused as misuse, before anything listens."""
    refused = run("serve", "--dir", str(tmp_path), "--listen", "0.0.0.0:0")
    assert refused.returncode == 2
    assert "--insecure" in refused.stderr


async def test_with_certificates_it_speaks_tls_only(tmp_path: Path) -> None:
    """A host of the domain is served; one without TLS, or of another domain, gets no answer at all."""
    now = datetime.now(UTC)
    for name in ("ours", "theirs"):
        create_domain(tmp_path / name, "holdfast", now)
        issue(tmp_path / name, Role.HOST, "test", now)
    issue(tmp_path / "ours", Role.AUTHORITY, "authority", now)
    with serving(tmp_path / "store", "--certs", str(tmp_path / "ours")) as (_, address):
        known, stranger = (Tls.load(tmp_path / name, Role.HOST, "test") for name in ("ours", "theirs"))
        applied, got = await ask(address, put("k", b"1"), Get("k"), tls=known)
        assert isinstance(applied, Applied)
        assert isinstance(got, Got)
        for tls in (None, stranger):
            (refused,) = await ask(address, put("k", b"2"), tls=tls)
            assert isinstance(refused, Unknown)
        (got,) = await ask(address, Get("k"), tls=known)
        assert isinstance(got, Got)
        assert got.item is not None
        assert got.item.value == b"1"


async def test_a_certificate_opens_the_authority_by_its_role(tmp_path: Path) -> None:
    """A client that is admitted reads and writes every key, so programs that call groups are not admitted."""
    now = datetime.now(UTC)
    create_domain(tmp_path, "holdfast", now)
    for role in Role:
        issue(tmp_path, role, "authority" if role is Role.AUTHORITY else "test", now)
    with serving(tmp_path / "store", "--certs", str(tmp_path)) as (_, address):
        for role in (Role.HOST, Role.AGENT, Role.ADMIN):
            (applied,) = await ask(address, put(role, b"1"), tls=Tls.load(tmp_path, role, "test"), role=role)
            assert isinstance(applied, Applied)
        client = Tls.load(tmp_path, Role.CLIENT, "test")
        for said in (Role.CLIENT, Role.HOST):
            (refused,) = await ask(address, Get("host"), tls=client, role=said)
            assert isinstance(refused, Unknown)
        with pytest.raises(NotConnected, match="role client is not admitted here"):
            endpoint = ConnectionSettings(PeerIdentity("holdfast", Role.CLIENT, "test"), tls=client)
            await connect(address, lambda _: Inbox(frames_max=1), endpoint)


async def test_an_error_of_the_disk_ends_the_process(tmp_path: Path) -> None:
    """A6: the exit code is 1, with one clear line; the change that met the error is unknown, the others are
    there."""

    def small_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES_MAX, FILE_BYTES_MAX))

    with serving(tmp_path, before=small_files) as (process, address):
        small, large = await ask(address, put("small", b""), put("large", os.urandom(2 * FILE_BYTES_MAX)))
        assert isinstance(small, Applied)
        assert isinstance(large, Unknown)
        code, errors = ends(process)
        assert code == 1
        assert "the authority ends: the authority's file failed" in errors
    with serving(tmp_path) as (_, address):
        small, large = await ask(address, Get("small"), Get("large"))
        assert isinstance(small, Got)
        assert isinstance(large, Got)
        assert small.item is not None
        assert large.item is None


async def test_inspect_and_restore(tmp_path: Path) -> None:
    """Inspect shows what is there; restore shows, asks, and changes only when told yes (A5)."""
    assert run("inspect", "--dir", str(tmp_path)).returncode == 2
    with serving(tmp_path) as (process, address):
        await ask(address, put("k", b'{"n":1}'), put("raw", b"\xff"))
        process.send_signal(signal.SIGTERM)
        assert ends(process)[0] == 0

    def inspected() -> dict[str, object]:
        shown = run("inspect", "--dir", str(tmp_path), "--output", "json")
        assert shown.returncode == 0
        found: dict[str, object] = json.loads(shown.stdout)
        return found

    before = inspected()
    assert before["revision"] == 3
    assert {item["key"]: item["value"] for item in before["keys"] if item["key"] != "authority/identity"} == {  # type: ignore[attr-defined]  # parsed JSON
        "k": {"n": 1},
        "raw": {"base64": "/w=="},
    }
    for arguments, answer, code in ((["--dry-run"], "", 0), ([], "n\n", 1), ([], "", 1)):
        asked = run("restore", "--dir", str(tmp_path), "--above-epoch", "9", *arguments, answer=answer)
        assert asked.returncode == code
        assert "nothing was changed" in asked.stderr
    assert inspected() == before
    assert run("restore", "--dir", str(tmp_path), "--above-epoch", "9", answer="y\n").returncode == 0
    identity = inspected()["identity"]
    assert isinstance(identity, dict)
    assert (identity["generation"], identity["floors"]["epoch"]) == (2, 9)
    assert run("restore", "--dir", str(tmp_path), "--above-epoch", "8", "--yes").returncode == 2
