"""How long one command takes to fill a master that was away for too long, beside copying the file as it is.

Of three masters with so many persons one is cut off until it lacks more than the others keep: of two, each
would keep all for the other, since neither is most of them. Back again it is told that it needs
initialisation. `holdfast directory initialise` is timed as people type it, its
own start included; beside it, before and after, stands what nothing can undercut: `cp` of the store's file,
and one fsync.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from msgspec import Struct, json

from holdfast.bench import Progress
from holdfast.bench.directories import PEOPLE, SUFFIX, run
from holdfast.bench.directories.lag import running_masters
from holdfast.bench.directories.people import person, write_people
from holdfast.bench.systems import Absent
from holdfast.directory.dn import Dn
from holdfast.directory.ldif import EntryRecord, read_ldif
from holdfast.directory.lmdb_store import FILE
from holdfast.directory.master import ABOUT, About
from holdfast.directory.operations import AddRequest
from holdfast.directory.reading import reading
from holdfast.ldap.client import LdapClient

KEPT: Final = 100
"""How many changes are kept for a master that lacks them, in this run."""
RATE: Final = 4 << 30
"""Of shipped files: as fast as they can be. The default, 32 MiB/s, spares the calls of groups beside, and
would be all that is measured."""
SETTINGS: Final = f"""
[directory]
statement = "500 ms"
tick = "200 ms"
log_updates = {KEPT}

[shipping]
bytes_per_s = {RATE}
offered_bytes_per_s = {RATE}
"""
SECOND: Final = "host2"
THIRD: Final = "host3"
SETTINGS_FILE: Final = "holdfast.toml"
JOINS_MAX: Final = 5
WAIT_S: Final = 300.0
LOOK_S: Final = 0.2
FACTOR: Final = 3.0
EXTRA_S: Final = 1.0
"""What the command may take: so many times the copy, and so many seconds."""


class Filling(Struct, frozen=True, kw_only=True):
    """One master that was filled anew."""

    persons: int
    bytes: int
    """Of the store's file."""
    took_s: float
    copies_s: tuple[float, ...]
    """How long ``cp`` and fsync took, before and after."""
    told: str
    """What the master was told when it was back."""

    @property
    def limit_s(self) -> float:
        return FACTOR * min(self.copies_s) + EXTRA_S


def measure_filling(directory: Path, persons: int, progress: Progress) -> Filling:
    """Raises :class:`.Absent`."""
    domain = directory / "masters"
    domain.mkdir(mode=0o700)
    (domain / SETTINGS_FILE).write_text(SETTINGS)
    with running_masters(domain, masters=1) as told:
        (first,) = (each["id"] for each in told["masters"])
        admin, password = told["admin_dn"], told["admin_password"].encode()
    files = domain / "hosts" / first / "services" / "directory"
    people = directory / "people.ldif"
    write_people(people, persons, is_whole=False)
    # A master that nobody knows yet takes a bulk load into its files, once they say what they are as those of
    # `directory init` do; the second master then begins with a copy.
    (files / ABOUT).write_bytes(json.encode(About(suffix=SUFFIX, replica=1)))
    load = [sys.executable, "-m", "holdfast", "directory", "import", str(people), "--dir", str(files)]
    progress(f"{persons:,} persons were loaded in {run(load, what='loading a master'):.0f} s")
    with running_masters(domain, masters=1) as told:
        for each in (SECOND, THIRD):
            _join(domain, each)
        for each in (first, THIRD):
            _run(domain, "cut", each, SECOND)
        (address,) = (each["ldap"] for each in told["masters"])
        _add(address, admin, password, range(persons, persons + 3 * KEPT))
        _until("it is marked", lambda: bool(_replica(domain, first)["needs_initialisation"]))
        for each in (first, THIRD):
            _run(domain, "heal", each, SECOND)
        _until("it is told", lambda: bool(_problem(domain, SECOND)))
        problem = _problem(domain, SECOND)
        file = files / "store" / FILE
        before_s = _copy_s(file, directory / "copy")
        began = time.perf_counter()
        _run(domain, "initialise", SECOND, "--yes")
        took_s = time.perf_counter() - began
        after_s = _copy_s(file, directory / "copy")
        if (entries := _entries(domain, SECOND)) != persons + 3 * KEPT:
            raise Absent(f"the master that was filled has {entries} persons")
        found = Filling(
            persons=persons,
            bytes=file.stat().st_size,
            took_s=took_s,
            copies_s=(before_s, after_s),
            told=problem,
        )
        progress(
            f"filled anew in {took_s:.2f} s; cp and fsync of its {found.bytes >> 20} MiB: {before_s:.2f} and "
            f"{after_s:.2f} s, so {found.limit_s:.2f} s are allowed"
        )
        return found


def _entries(domain: Path, host: str) -> int:
    """How many persons that master's files have."""
    with reading(domain / "hosts" / host / "services" / "directory") as snapshot:
        units = snapshot.subtree(snapshot.find(Dn.parse(PEOPLE)))
        return sum(1 for _ in units) - 1


def _add(address: str, admin: str, password: bytes, numbers: range) -> None:
    """Add these persons one after the other."""
    with LdapClient(f"ldap://{address}") as client:
        client.bind(admin, password)
        for number in numbers:
            client.change(_request(number))


def _request(number: int) -> AddRequest:
    (record,) = read_ldif(person(number).encode().splitlines(keepends=True))
    assert isinstance(record, EntryRecord), "it is the text of an entry"
    return AddRequest(record.dn, record.attributes)


def _run(domain: Path, *words: str) -> bytes:
    command = [sys.executable, "-m", "holdfast", "directory", *words, "--dir", str(domain)]
    done = subprocess.run(command, capture_output=True, timeout=WAIT_S, check=False)
    if done.returncode != 0:
        raise Absent(f"`holdfast directory {words[0]}`: {done.stderr.decode('utf-8', 'replace').strip()}")
    return done.stdout


def _join(domain: Path, host: str) -> None:
    """As people do it, who type the command again when a master that is busy does not answer it."""
    for left in range(JOINS_MAX - 1, -1, -1):
        try:
            _run(domain, "join", host)
            return
        except Absent:
            if not left:
                raise
            time.sleep(LOOK_S)


def _status(domain: Path) -> dict[str, dict[str, object]]:
    found = json.decode(_run(domain, "status", "--output", "json"))
    return {each["master"]: each["replica"] for each in found}


def _replica(domain: Path, host: str) -> dict[str, object]:
    return _status(domain)[host]


def _problem(domain: Path, host: str) -> str:
    links = _replica(domain, host)["links"]
    assert isinstance(links, list), "a list of links"
    return next((each["problem"] for each in links if "what was before" in each["problem"]), "")


def _until(what: str, is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + WAIT_S
    while not is_so():
        if time.monotonic() > until:
            raise Absent(f"not so after {WAIT_S:g} s: {what}")
        time.sleep(LOOK_S)


def _copy_s(file: Path, to: Path) -> float:
    """How long ``cp`` and one fsync take."""
    began = time.perf_counter()
    subprocess.run(["cp", str(file), str(to)], check=True)
    with to.open("rb") as opened:
        os.fsync(opened.fileno())
    took_s = time.perf_counter() - began
    to.unlink(missing_ok=True)
    return took_s
