"""Where a domain on this machine keeps its files, and the one file that describes it.

::

    DIR/domain.json          what the domain is: id, authority, agent, hosts
    DIR/agent/               locked by the agent; the lock says who holds the domain
    DIR/authority/           the embedded authority's file
    DIR/hosts/<id>/          a host's store, locked while the host lives
    DIR/output/<name>.log    what each process wrote to its standard error
"""

import os
from pathlib import Path

import msgspec

from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import HostId

DIRECTORY_DEFAULT = Path(".holdfast")
HOSTS_MAX = 64


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """What `domain.json` says. Addresses are where this machine's processes listen, kept across restarts."""

    domain: str
    """Id of the domain; processes of different domains refuse each other."""
    hosts: tuple[HostId, ...]
    agent_address: str
    authority_address: str | None = None
    """Where the embedded authority listens; None when the authority is etcd."""
    etcd_endpoints: tuple[str, ...] = ()
    version: int = 1


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
        """The domain's description; ``InvalidRequest`` when there is none or it cannot be understood."""
        try:
            return msgspec.json.decode(self.description_file.read_bytes(), type=Description)
        except FileNotFoundError:
            raise InvalidRequest(
                f"{self.directory} holds no domain; start one with `holdfast up --dir {self.directory}`"
            ) from None
        except msgspec.DecodeError as error:
            raise InvalidRequest(f"{self.description_file} is not a domain's description: {error}") from None

    def write(self, description: Description) -> None:
        """Replace the description atomically."""
        self.directory.mkdir(parents=True, exist_ok=True)
        aside = self.description_file.with_suffix(".new")
        aside.write_bytes(msgspec.json.format(msgspec.json.encode(description)) + b"\n")
        with aside.open("rb") as file:
            os.fsync(file.fileno())
        aside.rename(self.description_file)

    def prepare(self, description: Description) -> None:
        """Make every directory that the processes of *description* expect."""
        for directory in (self.authority, self.directory / "output", *map(self.host, description.hosts)):
            directory.mkdir(parents=True, exist_ok=True)
