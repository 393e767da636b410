"""The peer 389 Directory Server: Debian's, made by ``dscreate``, loaded by ``ldif2db``.

``dscreate`` keeps an instance below ``/etc/dirsrv`` and ``/var/lib/dirsrv`` and needs root; the instance has
a name of its own and is removed after the run.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
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

PROGRAM: Final = "ns-slapd"
CREATE: Final = "dscreate"
CONTROL: Final = "dsctl"
INSTANCES: Final = Path("/etc/dirsrv")
BACKEND: Final = "userroot"
PYTHON: Final = "/usr/bin/python3"
WITHOUT_SYSTEMD: Final = (
    "import runpy, sys; from lib389 import DirSrv; DirSrv.with_systemd = lambda self: False; "
    "sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
)
"""Runs one of lib389's programs, which would start the server by systemd wherever that is installed, also
where it does not run: in a container."""


@dataclass(slots=True)
class DirectoryServer389:
    """One instance, with a name of its own."""

    instance: str = field(default_factory=lambda: f"holdfast-bench-{os.getpid()}")
    port: int = 0

    @property
    def name(self) -> str:
        return "389-ds"

    @property
    def configuration(self) -> str:
        return (
            f"{_version()}, as dscreate makes it (durable transactions, its own indexes, access log on), "
            "loaded by ldif2db"
        )

    @property
    def _files(self) -> Path:
        return INSTANCES / f"slapd-{self.instance}"

    def load(self, directory: Path, ldif: Path) -> float:
        if shutil.which(PROGRAM) is None or shutil.which(CREATE) is None:
            raise Absent("no 389-ds on this machine (Debian: apt-get install 389-ds-base)")
        if os.geteuid() != 0:
            raise Absent("389-ds is made by dscreate, which needs root")
        (self.port,) = free_ports(1)
        answers = directory / "instance.inf"
        answers.write_text(
            "[general]\nconfig_version = 2\nfull_machine_name = localhost\nstrict_host_checking = False\n"
            "selinux = False\nsystemd = False\nstart = False\n"
            f"[slapd]\ninstance_name = {self.instance}\nport = {self.port}\nself_sign_cert = False\n"
            f"root_dn = {ADMIN}\nroot_password = {PASSWORD}\n"
            f"[backend-{BACKEND}]\nsuffix = {SUFFIX}\nsample_entries = no\n"
        )
        run(_of_lib389(CREATE, "from-file", str(answers)), what=CREATE)
        os.chmod(directory, 0o755)  # the server's own user reads the file
        return run(
            [PROGRAM, "ldif2db", "-D", str(self._files), "-n", BACKEND, "-i", str(ldif)], what="ldif2db"
        )

    @contextmanager
    def running(self, directory: Path) -> Iterator[RunningDirectory]:
        process = subprocess.Popen(
            [PROGRAM, "-D", str(self._files), "-i", str(directory / "dirsrv.pid"), "-d", "0"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            wait_until_open(self.port, process, self.name)
            yield RunningDirectory(self.port, process.pid)
        finally:
            stop(process)

    def remove(self, directory: Path) -> None:
        if self._files.exists():
            run(_of_lib389(CONTROL, self.instance, "remove", "--do-it"), what=f"removing {self.instance}")


def _of_lib389(program: str, *arguments: str) -> list[str]:
    return [PYTHON, "-c", WITHOUT_SYSTEMD, shutil.which(program) or program, *arguments]


def _version() -> str:
    found = subprocess.run([PROGRAM, "-v"], capture_output=True, text=True, check=False)
    return next((line for line in found.stdout.splitlines() if line.startswith("389-Directory/")), "389-ds")
