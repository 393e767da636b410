"""What the faults need of the machine: root, two devices, a compiler. Without them a test skips, loudly."""

import os
import shutil
from pathlib import Path

import pytest

_CAP_SYS_ADMIN = 21


def require_fuse() -> None:
    """For ``disk``: the device of user-space file systems, and the right to mount."""
    _require_device("/dev/fuse")


def require_tun() -> None:
    """For ``internet``: the device of user-space networks, the right to make namespaces, a way into them."""
    _require_device("/dev/net/tun")
    _require_program("nsenter")


def require_compiler() -> str:
    """For ``preload``: the C compiler's path."""
    return _require_program("gcc")


def _require_device(path: str) -> None:
    if not _has_capability(_CAP_SYS_ADMIN):  # root in a container often lacks it
        _skip(f"right to mount and to make namespaces (CAP_SYS_ADMIN, needed with {path})")
    try:
        os.close(os.open(path, os.O_RDWR))
    except OSError as error:
        _skip(f"{path} ({error.strerror})")


def _has_capability(number: int) -> bool:
    status = Path("/proc/self/status").read_text()
    effective = next(line for line in status.splitlines() if line.startswith("CapEff:"))
    return bool(int(effective.split()[1], 16) >> number & 1)


def _require_program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        _skip(f"{name} program")
    assert found is not None
    return found


def _skip(what: str) -> None:
    pytest.skip(f"SKIPPED LOUDLY: this machine has no {what}")
