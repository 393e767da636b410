"""A directory of several masters in processes of their own, as `holdfast directory start` runs it.

Its clients are ldap3's. What the masters have on their disks is read by :func:`changelog`, which uses nothing
of the directory but LMDB's file.
"""

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lmdb
import msgspec

from holdfast.cli.directory.changing import cut, heal
from holdfast.cli.directory.masters import masters_at
from holdfast.cli.directory.topology import as_json
from holdfast.cli.where import Where
from holdfast.model.errors import HoldfastError
from holdfast.model.ids import HostId
from holdfast.node.layout import Layout
from holdfast.storage.lock import holder_of
from holdfast.web.door import ADDRESS

with warnings.catch_warnings():
    # ldap3 imports names of pyasn1 that are deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    import ldap3
    from ldap3.core.exceptions import LDAPException

SUFFIX = "dc=example,dc=com"
HOLDFAST = (sys.executable, "-m", "holdfast")
WAIT_S = 180.0
"""The machine may be busy."""
SUCCESS = 0
GONE = (LDAPException, OSError)
ISSUED = re.compile(r'event=directory_change csn=(\w+) operation=\w+ dn="([^"]*)"')


def wait_until(what: str, holds: Callable[[], bool], within_s: float = WAIT_S) -> None:
    end = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < end, f"did not happen within {within_s:g} s: {what}"
        time.sleep(0.05)


