"""Gives orders to a domain, on this machine or elsewhere, for the commands."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from holdfast.agent.status_client import address_of, addresses_of
from holdfast.calling.config import CallPolicy, ClientConfig
from holdfast.cli.output import talk
from holdfast.cli.where import Remote, Target
from holdfast.client.admin_client import AboutGroups, give
from holdfast.model.admin.groups import Answer, CreateGroup, GroupInfo, GroupList, ListGroups, Order
from holdfast.model.admin.hosts import HostInfo, HostList, ListHosts
from holdfast.model.errors import InvalidRequest, Unavailable
from holdfast.model.ids import HostId
from holdfast.net import Address, ConnectionSettings, PeerIdentity, Role, Tls
from holdfast.net.secret_file import read_secret
from holdfast.node.endpoints import admin_endpoint, expecting
from holdfast.node.layout import DIRECTORY_DEFAULT, Layout

if TYPE_CHECKING:
    from holdfast.client.domain import Domain

Given = TypeVar("Given", bound=Answer)


async def order_at(target: Target, wanted: AboutGroups) -> tuple[GroupInfo, ...]:
    """Have *wanted* executed by a host of the domain."""
    return (await give_at(target, wanted, GroupList)).groups


async def give_at(target: Target, wanted: Order, kind: type[Given], *, host: HostId | None = None) -> Given:
    """Have *wanted* executed by *host*, or by any host. Raises ``InvalidRequest`` if there is no such host,
    ``Unavailable`` if it is not alive."""
    addresses = await addresses_at(target) if host is None else [await _address_at(target, host)]
    return await give(addresses, endpoint_at(target), wanted, kind)


async def connect_at(target: Target, policy: CallPolicy | None = None) -> "Domain":
    """A client of the domain, to be entered: ``async with await connect_at(target) as domain``."""
    from holdfast.client.domain import Domain  # most commands call no group

    return Domain(
        endpoint_at(target),
        await addresses_at(target),
        policy or CallPolicy(),
        ClientConfig(),
        insecure=False,  # the endpoint says what is permitted
    )


async def addresses_at(target: Target) -> list[Address]:
    """Where hosts of the domain answer. Raises ``Unavailable`` if none of this machine's is alive."""
    if isinstance(target, Remote):
        return list(target.addresses)
    return await addresses_of(target, target.read())


def endpoint_at(target: Target) -> ConnectionSettings:
    """How the command line introduces itself to the domain's hosts: as an admin."""
    if isinstance(target, Layout):
        return expecting(admin_endpoint(target, target.read()), Role.HOST)
    tls = Tls.load(target.certs, Role.ADMIN, target.name) if target.certs is not None else None
    identity = PeerIdentity(target.domain, Role.ADMIN, target.name)
    secret = read_secret(target.dir, target.domain) if tls is None else None
    endpoint = ConnectionSettings(identity, tls=tls, insecure=target.insecure, credentials=secret)
    return expecting(endpoint, Role.HOST)


async def hosts_at(target: Target) -> tuple[HostInfo, ...]:
    """The hosts of the domain, on whichever machine."""
    return (await give_at(target, ListHosts(), HostList)).hosts


async def host_ids_at(target: Target) -> list[HostId]:
    """The hosts of the domain; those of this machine if it is one of this machine."""
    if isinstance(target, Layout):
        return list(target.read().hosts)
    return [each.host for each in await hosts_at(target)]


async def _address_at(target: Target, host: HostId) -> Address:
    if isinstance(target, Layout) and host in (description := target.read()).hosts:
        return await address_of(target, description, host)
    hosts = await hosts_at(target)
    found = next((each for each in hosts if each.host == host), None)
    if found is None:
        raise InvalidRequest(f"there is no host {host!r}; these are: {', '.join(e.host for e in hosts)}")
    if not found.address:
        raise Unavailable(f"{host} does not live now; `holdfast host list` shows when it does")
    return Address.parse(found.address)


async def ensure_groups(layout: Layout, wanted: Sequence[CreateGroup]) -> None:
    """Create the groups that do not exist yet, and print the command that shows one surviving a kill."""
    known = [each.name for each in await order_at(layout, ListGroups())] if wanted else []
    for each in wanted:
        if each.name not in known:
            await order_at(layout, each)
        talk.print(f"group {each.name} ({each.class_name}); kill its primary and see it survive:")
        talk.print(f"  holdfast chaos kill-primary {each.name}{here(layout)}", markup=False, soft_wrap=True)


def here(target: Target) -> str:
    """The options that make a command refer to this domain; empty if it is the default one."""
    if isinstance(target, Remote):
        if target.certs is not None:
            proof = f" --certs {target.certs} --as {target.name}"
        else:
            proof = "" if target.dir == DIRECTORY_DEFAULT else f" --dir {target.dir}"
        insecure = " --insecure" if target.insecure else ""
        url = f"holdfast://{','.join(map(str, target.addresses))}/{target.domain}"
        return f" --connect {url}{proof}{insecure}"
    return "" if target.directory == DIRECTORY_DEFAULT.absolute() else f" --dir {target.directory}"


def check_host(target: Target, host: str) -> HostId:
    """*host*, if the domain has it on this machine, or may have it on another. Raises ``InvalidRequest``."""
    description = target.read() if isinstance(target, Layout) else None
    if description is not None and not description.machine and host not in description.hosts:
        raise InvalidRequest(f"there is no host {host!r} here; these are: {', '.join(description.hosts)}")
    return HostId(host)
