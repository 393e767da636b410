"""The status of a domain that is reached by its addresses, put together from what its agents say."""

import asyncio

from holdfast.agent.status_client import ask_agent_at, status_of
from holdfast.cli.admin import endpoint_at, hosts_at
from holdfast.cli.where import Target
from holdfast.model.admin.hosts import HostInfo
from holdfast.model.errors import HoldfastError
from holdfast.net import Address
from holdfast.node.layout import Layout
from holdfast.node.messages import AuthorityStatus, DomainStatus, HostStatus


async def status_at(target: Target) -> DomainStatus:
    """The domain as its agent on this machine sees it, or as all its agents that answer do."""
    if isinstance(target, Layout):
        return await status_of(target, target.read())
    endpoint = endpoint_at(target)
    hosts = await hosts_at(target)
    agents = dict.fromkeys(each.agent_address for each in hosts if each.agent_address)
    asked = (ask_agent_at(Address.parse(each), endpoint) for each in agents)
    answers = await asyncio.gather(*asked, return_exceptions=True)
    for answer in answers:
        if isinstance(answer, BaseException) and not isinstance(answer, HoldfastError):
            raise answer
    return put_together(target.domain, hosts, [each for each in answers if isinstance(each, DomainStatus)])


def put_together(domain: str, hosts: tuple[HostInfo, ...], found: list[DomainStatus]) -> DomainStatus:
    """All of *hosts*, each as its own agent sees it if that one answered."""
    told = {each.id: each for status in found for each in status.hosts}
    first = found[0] if found else None
    return DomainStatus(
        domain=domain,
        hosts=tuple(told.get(each.host) or _untold(each) for each in hosts),
        authority=first.authority if first is not None else UNTOLD,
        agent=first.agent if first is not None else None,
    )


UNTOLD = AuthorityStatus(
    kind="unknown", alive=True, pid=None, address="(no agent answers)", restarts=0, last_exit=None
)
"""Hosts answer, so they are in session with it; more is not known."""


def _untold(host: HostInfo) -> HostStatus:
    return HostStatus(
        id=host.host,
        alive=host.is_alive,
        incarnation=host.incarnation,
        pid=None,
        address=host.address or None,
        restarts=0,
        uptime_s=None,
        state="alive" if host.is_alive else "gone",
        last_exit=None,
    )
