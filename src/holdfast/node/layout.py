"""Where a domain on this machine keeps its files, and the one file that describes it.

A domain on several machines has such a directory on each of them. Its `domain.json` describes that machine:
its name, its hosts, its agent, its addresses, its certificates, and how the authority is reached. A domain on
one machine is the simplest case: its machine has no name, and everything is on loopback.

::

    DIR/domain.json          what the domain is: id, authority, agent, hosts
    DIR/holdfast.toml        its settings, as people edit them; DIR/applied.toml, as processes read them
    DIR/secret               with which its processes know each other on this machine; DIR/keys, of others
    DIR/lock                 held by the process that starts or shows the domain
    DIR/agent/               locked by the agent; the lock says who holds the domain
    DIR/authority/           the embedded authority's file
    DIR/authority.json       where the authority is, once it has moved
    DIR/etcd/                the certificates and the password that an etcd asks for
    DIR/hosts/<id>/          a host's store, locked while the host lives
    DIR/output/<name>.log    what each process wrote to its standard error; beside it, the older part
"""

import os
import re
from pathlib import Path
from typing import Final

import msgspec

from holdfast.app_code.finder import ClassName
from holdfast.authority.move.place import EtcdAccess, Place, etcd_for, sqlite_at
from holdfast.authority.move.place_file import read_whereabouts
from holdfast.control.replication.spec import LOSS_NS
from holdfast.machine.files import make_durably, make_private, narrow_own, open_private
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import SECOND, HostId
from holdfast.net import Address, DomainSecret
from holdfast.net.secret_file import DIRECTORY_DEFAULT as DIRECTORY_DEFAULT
from holdfast.net.secret_file import ensure_secret, read_secret
from holdfast.node.port_table import AGENT, ANY, AUTHORITY, HostPorts, host_ports, slots, why_not

