"""Giving orders about groups to the hosts of a domain on this machine, and finding those hosts."""

import secrets
from typing import Final

import msgspec

from holdfast.model.errors import HoldfastError, InvalidRequest, OutcomeUnknown, Unavailable
from holdfast.model.ids import HostId
from holdfast.model.orders import (
    CreateGroup,
    GroupInfo,
    GroupList,
    ListGroups,
    Order,
    OrderRefused,
    decode_order_answer,
    encode_order,
)
from holdfast.net import (
    Address,
    Connection,
    Endpoint,
    Expected,
    Identity,
    Kind,
    NotConnected,
    Reason,
    Requests,
    Role,
    connect,
)
from holdfast.node.asking import status_of
from holdfast.node.layout import Description, Layout

CONNECT_S: Final = 2.0
ORDER_S: Final = 20.0
"""How long a host may take: it waits for the authority, and the authority for its disk."""


class Refused(InvalidRequest):
    """Raised when a host refuses an order that can never succeed as it is written."""

    code = "order_refused"


async def order(layout: Layout, description: Description, wanted: Order) -> tuple[GroupInfo, ...]:
    """Have *wanted* done by the first host that answers.

    Raises ``Refused``, ``Unavailable``, or ``OutcomeUnknown`` when it may have been done or not.
    """
    if isinstance(wanted, CreateGroup) and not wanted.nonce:
        wanted = msgspec.structs.replace(wanted, nonce=secrets.token_hex(16))
    failure: HoldfastError = Unavailable(f"no host of {layout.directory} lives; is the domain up?")
    for address in await live_addresses(layout, description):
        try:
            return await _order_of(address, description, wanted)
        except NotConnected as error:
            failure = error
    raise failure


async def group_named(layout: Layout, description: Description, name: str) -> GroupInfo:
    """Raises ``Refused`` when there is no such group."""
    (found,) = await order(layout, description, ListGroups(name=name))
    return found


async def url_of(layout: Layout, description: Description) -> str:
    """Where clients reach the domain. Raises ``Unavailable`` when no host lives."""
    addresses = await live_addresses(layout, description)
    if not addresses:
        raise Unavailable(f"no host of {layout.directory} lives; is the domain up?")
    return f"holdfast://{','.join(addresses)}/{description.domain}"


async def live_addresses(layout: Layout, description: Description) -> list[str]:
    status = await status_of(layout, description)
    return [host.address for host in status.hosts if host.alive and host.address is not None]


async def _order_of(address: str, description: Description, wanted: Order) -> tuple[GroupInfo, ...]:
    giver: list[_Giver] = []

    def on_connection(connection: Connection) -> _Giver:
        giver.append(_Giver(connection))
        return giver[0]

    endpoint = Endpoint(
        Identity(description.domain, Role.ADMIN, "cli"), expected=Expected(roles=frozenset({Role.HOST}))
    )
    connection = await connect(Address.parse(address), on_connection, endpoint, deadline_s=CONNECT_S)
    try:
        body = await giver[0].requests.ask(Kind.GROUP_ORDER, encode_order(wanted), deadline_s=ORDER_S)
    finally:
        connection.close()
        await connection.wait_gone()
    match decode_order_answer(body):
        case GroupList(groups=groups):
            return groups
        case OrderRefused(text=text, is_final=True):
            raise Refused(text)
        case OrderRefused(text=text):
            raise Unavailable(text)
    raise OutcomeUnknown("an order", waited_s=0.0)


class _Giver:
    """The receiver of a connection on which orders are given."""

    def __init__(self, connection: Connection) -> None:
        self.requests = Requests(connection)

    def on_frame(self, connection: Connection, kind: Kind, payload: bytes) -> None:
        if kind is Kind.GROUP_ANSWER:
            self.requests.on_answer(payload)

    def on_closed(self, connection: Connection, reason: Reason) -> None:
        self.requests.on_closed(reason)


def primary_of(group: GroupInfo) -> HostId:
    """Raises ``Unavailable`` when it has none as far as is known."""
    if not group.primary:
        raise Unavailable(f"group {group.name} has no primary")
    return group.primary
