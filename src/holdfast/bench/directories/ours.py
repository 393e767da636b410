"""Holdfast's own directory: one master, as ``holdfast directory serve`` runs it, loaded by its own loader."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from holdfast import __version__
from holdfast.bench.directories import ADMIN, PASSWORD, SUFFIX, RunningDirectory, run, stop
from holdfast.bench.systems import START_S, Absent
from holdfast.directory.dn import Dn
from holdfast.directory.ldif import EntryRecord, write_record
from holdfast.directory.master import admin_entry, top_entry
from holdfast.directory.operations import AddRequest
from holdfast.directory.replica.passwords import SALT_BYTES, hashed

PASSWORD_ROUNDS: Final = 10_000


@dataclass(frozen=True, slots=True)
class HoldfastDirectory:
    """One master."""

    @property
    def name(self) -> str:
        return "Holdfast"

    @property
    def configuration(self) -> str:
        return (
            f"Holdfast {__version__}, Python {sys.version.partition(' ')[0]}, `directory serve` with its "
            "defaults, every change synced; loaded by `directory import`"
        )

    def load(self, directory: Path, ldif: Path) -> float:
        administered = directory / "administered.ldif"
        _administer(ldif, administered)
        command = [
            sys.executable,
            "-m",
            "holdfast",
            "directory",
            "import",
            "--dir",
            str(directory / "master"),
        ]
        return run([*command, str(administered)], what="loading Holdfast")

    @contextmanager
    def running(self, directory: Path) -> Iterator[RunningDirectory]:
        command = ("serve", "--dir", str(directory / "master"), "--port", "0")
        with running_command(*command) as (told, pid):
            yield RunningDirectory(int(told["ldap"].rpartition(":")[2]), pid)

    def remove(self, directory: Path) -> None:
        """Everything is in *directory*."""


@contextmanager
def running_command(*command: str) -> Iterator[tuple[dict[str, Any], int]]:
    """``holdfast directory`` with such a *command*, once it serves: what it says of itself, and its pid."""
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast", "directory", *command, "--output", "json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert process.stdout is not None, "it is a pipe"
    try:
        line = process.stdout.readline()
        if not line:
            raise Absent(f"`holdfast directory {command[0]}` ended with {process.wait(START_S)}")
        yield json.loads(line), process.pid
    finally:
        stop(process)
        process.stdout.close()


def _administer(ldif: Path, administered: Path) -> None:
    """The same persons, below an entry that names an administrator with the password that all servers have:
    the others have theirs in a file of settings."""
    secret = hashed(PASSWORD.encode(), os.urandom(SALT_BYTES), PASSWORD_ROUNDS)
    with ldif.open("rb") as persons, administered.open("wb") as out:
        while persons.readline().strip():
            continue  # the suffix's own entry, which is written anew
        for each in (top_entry(Dn.parse(SUFFIX), ADMIN), admin_entry(ADMIN, secret)):
            out.write(_written(each))
        shutil.copyfileobj(persons, out)


def _written(entry: AddRequest) -> bytes:
    return write_record(EntryRecord(0, entry.dn, entry.attributes))
