"""Directories as a service of a host: it runs where the role `directory` is, on the host's loop.

It listens on a port of its own for other masters and for people's orders, follows what the domain knows of
its directories, and keeps this host's replica of each (:mod:`holdfast.directory.hosting`). The LDAP door is
told which replicas serve.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

import msgspec
import structlog

from holdfast.authority.directories import begin_directory
from holdfast.authority.driver import insist
from holdfast.authority.recipe import Seen, perform
from holdfast.directory.hosting.arrivals import Arrival
from holdfast.directory.hosting.following import DirectoryFollower, DomainDirectories
from holdfast.directory.hosting.hosted_directory import Door, HostedDirectory, SuffixTrace
from holdfast.directory.hosting.hosted_replica import ReplicaSurroundings
from holdfast.directory.hosting.orders import (
    Answer,
    FoundDirectory,
    Order,
    OrderFailed,
    ReplicaInfo,
    ShowReplica,
    decode_order,
    encode,
)
from holdfast.directory.hosting.peer_links import PeerLinks
from holdfast.directory.hosting.places import place_of
from holdfast.directory.hosting.serving import ServedReplica
from holdfast.directory.master import top_entry
from holdfast.directory.replica.snapshot import Suffix
from holdfast.directory.schema.standard import standard_schema
from holdfast.machine import MachineRandom
from holdfast.machine.real_ports import fresh_nonce
from holdfast.model.errors import (
    DiskFailed,
    HoldfastError,
    InvalidRequest,
    NoSpace,
    Overloaded,
    Unavailable,
)
from holdfast.model.host_roles import DIRECTORY
from holdfast.model.ids import HostId
from holdfast.net import (
    Address,
    Connection,
    Kind,
    Limits,
    Reason,
    Receiver,
    Role,
    Server,
    serve,
    split_number,
    with_number,
)
from holdfast.net.handshake import Admission
from holdfast.node.services.running import ServiceContext
from holdfast.node.services.shipping_service import NAME as SHIPPING
from holdfast.node.services.shipping_service import ShippingService
from holdfast.shipping.shipping_thread import ShippingThread

NAME: Final = DIRECTORY
"""The service's name, and under which the session says where it listens."""
LDAP: Final = "ldap"
"""Under this name the session says where the LDAP door is."""
LDAPS: Final = "ldaps"
"""The same for LDAP within TLS, if the door has a certificate."""
ADMITS: Final[Admission] = {
    Kind.DIRECTORY: frozenset({Role.HOST}),
    Kind.DIRECTORY_ASK: frozenset({Role.ADMIN}),
}
MEMBERS_MAX: Final = 256
"""The most masters and people that are connected at a time."""
HANDSHAKES_MAX: Final = 64
ORDERS_MAX: Final = 32
"""The most orders that are carried out at a time."""

log: Final = structlog.get_logger("holdfast.directory")


class ClientCounts(NamedTuple):
    """What a host's door has to do."""

    connections: int
    operations: int
    """Since the replica began to serve."""
    searches: int
    """Under way."""