class Masters:
    """A running `holdfast directory start`."""

    def __init__(
        self, directory: Path, *options: str, settings: str = "", environment: dict[str, str] | None = None
    ) -> None:
        """*settings*: what its `holdfast.toml` says; *environment*: what its processes have besides."""
        self.directory = directory
        self._options = options
        self._environment = {**os.environ, **(environment or {})}
        if settings:
            directory.mkdir(mode=0o700, exist_ok=True)
            (directory / "holdfast.toml").write_text(settings)
        self._process: subprocess.Popen[str] | None = None
        self.line: dict[str, Any] = {}

    def start(self) -> None:
        command = [*HOLDFAST, "directory", "start", "--dir", str(self.directory), "--output", "json"]
        # Its talk goes to a file: a pipe that nobody reads would fill up.
        with (self.directory.parent / "talk").open("ab") as talk:
            self._process = process = subprocess.Popen(
                [*command, *self._options],
                stdout=subprocess.PIPE,
                stderr=talk,
                text=True,
                env=self._environment,
            )
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, (self.directory.parent / "talk").read_text()
        self.line = json.loads(line)

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGTERM)
            assert process.wait(WAIT_S) in (0, 130)
            assert process.stdout is not None
            process.stdout.close()

    def run(self, *words: str, ok: tuple[int, ...] = (0,)) -> "subprocess.CompletedProcess[str]":
        command = [*HOLDFAST, "directory", *words, "--dir", str(self.directory)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
        assert done.returncode in ok, f"{words}: {done.returncode}: {done.stdout}{done.stderr}"
        return done

    def status(self) -> dict[str, dict[str, Any]]:
        """What `directory status --output json` prints, without starting the command each time."""
        found = asyncio.run(masters_at(Layout(self.directory)))
        return {each.host: msgspec.to_builtins(as_json(each)) for each in found}

    def faults(self, kind: str) -> list[dict[str, Any]]:
        """What the notifier has heard of that kind."""
        command = [*HOLDFAST, "faults", "list", "--dir", str(self.directory), "--output", "json"]
        command += ["--where", f"$type_name == '{kind}'"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
        return list(json.loads(done.stdout)["faults"]) if done.returncode == 0 else []

    def link(self, id: str, peer: str) -> dict[str, Any]:
        """How the link of one master to another is, as that one says; empty while it says nothing."""
        try:
            links = self.status()[id]["replica"]["links"]
        except (HoldfastError, KeyError, TypeError):
            return {}
        return next((each for each in links if each["peer"] == peer), {})

    def needing(self, id: str) -> list[int]:
        """The replicas that need initialisation, as one master says."""
        try:
            return list(self.status()[id]["replica"]["needs_initialisation"])
        except (HoldfastError, KeyError, TypeError):
            return []

    def may_write(self, id: str) -> bool:
        try:
            return bool(self.status()[id]["replica"]["may_write"])
        except (HoldfastError, KeyError, TypeError):
            return False

    def cut(self, one: str, other: str) -> None:
        """What `directory cut` does, without starting the command."""
        cut(one, other, at=Where(dir=self.directory))

    def heal(self, one: str, other: str) -> None:
        heal(one, other, at=Where(dir=self.directory))

    def shipped(self, id: str) -> int:
        """How many bytes of files that host has sent to others."""
        command = [*HOLDFAST, "shipping", "status", "--dir", str(self.directory), "--output", "json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=True)
        (found,) = (each["status"]["sent_bytes"] for each in json.loads(done.stdout) if each["host"] == id)
        return int(found)

    @property
    def ids(self) -> list[str]:
        return [each["id"] for each in self.line["masters"]]

    @property
    def everybody(self) -> list[dict[str, Any]]:
        return [*self.line["masters"], *self.line.get("consumers", ())]

    def address(self, id: str) -> str:
        (found,) = (str(each["ldap"]) for each in self.everybody if each["id"] == id)
        return found

    def http(self, id: str) -> str:
        """Where that host's HTTP door is."""
        return "http://" + (Layout(self.directory).host(HostId(id)) / ADDRESS).read_text().strip()

    def pid(self, id: str) -> int | None:
        """The process that runs that master now; None if it is not known at the moment."""
        try:
            return self.status()[id]["pid"]
        except (HoldfastError, KeyError):
            return None

    def kill(self, id: str) -> None:
        """kill -9 the process of that master."""
        found: list[int] = []

        def is_known() -> bool:
            pid = self.pid(id)
            found.extend(() if pid is None else (pid,))
            return pid is not None

        wait_until(f"the process of {id} is known", is_known)
        os.kill(found[-1], signal.SIGKILL)

    @contextmanager
    def paused(self, pid: int) -> Iterator[None]:
        """A process of this directory that stands still meanwhile."""
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    @property
    def agent(self) -> int:
        found = holder_of(Layout(self.directory).agent_directory)
        assert found is not None
        return found.pid

    def connect(self, id: str, *, as_admin: bool = True) -> ldap3.Connection:
        server = ldap3.Server(f"ldap://{self.address(id)}", get_info=ldap3.NONE, connect_timeout=10)
        who = (self.line["admin_dn"], self.line["admin_password"]) if as_admin else (None, None)
        return ldap3.Connection(server, *who, auto_bind=True, receive_timeout=30, auto_referrals=False)

    def add(self, connection: ldap3.Connection, uid: str, **more: str) -> int:
        """Add a person, and return the LDAP result code."""
        attributes = {"cn": uid, "sn": uid, **more}
        connection.add(f"uid={uid},{SUFFIX}", "inetOrgPerson", attributes)
        return int(connection.result["result"])

    def uids(self, id: str) -> set[str]:
        with self.connect(id) as connection:
            connection.search(SUFFIX, "(uid=*)", attributes=["uid"], paged_size=500)
            found = list(connection.entries)
            cookie = _cookie(connection)
            while cookie:
                connection.search(SUFFIX, "(uid=*)", attributes=["uid"], paged_size=500, paged_cookie=cookie)
                found += connection.entries
                cookie = _cookie(connection)
        return {str(each.uid) for each in found}

    def has(self, id: str, uids: set[str]) -> bool:
        try:
            return uids <= self.uids(id)
        except GONE:
            return False

    def until_equal(self, acknowledged: set[str]) -> None:
        """Wait until all have the same persons, all acknowledged ones among them."""

        def holds() -> bool:
            try:
                found = [self.uids(each["id"]) for each in self.everybody]
            except GONE:
                return False
            return all(each == found[0] for each in found) and acknowledged <= found[0]

        wait_until("all masters have the same", holds)

    def issued(self) -> list[tuple[str, str]]:
        """Every CSN that a master gave to an operation of a client, with the entry, from all their logs."""
        texts = [each.read_text() for each in (self.directory / "output").glob("host*.log*")]
        return [found.groups() for text in texts for found in ISSUED.finditer(text)]  # type: ignore[misc]

    def changes(self, id: str) -> dict[bytes, bytes]:
        """The changelog on the disk of a stopped master: each CSN, and what it did."""
        return changelog(self.store(id))

    def files(self, id: str) -> Path:
        return self.directory / "hosts" / id / "services" / "directory"

    def store(self, id: str) -> Path:
        return self.files(id) / "store"

    @contextmanager
    def replacing_files(self, id: str, pid: int, copy: Path) -> Iterator[None]:
        """Kill that master, and let the next process, which begins afterwards, find *copy* instead of its
        files."""
        with self.paused(self.agent):  # or it starts the next process before the files are back
            os.kill(pid, signal.SIGKILL)
            wait_until("the process is gone", lambda: is_gone(pid))
            shutil.rmtree(self.files(id))
            shutil.copytree(copy, self.files(id))
            yield


class Writer(threading.Thread):
    """Adds persons at one master, one after the other, and notes which were acknowledged. With *pause_s* in
    between it leaves the processor to others."""

    def __init__(self, masters: Masters, id: str, prefix: str = "", *, pause_s: float = 0.0) -> None:
        super().__init__(daemon=True)
        self._masters = masters
        self._id = id
        self._prefix = prefix or id
        self._pause_s = pause_s
        self.acknowledged: set[str] = set()
        self._is_over = threading.Event()
        self._number = 0

    def run(self) -> None:
        while not self._is_over.is_set():
            try:
                with self._masters.connect(self._id) as connection:
                    while not self._is_over.is_set():
                        self._number += 1
                        uid = f"{self._prefix}-{self._number}"
                        if self._masters.add(connection, uid) == SUCCESS:
                            self.acknowledged.add(uid)
                            time.sleep(self._pause_s)
                        else:
                            time.sleep(0.02)
            except GONE:
                time.sleep(0.05)

    def wait_for(self, count: int) -> None:
        """Wait until so many more were acknowledged."""
        wanted = len(self.acknowledged) + count
        wait_until("writes go on", lambda: len(self.acknowledged) >= wanted)

    def stop(self) -> set[str]:
        self._is_over.set()
        self.join(60)
        return self.acknowledged


class Onlooker(threading.Thread):
    """Reads the changelogs of running masters again and again: what is in them may be trimmed soon."""

    def __init__(self, masters: Masters) -> None:
        super().__init__(daemon=True)
        self._masters = masters
        self._is_over = threading.Event()
        self.known: dict[bytes, bytes] = {}
        self.twice: list[str] = []

    def run(self) -> None:
        while not self._is_over.wait(0.3):
            self.look()

    def look(self) -> None:
        for id in self._masters.ids:
            try:
                found = changelog(self._masters.store(id), is_running=True)
            except lmdb.Error:
                continue  # its files are being put back
            for csn, change in found.items():
                if self.known.setdefault(csn, change) != change:
                    self.twice.append(f"{csn.hex()} at {id}")

    def stop(self) -> None:
        self._is_over.set()
        self.join(60)
        self.look()


def changelog(store: Path, *, is_running: bool = False) -> dict[bytes, bytes]:
    environment = lmdb.open(str(store), readonly=True, create=False, lock=is_running, max_dbs=16)
    try:
        updates = environment.open_db(b"updates", create=False)
        with environment.begin(db=updates) as transaction:
            return {bytes(key): bytes(value) for key, value in transaction.cursor()}
    finally:
        environment.close()


def is_gone(pid: int) -> bool:
    """Whether a process has ended, reaped or not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def assert_no_csn_twice(*changelogs: dict[bytes, bytes]) -> None:
    """No two masters know different changes under one CSN."""
    known: dict[bytes, bytes] = {}
    for each in changelogs:
        for csn, change in each.items():
            assert known.setdefault(csn, change) == change, f"{csn.hex()} names two changes"


def _cookie(connection: ldap3.Connection) -> bytes:
    controls = connection.result.get("controls", {})
    return bytes(controls.get("1.2.840.113556.1.4.319", {}).get("value", {}).get("cookie") or b"")


@contextmanager
def running(
    directory: Path, *options: str, settings: str = "", environment: dict[str, str] | None = None
) -> Iterator[Masters]:
    masters = Masters(directory, *options, settings=settings, environment=environment)
    try:
        masters.start()
        yield masters
    finally:
        masters.stop()
