"""What a running host has in force, and how it takes a change without a restart.

The host looks twice a second whether another file was applied. It takes what a running host can take, goes on
with the rest as it started, and writes down which is which, beside its store: `holdfast config` reads it.
A file that cannot be used changes nothing: `holdfast config apply` lets none pass, and a person who wrote one
into its place finds why in the host's log.
"""

import asyncio
import os
from collections.abc import Callable, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Final

import msgspec
import structlog
from msgspec import Struct

from holdfast.machine.files import write_durably
from holdfast.model.errors import HoldfastError
from holdfast.node.host_config import HostConfig
from holdfast.settings.contract import Read, Source
from holdfast.settings.file import APPLIED, read_applied
from holdfast.settings.sections import Settings, differing, merged, settings
from holdfast.settings.units import Value
from holdfast.storage.volume import translated

FILE: Final = "settings.json"
"""The name of the file in the host's directory."""
LOOK_S: Final = 0.5

log = structlog.get_logger("holdfast.settings")


class InForce(Struct, frozen=True, kw_only=True):
    """What one host has in force."""

    pid: int
    applied: str
    """The digest of the file that it has taken."""
    values: dict[str, Value]
    sources: dict[str, Source]
    at_restart: tuple[str, ...] = ()
    """Settings that were applied since the host started, and wait for its restart."""


def read_in_force(directory: Path) -> InForce | None:
    """What the host of that directory says; None if it says nothing that can be read."""
    try:
        return msgspec.json.decode((directory / FILE).read_bytes(), type=InForce)
    except (OSError, msgspec.DecodeError):
        return None


def digest_of_applied(directory: Path) -> str:
    """The digest of the file that was applied to the domain in *directory*."""
    try:
        content = (directory / APPLIED).read_bytes()
    except FileNotFoundError:
        content = b""
    return blake2b(content, digest_size=8).hexdigest()


class Following:
    """How one host's process follows what is applied to its domain."""

    def __init__(
        self,
        domain: Path,
        host: Path,
        started: Read,
        retune: Callable[[HostConfig], None],
        environment: Mapping[str, str],
    ) -> None:
        """*started*: the settings that the process was started with."""
        self._domain = domain
        self._host = host
        self._running: Settings = started.settings
        self._retune = retune
        self._environment = environment
        self._looked: tuple[int, int, int] | None = self._stamp()
        self._keep(started, started.settings)

    async def work(self) -> None:
        """Follow until cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            stamp = self._stamp()
            if stamp != self._looked:
                self._looked = stamp
                self.take()

    def take(self) -> None:
        """Take what is applied now."""
        found = read_applied(self._domain, self._environment)
        if found.problems:
            log.error("the settings cannot be used; nothing is changed", problems=list(found.problems))
            return
        before, self._running = self._running, merged(self._running, found.settings)
        changed = [each.name for each in differing(before, self._running)]
        try:
            self._retune(self._running.host)
        except HoldfastError as error:
            log.error("the settings were not taken", why=str(error))
            return
        self._keep(found, found.settings)
        log.info("other settings are in force", changed=changed)

    def _keep(self, found: Read, wanted: Settings) -> None:
        record = InForce(
            pid=os.getpid(),
            applied=digest_of_applied(self._domain),
            values={name: self._running.value(each) for name, each in settings().items()},
            sources=dict(found.sources),
            at_restart=tuple(each.name for each in differing(self._running, wanted)),
        )
        try:
            write_durably(self._host / FILE, msgspec.json.encode(record))
        except OSError as error:
            raise translated(error, str(self._host / FILE)) from error  # whatever a disk fails at (D1)

    def _stamp(self) -> tuple[int, int, int] | None:
        try:
            found = (self._domain / APPLIED).stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size