HOSTS_MAX = 64
AGENT_ID: Final = "agent1"
"""The id of the agent of a domain on one machine."""
ALLOWED_CLASSES_MAX = 256
OWN_NAMES: Final = (
    *("domain.json", "domain.new", "http.json", "holdfast.toml", "applied.toml", "applied.toml.new"),
    *("certs", "lock", "secret", "keys"),
    *("agent", "authority", "authority.json", "etcd", "hosts", "output"),
)
"""The names that a domain creates in its directory. Other names there are somebody else's."""
LOOPBACK: Final = "127.0.0.1"
WILDCARDS: Final = {"0.0.0.0": LOOPBACK, "::": "::1"}
"""Addresses that stand for every interface: others cannot connect to them, this machine can by loopback."""
VERSION = 1
_HOST_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
"""A host's id is also the name of a directory."""


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of `domain.json`. Addresses are where this machine's processes listen, across restarts."""

    domain: str
    """Id of the domain; processes of different domains refuse each other."""
    hosts: tuple[HostId, ...]
    """The hosts on this machine."""
    agent_address: str
    """Where this machine's agent listens."""
    authority_address: str | None = None
    """Where the embedded authority is reached; None if the authority is etcd."""
    serves_authority: bool = True
    """Whether the embedded authority is on this machine."""
    machine: str = ""
    """This machine's name in a domain on several; empty if the domain is on this one alone."""
    token: str = ""
    """Made by `holdfast machine init`: it tells this machine from an earlier one of the same name."""
    agent: str = AGENT_ID
    """The id of this machine's agent, which alone can prove the deaths of its hosts (K2)."""
    location: str = ""
    """Where the machine is, as ``rack1/m2``: members of a group are placed in different locations."""
    listen: str = ""
    """The name or address that this machine's hosts listen on; empty is loopback."""
    advertise: str = ""
    """The name or address under which others reach this machine, if it is not *listen*."""
    certs: str = ""
    """The directory with this machine's certificates; empty means plain TCP."""
    insecure: bool = False
    """Permit plain TCP beyond loopback: whoever is on the way can read and change everything."""
    etcd_endpoints: tuple[str, ...] = ()
    etcd_access: EtcdAccess = EtcdAccess()
    """With what the etcd lets this domain in: its certificates, its user, the prefix of its keys."""
    app: str = "."
    """The directory from which hosts import the classes of groups."""
    allowed_classes: tuple[str, ...] = ()
    """Classes of installed packages that groups may be made of, as ``package.module:Class``."""
    allows_chaos: bool = True
    """Whether an admin may make hosts ignore each other's traffic. So far, all hosts are on loopback."""
    loss_s: float = LOSS_NS / SECOND
    """A host that is gone for so long is considered lost: its members are replaced elsewhere."""
    port_base: int = 0
    """The first of the ports that this machine's processes listen on (:mod:`.port_table`); 0: any ports."""
    port_slots: dict[HostId, int] = {}
    """Which of the fixed ports are whose."""
    version: int = VERSION

    def problems(self) -> list[str]:
        """What this release cannot use in a description that another release or a person wrote, in words."""
        found = []
        if self.version != VERSION:
            found.append(f"it is of version {self.version}, this release knows version {VERSION}")
        fewest = 0 if self.machine else 1  # a machine may have nothing but the authority
        if not fewest <= len(set(self.hosts)) == len(self.hosts) <= HOSTS_MAX:
            found.append(f"it must name {fewest} to {HOSTS_MAX} hosts, each once")
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
        if self.authority_address is None and not self.etcd_endpoints:
            found.append("it must name either an authority's address or the endpoints of an etcd")
        if self.etcd_endpoints:
            found += etcd_for(self.domain, self.etcd_endpoints, self.etcd_access).problems()
        for address in filter(None, (self.agent_address, self.authority_address)):
            try:
                Address.parse(address)
            except InvalidRequest as error:
                found.append(str(error))
        if why := why_not(self.port_base, HOSTS_MAX):
            found.append(why)
        return [*found, *self._machine_problems()]

    def _machine_problems(self) -> list[str]:
        """What is wrong with what it says of its machine."""
        found = []
        for what, name in (("machine", self.machine), ("agent", self.agent)):
            if name and not _HOST_ID.fullmatch(name):
                found.append(f"{name!r} cannot be the name of its {what}")
        if self.listen in WILDCARDS and not self.advertise:
            found.append(
                f"it listens on {self.listen}, where nobody can reach it: it must advertise an address"
            )
        if not (self.certs or self.insecure or self.here.is_loopback):
            found.append(
                f"it listens on {self.listen}, beyond this machine: it needs certificates (--certs, made by "
                "`holdfast certs machine`) or an explicit --insecure"
            )
        return found

    @property
    def first_place(self) -> Place:
        """Where the authority was when this machine came to the domain; it may have moved since (A8)."""
        if self.etcd_endpoints:
            return etcd_for(self.domain, self.etcd_endpoints, self.etcd_access)
        return sqlite_at(self.authority_address or "")

    @property
    def here(self) -> Address:
        """Where a process of this machine listens, at any port."""
        return Address(self.listen or LOOPBACK, 0)

    def ports_of(self, host: HostId) -> HostPorts:
        """The ports that *host* listens on."""
        slot = self.port_slots.get(host)
        return host_ports(self.port_base, slot) if self.port_base and slot is not None else ANY

    def with_ports(self, base: int) -> "Description":
        """This description with fixed ports from *base* on, or with any if it is 0.

        On a machine of several, the agent and the authority stay where its others know them to be.
        """
        found = slots(self.port_slots, self.hosts) if base else {}
        fixed = msgspec.structs.replace(self, port_base=base, port_slots=found)
        if not base or self.machine:
            return fixed
        agent = str(Address(LOOPBACK, base + AGENT))
        authority = None if self.authority_address is None else str(Address(LOOPBACK, base + AUTHORITY))
        return msgspec.structs.replace(fixed, agent_address=agent, authority_address=authority)

    def reached(self, listening: Address) -> Address:
        """How others reach a process of this machine that listens there."""
        return Address(self.advertise or listening.host, listening.port)

    @property
    def own_agent(self) -> str:
        """How processes of this machine reach its agent."""
        agent = Address.parse(self.agent_address)
        return str(Address(WILDCARDS.get(agent.host, agent.host), agent.port))

    @property
    def authority_listens(self) -> Address | None:
        """Where this machine's embedded authority listens; None if it has none."""
        if self.authority_address is None or not self.serves_authority:
            return None
        reached = Address.parse(self.authority_address)
        return Address(self.listen or reached.host, reached.port)


def host_ids(machine: str, count: int) -> tuple[HostId, ...]:
    """The ids of a machine's hosts: its own name if it has one, else numbered names.

    Raises ``InvalidRequest`` for a number that no machine can have.
    """
    if not 0 <= count <= HOSTS_MAX:
        raise InvalidRequest(f"a machine can have 0 to {HOSTS_MAX} hosts, not {count}")
    return (HostId(machine),) if count == 1 else tuple(HostId(f"{machine}-{n}") for n in range(1, count + 1))


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

    def authority_place(self, description: Description) -> Place:
        """Where the authority was found last. An embedded one is where the description says by now."""
        known = read_whereabouts(self.directory)
        if known is None:
            return description.first_place
        if known.place.kind == "sqlite" and description.authority_address is not None:
            return sqlite_at(description.authority_address)
        return known.place

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
