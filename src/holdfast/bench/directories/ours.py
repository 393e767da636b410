"""Holdfast's own directory: one master, as ``holdfast directory serve`` runs it."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from holdfast import __version__
from holdfast.bench.directories import PASSWORD, SUFFIX, RunningDirectory, run, stop
from holdfast.bench.systems import Absent


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
            "defaults, every change synced; loaded through the replica, as clients' adds are, without a wait "
            "for each sync"
        )

    def load(self, directory: Path, ldif: Path) -> float:
        (directory / "password").write_text(f"{PASSWORD}\n")
        command = [sys.executable, "-m", "holdfast.bench.directories.loading"]
        return run([*command, str(directory / "master"), SUFFIX, str(ldif)], what="loading Holdfast")

    @contextmanager
    def running(self, directory: Path) -> Iterator[RunningDirectory]:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "holdfast", "directory", "serve", "--dir", str(directory / "master")),
                *("--port", "0", "--output", "json"),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert process.stdout is not None, "it is a pipe"
        try:
            line = process.stdout.readline()
            if not line:
                raise Absent(f"`holdfast directory serve` ended with {process.wait()}")
            yield RunningDirectory(int(json.loads(line)["ldap"].rpartition(":")[2]), process.pid)
        finally:
            stop(process)
            process.stdout.close()

    def remove(self, directory: Path) -> None:
        """Everything is in *directory*."""
