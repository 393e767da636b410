"""Makes, joins and changes the description of a machine of a domain on several machines.

The authority's URL says where the domain is. ``holdfast://host:port/DOMAIN`` is an embedded authority, which
runs on the machine that listens or is reached at that host. ``etcd://a:2379,b:2379,c:2379/DOMAIN`` is etcd.
"""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from holdfast.agent.membership import join
from holdfast.authority.machines import MachineRecord, NotAdmitted, list_machines, remove_machine
from holdfast.authority.move.following import FollowingAuthority
from holdfast.authority.move.place import EtcdAccess
from holdfast.authority.recipe import Authority, Listing, Removed, perform
from holdfast.authority.remote import RemoteAuthority
from holdfast.authority.sessions import Session, list_sessions
from holdfast.machine.real_ports import fresh_nonce
from holdfast.model.errors import InvalidRequest, Rejected, Unavailable
from holdfast.model.ids import HostId
from holdfast.net import Address, ConnectionSettings, Role
from holdfast.net.certificates import AUTHORITY_ID, check_location, name_in
from holdfast.net.handshake import check_name
from holdfast.node.endpoints import admin_endpoint, endpoint_of, host_endpoint
from holdfast.node.layout import Description, Layout, host_ids
from holdfast.node.session import connect_authority

AGENT_PORT: Final = 7400
"""Where an agent listens unless told otherwise."""
AUTHORITY_S: Final = 10.0
"""How long a command waits for the authority before it says that it could not be reached."""
POLL_S: Final = 0.05
Answer = TypeVar("Answer")
EMBEDDED, ETCD = "holdfast://", "etcd://"
ENDPOINTS_MAX: Final = 16


@dataclass(frozen=True, slots=True)
class DomainUrl:
    """A domain and its authority."""

    domain: str
    authority: Address | None
    etcd: tuple[str, ...] = ()

    @classmethod
    def parse(cls, url: str) -> "DomainUrl":
        """Parse *url*; raises ``InvalidRequest`` for anything else than the two forms."""
        scheme = next((each for each in (EMBEDDED, ETCD) if url.startswith(each)), "")
        places, slash, domain = url.removeprefix(scheme).partition("/")
        addresses = places.split(",")
        if not scheme or not slash or (scheme == EMBEDDED and len(addresses) != 1):
            raise InvalidRequest(
                f"domain {url!r}: must be holdfast://host:port/DOMAIN, where the embedded authority is, or "
                "etcd://host:port[,host:port...]/DOMAIN"
            )
        check_name("domain", domain)
        if len(addresses) > ENDPOINTS_MAX:
            raise InvalidRequest(f"domain {url[:80]!r}: {len(addresses)} endpoints; {ENDPOINTS_MAX} may be")
        found = [Address.parse(each) for each in addresses]
        if scheme == ETCD:
            return cls(domain, None, tuple(f"http://{each}" for each in found))
        return cls(domain, found[0])


def new_machine(
    url: str,
    *,
    listen: str,
    location: str,
    name: str = "",
    hosts: int = 1,
    advertise: str = "",
    certs: Path | None = None,
    insecure: bool = False,
    app: Path | None = None,
    etcd_access: EtcdAccess | None = None,
) -> Description:
    """The description of a new machine. Raises ``InvalidRequest`` naming every problem."""
    domain, agent = DomainUrl.parse(url), listening(listen)
    check_location(location)
    name = name or location.rpartition("/")[2]
    app = app or Path()
    if not app.is_dir():
        raise InvalidRequest(f"{app} is not a directory to import classes from")
    description = Description(
        domain=domain.domain,
        hosts=host_ids(name, hosts),
        machine=name,
        token=secrets.token_hex(16),
        agent=name,
        agent_address=str(agent),
        listen=agent.host,
        advertise=advertise,
        location=location,
        certs="" if certs is None else str(certs.absolute()),
        insecure=insecure,
        app=str(app.absolute()),
        **_authority(domain, agent.host, advertise),
    )
    if etcd_access is not None:
        description = _with_access(description, etcd_access)
    check(description)
    return description


def _with_access(description: Description, access: EtcdAccess) -> Description:
    if not description.etcd_endpoints:
        raise InvalidRequest("the --etcd-... flags are for a domain on etcd: --domain etcd://...")
    scheme = "https://" if access.has_tls_files else "http://"
    endpoints = tuple(scheme + each.partition("://")[2] for each in description.etcd_endpoints)
    return msgspec.structs.replace(description, etcd_endpoints=endpoints, etcd_access=access)


