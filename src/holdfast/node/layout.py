"""Where a domain on this machine keeps its files, and the one file that describes it.

::

    DIR/domain.json          what the domain is: id, authority, agent, hosts
    DIR/secret               with which its processes know each other on this machine; DIR/keys, of others
    DIR/lock                 held by the process that starts or shows the domain
    DIR/agent/               locked by the agent; the lock says who holds the domain
    DIR/authority/           the embedded authority's file
    DIR/hosts/<id>/          a host's store, locked while the host lives
    DIR/output/<name>.log    what each process wrote to its standard error; beside it, the older part
"""

import os
import re
from pathlib import Path
from typing import Final

import msgspec

from holdfast.app_code.finder import ClassName
from holdfast.control.replication.spec import LOSS_NS
from holdfast.machine.files import make_durably, make_private, narrow_own, open_private
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import SECOND, HostId
from holdfast.net import Address, DomainSecret
from holdfast.net.secret_file import DIRECTORY_DEFAULT as DIRECTORY_DEFAULT
from holdfast.net.secret_file import ensure_secret, read_secret

HOSTS_MAX = 64
ALLOWED_CLASSES_MAX = 256
OWN_NAMES: Final = (
    *("domain.json", "domain.new", "http.json", "certs", "lock", "secret", "keys"),
    *("agent", "authority", "hosts", "output"),
)
"""The names that a domain creates in its directory. Other names there are somebody else's."""
VERSION = 1
_HOST_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
"""A host's id is also the name of a directory."""


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of `domain.json`. Addresses are where this machine's processes listen, across restarts."""

    domain: str
    """Id of the domain; processes of different domains refuse each other."""
    hosts: tuple[HostId, ...]
    agent_address: str
    authority_address: str | None = None
    """Where the embedded authority listens; None if the authority is etcd."""
    etcd_endpoints: tuple[str, ...] = ()
    app: str = "."
    """The directory from which hosts import the classes of groups."""
    allowed_classes: tuple[str, ...] = ()
    """Classes of installed packages that groups may be made of, as ``package.module:Class``."""
    allows_chaos: bool = True
    """Whether an admin may make hosts ignore each other's traffic. So far, all hosts are on loopback."""
    loss_s: float = LOSS_NS / SECOND
    """A host that is gone for so long is considered lost: its members are replaced elsewhere."""
    version: int = VERSION

    def problems(self) -> list[str]:
        """What this release cannot use in a description that another release or a person wrote, in words."""
        found = []
        if self.version != VERSION:
            found.append(f"it is of version {self.version}, this release knows version {VERSION}")
        if not 1 <= len(set(self.hosts)) == len(self.hosts) <= HOSTS_MAX:
            found.append(f"it must name 1 to {HOSTS_MAX} hosts, each once")
        found += [f"{host!r} cannot be a host's id" for host in self.hosts if not _HOST_ID.fullmatch(host)]
        if len(self.allowed_classes) > ALLOWED_CLASSES_MAX:
            found.append(f"it allows {len(self.allowed_classes)} classes; {ALLOWED_CLASSES_MAX} may be")
        for name in self.allowed_classes[:ALLOWED_CLASSES_MAX]:
            try:
                ClassName.parse(name)
            except InvalidRequest as error:
                found.append(str(error))
        if not self.loss_s > 0:
            found.append(f"a host is lost after {self.loss_s} s; that must be more than 0")
        if (self.authority_address is None) != bool(self.etcd_endpoints):
            found.append("it must name either an authority's address or the endpoints of an etcd")
        for address in filter(None, (self.agent_address, self.authority_address)):
            try:
                Address.parse(address)
            except InvalidRequest as error:
                found.append(str(error))
        return found


class Layout:
    """The paths of one domain directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory.absolute()
        self.description_file = self.directory / "domain.json"
        self.agent_directory = self.directory / "agent"
        self.authority = self.directory / "authority"

    def host(self, host: HostId) -> Path:
        return self.directory / "hosts" / host

    def output(self, process: str) -> Path:
        return self.directory / "output" / f"{process}.log"

    @property
    def exists(self) -> bool:
        return self.description_file.exists()

    def read(self) -> Description:
        """Read the domain's description. Raises ``InvalidRequest`` if there is none or it cannot be used."""
        try:
            description = msgspec.json.decode(self.description_file.read_bytes(), type=Description)
        except FileNotFoundError:
            raise InvalidRequest(
                f"{self.directory} holds no domain; start one with `holdfast up --dir {self.directory}`"
            ) from None
        except msgspec.DecodeError as error:
            raise InvalidRequest(f"{self.description_file} is not a domain's description: {error}") from None
        problems = description.problems()
        if problems:
            raise InvalidRequest(f"{self.description_file} cannot be used: {'; '.join(problems)}")
        return description

    def write(self, description: Description) -> None:
        """Replace the description atomically and durably: a domain's etcd keys are under its id (D3)."""
        make_private(self.directory)
        aside = self.description_file.with_suffix(".new")
        with open_private(aside, os.O_WRONLY | os.O_TRUNC) as file:
            file.write(msgspec.json.format(msgspec.json.encode(description)) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        aside.rename(self.description_file)
        make_durably(self.agent_directory)  # this also syncs every name above it, including the description's

    def secret(self, domain: str) -> DomainSecret:
        """The domain's secret. Raises ``InvalidRequest`` if it cannot be read or is of another domain."""
        return read_secret(self.directory, domain)

    def prepare(self, description: Description) -> None:
        """Make every directory that the processes of *description* expect, and the domain's secret, and
        restrict the permissions of what earlier runs left. Raises ``InvalidRequest`` if that fails.
        """
        # "hosts" is listed because a directory that is only made as a parent gets the umask's permissions.
        own = (self.authority, self.directory / "output", self.directory / "hosts")
        for directory in (*own, *map(self.host, description.hosts)):
            make_private(directory)
        narrow_own(self.directory, OWN_NAMES)
        ensure_secret(self.directory, description.domain)