class DirectoryService:
    """Implements :class:`.services.Service`."""

    def __init__(self, context: ServiceContext) -> None:
        self._context = context
        self._endpoint = replace(context.endpoint, limits=_bounded(context.endpoint.limits))
        self._domain = DomainDirectories(context.authority, fresh_nonce, self._on_record)
        self._orders: dict[asyncio.Task[None], None] = {}
        self._server: Server | None = None
        self._following: asyncio.Task[None] | None = None
        self._door: Door | None = None
        self._is_open = False
        self.count_clients: Callable[[], ClientCounts] = lambda: ClientCounts(0, 0, 0)
        """Set by the door."""
        self.hosted: dict[str, HostedDirectory] = {}
        """The directories of the domain, by suffix."""

    # --- its life

    async def listen(self) -> Mapping[str, str]:
        at = Address(self._context.listen_at.host, self._context.ports.directory)
        self._server = await serve(at, self._receiver, self._endpoint, admits=ADMITS)
        return {NAME: str(self._context.reached(self._server.address))}

    async def start(self) -> None:
        self._is_open = True
        self._following = asyncio.get_running_loop().create_task(self._follow())

    async def close(self) -> None:
        self._is_open = False
        for task in (self._following, *self._orders):
            if task is not None:
                task.cancel()
        await asyncio.gather(*(each.close() for each in self.hosted.values()))
        if self._server is not None:
            await self._server.close()

    def show(self, suffix: str = "") -> ReplicaInfo:
        """How this host's replica of that suffix is; without one, of the first."""
        suffixes = tuple(self._domain.followers)
        found = self.hosted.get(suffix or next(iter(suffixes), ""))
        if found is None:
            return ReplicaInfo(host=self._context.host, state="none", suffix=suffix, suffixes=suffixes)
        return msgspec.structs.replace(found.administration.show(), suffixes=suffixes)

    def shown(self) -> tuple[ReplicaInfo, ...]:
        """How all of them are."""
        return tuple(map(self.show, self._domain.followers))

    async def set_door(self, door: Door) -> None:
        """Tell *door* which replicas serve, now and whenever that changes."""
        self._door = door
        for suffix, each in tuple(self.hosted.items()):
            served = None if each.replica is None else each.replica.served
            if served is not None and served.is_replicating:
                await door(suffix, served)

    async def _follow(self) -> None:
        try:
            await self._domain.follow()
        except Exception as error:  # whatever it was: nobody else hears of it, and people must
            self._fail(error)

    # --- the replicas

    def _on_record(self, follower: DirectoryFollower) -> None:
        if not self._is_open:
            return
        suffix = follower.record.suffix
        hosted = self.hosted.get(suffix)
        if hosted is None:
            try:
                hosted = self._host(follower)
            except OSError as error:
                self._fail(DiskFailed(f"no directory can be made for {suffix}: {error}"))
                return
            self.hosted[suffix] = hosted
        hosted.on_record()

    def _host(self, follower: DirectoryFollower) -> HostedDirectory:
        context, record = self._context, follower.record
        around = ReplicaSurroundings(
            host=context.host,
            directory=place_of(context.directory, record.suffix, was_here=bool(record.ids_of(context.host))),
            authority=context.authority,
            nonces=fresh_nonce,
            follower=follower,
            change=partial(self._domain.change, follower),
            take=self._domain.take,
            links=PeerLinks(context.host, self._endpoint, self._where, random=MachineRandom().stream(NAME)),
            trace=SuffixTrace(context.trace, record.suffix),
            on_disk_failed=context.on_disk_failed,
            masters=partial(self._masters, follower),
            clock=context.config.clock,
            replication=context.config.directory,
            shipping=self._shipping,
            shelf=context.directory.with_name(SHIPPING),
        )
        return HostedDirectory(around, self._on_serving, self._fail)

    def _fail(self, error: Exception) -> None:
        if isinstance(error, DiskFailed | NoSpace):
            self._context.on_disk_failed(error)  # the host ends (D1)
        elif isinstance(error, HoldfastError):
            self._context.on_failed(error)
        else:
            log.error("the directory has failed", error=repr(error), exc_info=error)
            self._context.on_failed(Unavailable(f"the directory has failed: {error!r}"))

    async def _on_serving(self, suffix: str, served: ServedReplica | None) -> None:
        if self._door is not None:
            await self._door(suffix, served)

    def _where(self, host: HostId) -> Address | None:
        try:
            return Address.parse(self._context.detail_of(host, NAME))
        except InvalidRequest:
            return None  # it is not in session, or its directory has failed

    def _shipping(self) -> ShippingThread:
        found = self._context.service_of(SHIPPING)
        if not isinstance(found, ShippingService):
            raise Unavailable("this host ships no files")
        return found.thread

    def _masters(self, follower: DirectoryFollower) -> Sequence[str]:
        """Where clients may write."""
        record = follower.record
        hosts = [each for each in record.members if each not in record.read_only]
        doors = [self._context.detail_of(each, LDAP) for each in hosts if each != self._context.host]
        return tuple(f"ldap://{each}" for each in doors if each)

    # --- connections

    def on_frame(self, host: HostId, kind: Kind, payload: bytes) -> None:
        raise msgspec.ValidationError(f"masters talk on connections of their own, not as {kind.name}")

    def _receiver(self, connection: Connection) -> Receiver:
        if connection.peer.role is Role.HOST:
            return Arrival(self._links_of)
        return _Orders(self)

    def _links_of(self, suffix: str) -> PeerLinks | None:
        found = self.hosted.get(suffix)
        return None if found is None else found.links

    def take_order(self, connection: Connection, payload: bytes) -> None:
        """Carry out an order, and answer it. Raises ``msgspec.DecodeError``."""
        number, body = split_number(payload)
        order = decode_order(body)

        async def work() -> None:
            answer: Answer
            try:
                if len(self._orders) > ORDERS_MAX:
                    raise Overloaded(f"{ORDERS_MAX} orders are being carried out; try again")
                if not self._domain.is_listed.is_set():
                    raise Unavailable("this host has not heard from the authority yet")
                answer = await self._done(order)
            except HoldfastError as error:
                answer = OrderFailed(error.code, str(error), is_final=isinstance(error, InvalidRequest))
            except TimeoutError:
                answer = OrderFailed(Unavailable.code, "it was not done in time", is_final=False)
            connection.send(Kind.DIRECTORY_ANSWER, with_number(number, encode(answer)))

        task = asyncio.get_running_loop().create_task(work())
        self._orders[task] = None
        task.add_done_callback(self._order_ended)

    async def _done(self, order: Order) -> Answer:
        """Have the directory that is meant carry out an order. Raises ``HoldfastError`` that says why not."""
        if isinstance(order, ShowReplica):
            return self.show(order.suffix)
        if isinstance(order, FoundDirectory):
            suffix = await self._found(order)
        else:
            suffix = order.suffix or self._only_suffix()
        hosted = self.hosted.get(suffix)
        if hosted is None:
            known = ", ".join(self._domain.followers)
            raise InvalidRequest(f"this domain has no directory {suffix}; it has: {known or 'none'}")
        return await hosted.administration.do(order)

    def _only_suffix(self) -> str:
        match tuple(self._domain.followers):
            case ():
                raise InvalidRequest(
                    "this domain has no directory yet: `holdfast directory start` begins one"
                )
            case (suffix,):
                return suffix
            case several:
                raise InvalidRequest(f"this domain has several suffixes; say which: {', '.join(several)}")

    async def _found(self, order: FoundDirectory) -> str:
        """Note a new directory, unless it is there; its suffix as it is written from now on."""
        schema = standard_schema()
        suffix = Suffix(order.suffix, schema)
        top_entry(suffix.dn, "")  # refused before anything is noted, if there is no class for it
        for known in self._domain.followers:
            if Suffix(known, schema).key == suffix.key:
                return known
        nonce = fresh_nonce()
        # The nonce is the mark of the new data as well: nobody else has it.
        recipe = partial(
            begin_directory,
            suffix.text,
            generation=nonce[:16],
            founder=self._context.host,
            read_only=order.read_only,
            nonce=nonce,
        )
        self._domain.take(await insist(lambda: perform(self._context.authority, recipe()), Seen))
        return suffix.text

    def _order_ended(self, task: "asyncio.Task[None]") -> None:
        del self._orders[task]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("an order has failed", error=repr(error))


class _Orders:
    """The receiver of one person's orders."""

    def __init__(self, service: DirectoryService) -> None:
        self._service = service

    def on_frame(self, connection: Connection, kind: Kind, payload: bytes) -> None:
        self._service.take_order(connection, payload)

    def on_closed(self, connection: Connection, reason: Reason) -> None:
        return None


def _bounded(limits: Limits) -> Limits:
    members, handshakes = min(limits.members_max, MEMBERS_MAX), min(limits.handshakes_max, HANDSHAKES_MAX)
    return msgspec.structs.replace(limits, members_max=members, handshakes_max=handshakes)