def changed(
    known: Description,
    *,
    url: str | None = None,
    listen: str | None = None,
    advertise: str | None = None,
    location: str | None = None,
    certs: Path | None = None,
    insecure: bool | None = None,
    name: str | None = None,
) -> Description:
    """*known* with these changes. Raises ``InvalidRequest`` if the machine could not be like that.

    A domain on one machine becomes one on several, with this as its first, when it is given a *name*.
    """
    if not known.machine and not name:
        raise InvalidRequest("this domain is on one machine: give that a name with --name first")
    if known.machine and name not in (None, known.machine):
        raise InvalidRequest(f"this machine is {known.machine}: a machine's name stays what it is")
    changes: dict[str, Any] = {}
    if not known.machine:
        changes |= {"machine": name, "agent": name, "token": secrets.token_hex(16)}
    if location is not None:
        check_location(location)
        changes["location"] = location
    if certs is not None:
        changes |= {"certs": str(certs.absolute()), "insecure": False}
    if insecure is not None:
        if insecure and (known.certs or certs is not None):
            raise InvalidRequest(
                "this machine has certificates and talks by TLS: --insecure is for one without"
            )
        changes["insecure"] = insecure
    if advertise is not None:
        changes["advertise"] = advertise
    if listen is not None:
        agent = listening(listen)
        changes |= {"listen": agent.host, "agent_address": str(agent)}
    if url is not None:
        domain = DomainUrl.parse(url)
        if domain.domain != known.domain:
            raise InvalidRequest(f"this machine is of domain {known.domain}, not of {domain.domain}")
        host = changes.get("listen", known.listen)
        changes |= _authority(domain, host, changes.get("advertise", known.advertise))
        was_here, is_here = known.authority_listens is not None, changes["serves_authority"]
        if domain.authority is not None and was_here != is_here:
            where = "is on this machine" if was_here else "is not on this machine"
            raise InvalidRequest(
                f"the authority of {known.domain} {where}, and {url} says otherwise: an embedded authority "
                "moves to another address together with its machine (--listen)"
            )
    elif known.authority_listens is not None:
        new = msgspec.structs.replace(known, **changes)
        port = Address.parse(known.authority_address or "").port
        changes["authority_address"] = str(new.reached(Address(new.here.host, port)))
    description = msgspec.structs.replace(known, **changes)
    check(description)
    return description


def listening(text: str) -> Address:
    """Where an agent listens: ``host:port``, ``[ipv6]:port``, or either without a port. Raises
    ``InvalidRequest``."""
    has_port = text.rpartition(":")[2].isdigit() and (text.count(":") == 1 or "]:" in text)
    return Address.parse(text if has_port else f"{text}:{AGENT_PORT}")


def _authority(domain: DomainUrl, listen: str, advertise: str) -> dict[str, Any]:
    return {
        "authority_address": None if domain.authority is None else str(domain.authority),
        "etcd_endpoints": domain.etcd,
        "serves_authority": domain.authority is not None and domain.authority.host in (listen, advertise),
    }


def check(description: Description) -> None:
    """Raise ``InvalidRequest`` naming what is wrong with a description or with its certificates."""
    if problems := [*description.problems(), *_unreachable(description)]:
        raise InvalidRequest("; ".join(problems))
    if not description.certs:
        return
    owners = [(Role.AGENT, description.agent), (Role.ADMIN, description.machine)]
    if description.authority_listens is not None:
        owners.append((Role.AUTHORITY, AUTHORITY_ID))
    for role, id in owners:
        _check_tls(endpoint_of(None, description, role, id))
    for host in description.hosts:
        _check_tls(host_endpoint(None, description, host))
    _check_domain(description, [*owners, *((Role.HOST, host) for host in description.hosts)])


def _unreachable(description: Description) -> list[str]:
    """Why others could not find this machine, in words."""
    agent = Address.parse(description.agent_address)
    authority = Address.parse(description.authority_address) if description.authority_address else None
    found = [
        f"{what} at {address}: it needs a port that others can know, not 0"
        for what, address in (("its agent is", agent), ("the authority is", authority))
        if address is not None and address.port == 0
    ]
    reached = description.reached(agent)
    if authority is not None and reached.is_loopback and not authority.is_loopback:
        found.append(
            f"other machines would look for it at {reached.host}, and find themselves; the authority is at "
            f"{authority}, so it must listen on an address that is reached from there, or --advertise one"
        )
    return found


def check_host(description: Description, host: HostId) -> None:
    """Raise ``InvalidRequest`` if a host of *description* could not start for want of a certificate, or with
    that of another host, domain or location."""
    if description.certs:
        _check_tls(host_endpoint(None, description, host))
        _check_domain(description, [(Role.HOST, host)])


def _check_tls(endpoint: ConnectionSettings) -> None:
    if endpoint.tls is not None:
        endpoint.tls.check()


