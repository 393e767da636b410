"""The file in a host's directory with the longest lease that its processes may have granted (R5)."""

from functools import partial
from pathlib import Path
from typing import Final

import structlog

from holdfast.machine.files import write_durably
from holdfast.sequence.config import LEASE_NS_MAX
from holdfast.sequence.leases import LeaseNote
from holdfast.storage.volume import translated

FILE: Final = "longest-lease"
"""The name of the file in the host's directory; it holds a number of nanoseconds."""

log = structlog.get_logger("holdfast.leases")


def open_lease_note(directory: Path) -> LeaseNote:
    """Open the note in *directory*, which this host has locked. One that cannot be read stands for the
    longest lease of all: waiting longer is always safe."""
    path = directory / FILE
    try:
        noted_ns = int(path.read_bytes()[:32])
    except FileNotFoundError:
        noted_ns = 0
    except (OSError, ValueError) as error:
        log.warning("what this host granted before cannot be read", file=str(path), why=str(error))
        noted_ns = LEASE_NS_MAX
    return LeaseNote(noted_ns if 0 <= noted_ns <= LEASE_NS_MAX else LEASE_NS_MAX, partial(_keep, path))


def _keep(path: Path, lease_ns: int) -> None:
    try:
        write_durably(path, b"%d\n" % lease_ns)
    except OSError as error:
        raise translated(error, str(path)) from error
