"""Finds the masters of a domain's directories, and asks them."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from holdfast.agent.status_client import ask_host_at
from holdfast.cli.admin import endpoint_at, hosts_at
from holdfast.cli.where import Target
from holdfast.directory.hosting.orders import (
    Answer,
    Order,
    OrderDone,
    OrderFailed,
    ReplicaInfo,
    ShowReplica,
    decode_answer,
    encode,
)
from holdfast.directory.replica.snapshot import Suffix
from holdfast.directory.schema.standard import standard_schema
from holdfast.model.admin.hosts import HostInfo
from holdfast.model.errors import HoldfastError, InvalidRequest, Unavailable
from holdfast.model.host_roles import DIRECTORY
from holdfast.model.ids import HostId
from holdfast.net import Address, Connection, ConnectionSettings, Kind, Reason, Requests, connect
from holdfast.node.services.directory_service import LDAP, LDAPS, NAME

ASK_S: Final = 10.0
CONNECT_S: Final = 3.0

Given = TypeVar("Given", ReplicaInfo, OrderDone)


@dataclass(frozen=True, slots=True)
class Master:
    """One host with the role `directory`, as it was found."""

    host: HostId
    is_alive: bool
    pid: int | None = None
    ldap: str = ""
    ldaps: str = ""
    """Empty if its door has no certificate."""
    """Where its LDAP door is."""
    address: str = ""
    """Where its directory takes orders."""
    info: ReplicaInfo | None = None
    why: str = ""
    """Why nothing more is known of it."""


class _Asker:
    """The receiver of a connection on which orders are given."""

    def __init__(self, connection: Connection) -> None:
        self.requests = Requests(connection)

    def on_frame(self, connection: Connection, kind: Kind, payload: bytes) -> None:
        if kind is Kind.DIRECTORY_ANSWER:
            self.requests.on_answer(payload)

    def on_closed(self, connection: Connection, reason: Reason) -> None:
        self.requests.on_closed(reason)


async def ask(
    address: str, endpoint: ConnectionSettings, order: Order, kind: type[Given], *, within_s: float = ASK_S
) -> Given:
    """Give *order* to the directory at *address*. Raises what it was refused with, ``NotConnected``, and
    ``OutcomeUnknown`` if there was no answer."""
    askers: list[_Asker] = []

    def on_connection(connection: Connection) -> _Asker:
        askers.append(_Asker(connection))
        return askers[0]

    connection = await connect(Address.parse(address), on_connection, endpoint, deadline_s=CONNECT_S)
    try:
        body = await askers[0].requests.ask(Kind.DIRECTORY_ASK, encode(order), deadline_s=within_s)
    finally:
        connection.close()
        await connection.wait_gone()
    answer: Answer = decode_answer(body)
    if isinstance(answer, OrderFailed):
        raise InvalidRequest(answer.text) if answer.is_final else Unavailable(answer.text)
    if not isinstance(answer, kind):
        raise InvalidRequest(f"an order was answered with {type(answer).__name__}")
    return answer


async def directories_at(target: Target, wanted: str | None = None) -> dict[str, list[Master]]:
    """The masters of each directory of the domain by suffix, or of the wanted one alone. A domain that has
    none yet shows its hosts under an empty suffix."""
    first = await masters_at(target)
    known = next((each.info.suffixes for each in first if each.info is not None and each.info.suffixes), ())
    if wanted is not None:
        chosen: tuple[str, ...] = (_meant(known, wanted),)
    else:
        chosen = known or ("",)
    return {
        each: first if len(known) < 2 or each == known[0] else await masters_at(target, each)
        for each in chosen
    }


async def directory_at(target: Target, wanted: str | None = None) -> tuple[str, list[Master]]:
    """The only directory of the domain, or the wanted one. Raises ``InvalidRequest`` if that is not clear."""
    found = await directories_at(target, wanted)
    if len(found) > 1:
        raise InvalidRequest(f"this domain has several suffixes; say --suffix: {', '.join(found)}")
    return next(iter(found.items()))


def _meant(known: Sequence[str], wanted: str) -> str:
    schema = standard_schema()
    key = Suffix(wanted, schema).key
    for each in known:
        if Suffix(each, schema).key == key:
            return each
    raise InvalidRequest(f"this domain has no directory {wanted}; it has: {', '.join(known) or 'none'}")


async def masters_at(target: Target, suffix: str = "") -> list[Master]:
    """The domain's hosts with the role `directory`, and how their replicas of *suffix* are; without one, of
    the first in the order of their names. Raises ``InvalidRequest`` if there is no such host."""
    endpoint = endpoint_at(target)
    hosts = [each for each in await hosts_at(target) if DIRECTORY in each.roles]
    if not hosts:
        raise InvalidRequest(
            "no host of this domain has the role directory: `holdfast directory start` makes such a domain, "
            "`holdfast directory join` adds one"
        )
    return with_gone(list(await asyncio.gather(*(_master(each, endpoint, suffix) for each in hosts))))


def with_gone(found: list[Master]) -> list[Master]:
    """*found*, and the masters that the others know of: what a host is for is in its session, and one that is
    gone has none."""
    known = [link.peer for each in found if each.info is not None for link in each.info.links]
    missing = sorted({*known} - {each.host for each in found})
    gone = [Master(each, is_alive=False, why="it does not live") for each in missing]
    return sorted([*found, *gone], key=lambda each: each.host)


async def _master(host: HostInfo, endpoint: ConnectionSettings, suffix: str) -> Master:
    if not host.is_alive:
        return Master(host.host, is_alive=False, why="it does not live")
    try:
        report = await ask_host_at(Address.parse(host.address), endpoint)
        address, ldap = report.details.get(NAME, ""), report.details.get(LDAP, "")
        found = Master(host.host, is_alive=True, pid=report.pid, ldap=ldap, address=address)
        found = replace(found, ldaps=report.details.get(LDAPS, ""))
        if not address:
            service = next((each for each in report.services if each.name == NAME), None)
            why = "it runs no directory" if service is None else f"{service.state}: {service.why}"
            return replace(found, why=why)
        return replace(found, info=await ask(address, endpoint, ShowReplica(suffix=suffix), ReplicaInfo))
    except HoldfastError as error:
        return Master(host.host, is_alive=True, why=str(error))


def named(masters: list[Master], name: str) -> Master:
    """The master that is meant by a host's name or by the number of its replica. Raises
    ``InvalidRequest``."""
    for each in masters:
        if each.host == name:
            return each
    for each in masters:
        if each.info is not None and each.info.replica is not None and str(each.info.replica) == name:
            return each
    known = ", ".join(
        each.host if each.info is None or each.info.replica is None else f"{each.host} ({each.info.replica})"
        for each in masters
    )
    raise InvalidRequest(f"there is no master {name!r}; there are: {known}")


def reachable(master: Master) -> str:
    """Where *master* takes orders. Raises ``Unavailable``."""
    if not master.address:
        raise Unavailable(f"{master.host} cannot be asked: {master.why or 'it does not live'}")
    return master.address