def _check_domain(description: Description, owners: Iterable[tuple[Role, str]]) -> None:
    for role, id in owners:
        file = Path(description.certs) / f"{role}-{id}.pem"
        found = name_in(file)
        if (found.domain, found.role, found.id) != (description.domain, role, id):
            raise InvalidRequest(
                f"{file} is the certificate of {found.role} {found.id} of domain {found.domain!r}: "
                f"needed is one of {role} {id} of domain {description.domain!r}"
            )


def check_is_new(layout: Layout) -> None:
    """Raise ``InvalidRequest`` if the directory has a domain: its files say where another authority is."""
    if layout.exists:
        raise InvalidRequest(
            f"{layout.directory} holds a domain already; a machine needs a directory of its own"
        )


async def found_or_join(layout: Layout, description: Description) -> None:
    """Write the description of a new machine, and enter the machine at the authority unless that is on it.

    Raises ``Rejected`` with the reason why it is not admitted, ``Unavailable`` if the authority is out of
    reach. Then the machine has no description, but its directory remembers the token under which it may have
    been admitted: whoever tries again in that directory goes on with it. *Without that:* the answer to a join
    is lost, and the machine's name is taken for good, by itself.
    """
    check_is_new(layout)
    begun = layout.joining(description.machine, description.domain)
    if begun is not None:
        description = msgspec.structs.replace(description, token=begun.token)
    layout.begin_joining(description)
    layout.prepare(description)
    if description.authority_listens is None:  # otherwise its agent enters it once the authority runs
        async with authority_of(layout, description) as authority:
            outcome = await answered(authority, description, join(authority, description))
        if isinstance(outcome, NotAdmitted):
            layout.end_joining()
            raise Rejected(outcome.why)
    layout.write(description)
    layout.end_joining()


@asynccontextmanager
async def authority_of(layout: Layout, description: Description) -> AsyncIterator[FollowingAuthority]:
    """The domain's authority, as an admin of this machine asks it."""
    authority = connect_authority(description, admin_endpoint(layout, description), layout)
    try:
        yield authority
    finally:
        await authority.close()


async def answered(
    authority: FollowingAuthority, description: Description, work: Coroutine[Any, Any, Answer]
) -> Answer:
    """What *work* comes to. Raises ``Unavailable`` with the reason if that takes too long, and at once if the
    authority and this machine refuse each other.
    """
    where = description.authority_address or ",".join(description.etcd_endpoints)
    deadline = time.monotonic() + AUTHORITY_S
    task = asyncio.ensure_future(work)
    backend = authority.backend
    embedded = backend if isinstance(backend, RemoteAuthority) else None
    try:
        while True:
            await asyncio.wait({task}, timeout=POLL_S)
            if task.done():
                return task.result()
            if embedded is not None and embedded.is_refused:
                raise Unavailable(f"the authority at {where} and this machine: {embedded.failure}")
            if time.monotonic() > deadline:
                why = f": {embedded.failure}" if embedded is not None and embedded.failure else ""
                raise Unavailable(f"the authority at {where} did not answer within {AUTHORITY_S:g} s{why}")
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def machines_of(
    layout: Layout, description: Description
) -> list[tuple[MachineRecord, dict[HostId, Session]]]:
    """The machines of the domain, each with the sessions of its hosts. Raises ``Unavailable``."""
    async with authority_of(layout, description) as authority:
        machines = await answered(authority, description, _listed(authority, list_machines))
        sessions = await answered(authority, description, _listed(authority, list_sessions))
    by_host = {each.host: each for each in sessions}
    return [
        (each, {host: by_host[host] for host in each.hosts if host in by_host})
        for each in machines
        if not each.is_removed
    ]


async def _listed(authority: Authority, listing: Any) -> list[Any]:
    while not isinstance(found := await perform(authority, listing()), Listing):
        await asyncio.sleep(POLL_S)
    return [seen.value for seen in found.items]


async def has_left(layout: Layout, description: Description) -> bool:
    """Whether the authority has noted that this machine is of the domain no more. Raises ``Unavailable``."""
    async with authority_of(layout, description) as authority:
        machines = await answered(authority, description, _listed(authority, list_machines))
    own = next((each for each in machines if each.machine == description.machine), None)
    return own is not None and (own.is_removed or own.token != description.token)


async def strike_out(layout: Layout, description: Description, machine: str) -> None:
    """Note at the authority that *machine* is of the domain no more. Raises ``Unavailable``."""
    nonce = fresh_nonce()

    async def struck(authority: Authority) -> None:
        while not isinstance(await perform(authority, remove_machine(machine, nonce=nonce)), Removed):
            await asyncio.sleep(POLL_S)

    async with authority_of(layout, description) as authority:
        await answered(authority, description, struck(authority))
