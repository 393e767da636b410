"""What the faults need from the machine: root, two devices, a compiler. Without them a test skips, with a
reason, or fails where CI must have them."""

import os
import shutil
from pathlib import Path

from means import missing

_CAP_SYS_ADMIN = 21


def require_fuse() -> None:
    """Require, for ``disk``, the device of user-space file systems, and the right to mount."""
    require_device("/dev/fuse")


def require_tun() -> None:
    """Require, for ``internet``, the device of user-space networks, the right to make namespaces, and a way
    into them."""
    require_device("/dev/net/tun")
    require_program("nsenter")


def require_compiler() -> str:
    """Require, for ``preload``, the C compiler; return its path."""
    return require_program("gcc")


def require_device(path: str) -> None:
    """Require a device of this machine, and the right to use what it stands for."""
    if not _has_capability(_CAP_SYS_ADMIN):  # root in a container often lacks it
        missing(f"right to mount and to make namespaces (CAP_SYS_ADMIN, needed with {path})")
    try:
        os.close(os.open(path, os.O_RDWR))
    except OSError as error:
        missing(f"{path} ({error.strerror})")


def _has_capability(number: int) -> bool:
    status = Path("/proc/self/status").read_text()
    effective = next(line for line in status.splitlines() if line.startswith("CapEff:"))
    return bool(int(effective.split()[1], 16) >> number & 1)


def require_program(name: str) -> str:
    """Require a program; return its path."""
    found = shutil.which(name)
    if found is None:
        missing(f"{name} program")
    return found
