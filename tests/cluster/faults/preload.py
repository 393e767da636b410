"""Faults of one process's own calls, by a library that the dynamic linker loads before libc.

The library (``failing_sync.c``) needs no root and no device and is exact to the call. ``disk`` affects every
program, and also knows what is left afterwards.
"""

import os
import subprocess
from dataclasses import dataclass, fields
from pathlib import Path

from .machine import require_compiler

_SOURCE = Path(__file__).with_name("failing_sync.c")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFaults:
    """Which of a process's calls on files below a directory fail; the first is number 1, None means none."""

    sync_eio_at: int | None = None
    sync_kill_at: int | None = None
    """Killed instead of this sync."""
    sync_kill_after: int | None = None
    """Killed when this sync is done, before anyone can be told."""
    write_enospc_at: int | None = None
    """This write or allocation and all later ones fail."""
    write_short_at: int | None = None


def build_library(directory: Path) -> Path:
    """Compile the library into *directory*; skips the test, with a reason, where there is no compiler."""
    library = directory / "failing_sync.so"
    command = [
        require_compiler(),
        "-shared",
        "-fPIC",
        "-O1",
        "-Wall",
        "-Werror",
        "-o",
        str(library),
        str(_SOURCE),
        "-ldl",
    ]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return library


def environment(library: Path, under: Path, faults: CallFaults) -> dict[str, str]:
    """Return the environment in which a program suffers *faults* on files below *under*."""
    chosen = {f"FAULT_{f.name.upper()}": getattr(faults, f.name) for f in fields(faults)}
    settings = {name: str(n) for name, n in chosen.items() if n is not None}
    return {**os.environ, **settings, "LD_PRELOAD": str(library), "FAULT_UNDER": str(under.resolve())}
