"""The peer OpenLDAP: Debian's slapd on LMDB, every change synced, loaded by ``slapadd -q``."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from holdfast.bench.directories import (
    ADMIN,
    PASSWORD,
    SUFFIX,
    RunningDirectory,
    run,
    stop,
    wait_until_open,
)
from holdfast.bench.systems import Absent
from holdfast.bench.systems.grpc import free_ports

PROGRAM: Final = "/usr/sbin/slapd"
LOADER: Final = "/usr/sbin/slapadd"
SCHEMAS: Final = Path("/etc/ldap/schema")
MODULES: Final = Path("/usr/lib/ldap")
MAP_BYTES: Final = 8 << 30
INDEXES: Final = (
    "index objectClass,employeeNumber,title,l,description eq",
    "index uid,cn,sn,givenName,mail,telephoneNumber eq,sub",
)
"""What Holdfast has of these attributes without being asked."""


@dataclass(frozen=True, slots=True)
class Slapd:
    """One slapd."""

    @property
    def name(self) -> str:
        return "slapd"

    @property
    def configuration(self) -> str:
        return (
            f"{_version()}, back-mdb with syncs, defaults but for the size of its map; "
            f"{'; '.join(INDEXES)}; loaded by slapadd -q"
        )

    def load(self, directory: Path, ldif: Path) -> float:
        if shutil.which(PROGRAM) is None:
            raise Absent("no slapd on this machine (Debian: apt-get install slapd)")
        (directory / "db").mkdir()
        included = "\n".join(
            f"include {SCHEMAS / name}.schema" for name in ("core", "cosine", "inetorgperson")
        )
        indexes = "\n".join(INDEXES)
        (directory / "slapd.conf").write_text(
            f"{included}\nmodulepath {MODULES}\nmoduleload back_mdb\n"
            f"pidfile {directory / 'slapd.pid'}\nloglevel 0\nsizelimit unlimited\n"
            f'database mdb\nsuffix "{SUFFIX}"\nrootdn "{ADMIN}"\nrootpw {PASSWORD}\n'
            f"directory {directory / 'db'}\nmaxsize {MAP_BYTES}\n{indexes}\n"
        )
        command = [LOADER, "-q", "-f", str(directory / "slapd.conf"), "-l", str(ldif)]
        return run(command, what="slapadd")

    @contextmanager
    def running(self, directory: Path) -> Iterator[RunningDirectory]:
        (port,) = free_ports(1)
        process = subprocess.Popen(
            [PROGRAM, "-d", "0", "-f", str(directory / "slapd.conf"), "-h", f"ldap://127.0.0.1:{port}/"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            wait_until_open(port, process, self.name)
            yield RunningDirectory(port, process.pid)
        finally:
            stop(process)

    def remove(self, directory: Path) -> None:
        """Everything is in *directory*."""


def _version() -> str:
    found = subprocess.run([PROGRAM, "-VV"], capture_output=True, text=True, check=False)
    words = (found.stdout + found.stderr).split()
    return next((f"OpenLDAP {word}" for word in words if word[:1].isdigit()), "OpenLDAP")
