"""The directory as a service of a host: it runs where the role `directory` is, on the host's loop.

It listens on a port of its own for other masters and for people's orders, follows what the domain knows of
the directory, and keeps this host's replica (:mod:`holdfast.directory.hosting`). The LDAP door is told which
replica serves.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import msgspec
import structlog

from holdfast.authority.directories import DirectoryRecord
from holdfast.directory.hosting.administration import Administration
from holdfast.directory.hosting.following import DirectoryFollower
from holdfast.directory.hosting.hosted_replica import HostedReplica, ReplicaSurroundings
from holdfast.directory.hosting.orders import Answer, OrderFailed, ReplicaInfo, decode_order, encode
from holdfast.directory.hosting.peer_links import PeerLinks
from holdfast.directory.hosting.serving import ServedReplica
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

Door = Callable[[ServedReplica | None], Awaitable[None]]
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
        self._links = PeerLinks(
            context.host, self._endpoint, self._where, random=MachineRandom().stream(NAME)
        )
        self._follower = DirectoryFollower(context.authority, fresh_nonce, self._on_record)
        self._around = ReplicaSurroundings(
            host=context.host,
            directory=context.directory,
            authority=context.authority,
            nonces=fresh_nonce,
            follower=self._follower,
            links=self._links,
            trace=context.trace,
            on_disk_failed=context.on_disk_failed,
            masters=self._masters,
            clock=context.config.clock,
            replication=context.config.directory,
            shipping=self._shipping,
            shelf=context.directory.with_name(SHIPPING),
        )
        self._administration = Administration(self._around, lambda: self.replica)
        self._orders: dict[asyncio.Task[None], None] = {}
        self._server: Server | None = None
        self._following: asyncio.Task[None] | None = None
        self._living: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._door: Door | None = None
        self._is_open = False
        self.count_clients: Callable[[], ClientCounts] = lambda: ClientCounts(0, 0, 0)
        """Set by the door."""
        self.replica: HostedReplica | None = None

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
        await self._stop_replica()
        await self._links.shut()
        if self._server is not None:
            await self._server.close()

    def show(self) -> ReplicaInfo:
        return self._administration.show()

    async def set_door(self, door: Door) -> None:
        """Tell *door* which replica serves, now and whenever that changes."""
        self._door = door
        served = None if self.replica is None else self.replica.served
        if served is not None and served.is_replicating:
            await door(served)

    async def _follow(self) -> None:
        try:
            await self._follower.follow()
        except Exception as error:  # whatever it was: nobody else hears of it, and people must
            self._fail(error)

    # --- the replica

    def _on_record(self, record: DirectoryRecord) -> None:
        host = self._context.host
        is_wanted = host not in record.left and (record.is_founded or record.founder == host)
        if not self._is_open or self._stopping is not None:
            return
        if is_wanted and self._living is None:
            self.replica = HostedReplica(self._around, self._on_serving)
            self._living = asyncio.get_running_loop().create_task(self._live(self.replica))
        elif not is_wanted and self._living is not None:
            self._stopping = asyncio.get_running_loop().create_task(self._stop_replica())
        elif self.replica is not None and (self.replica.served or self.replica.copying):
            self._links.set_peers(record.peers_of(host))

    async def _live(self, replica: HostedReplica) -> None:
        try:
            await replica.run()
        except Exception as error:  # as above
            replica.state = "failed"
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        if isinstance(error, DiskFailed | NoSpace):
            self._context.on_disk_failed(error)  # the host ends (D1)
        elif isinstance(error, HoldfastError):
            self._context.on_failed(error)
        else:
            log.error("the directory has failed", error=repr(error), exc_info=error)
            self._context.on_failed(Unavailable(f"the directory has failed: {error!r}"))

    async def _stop_replica(self) -> None:
        living, self._living, self.replica = self._living, None, None
        if living is not None:
            living.cancel()
            await asyncio.gather(living, return_exceptions=True)
        self._stopping = None
        if self._follower.record is not None:
            self._on_record(self._follower.record)  # it may be wanted again by now

    async def _on_serving(self, served: ServedReplica | None) -> None:
        if self._door is not None:
            await self._door(served)

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

    def _masters(self) -> Sequence[str]:
        """Where clients may write."""
        record = self._follower.record
        if record is None:
            return ()
        hosts = [each for each in record.members if each not in record.read_only]
        doors = [self._context.detail_of(each, LDAP) for each in hosts if each != self._context.host]
        return tuple(f"ldap://{each}" for each in doors if each)

    # --- connections

    def on_frame(self, host: HostId, kind: Kind, payload: bytes) -> None:
        raise msgspec.ValidationError(f"masters talk on connections of their own, not as {kind.name}")

    def _receiver(self, connection: Connection) -> Receiver:
        if connection.peer.role is Role.HOST:
            return self._links.accepted(connection)
        return _Orders(self)

    def take_order(self, connection: Connection, payload: bytes) -> None:
        """Carry out an order, and answer it. Raises ``msgspec.DecodeError``."""
        number, body = split_number(payload)
        order = decode_order(body)

        async def work() -> None:
            answer: Answer
            try:
                if len(self._orders) > ORDERS_MAX:
                    raise Overloaded(f"{ORDERS_MAX} orders are being carried out; try again")
                if not self._follower.is_listed.is_set():
                    raise Unavailable("this host has not heard from the authority yet")
                answer = await self._administration.do(order)
            except HoldfastError as error:
                answer = OrderFailed(error.code, str(error), is_final=isinstance(error, InvalidRequest))
            except TimeoutError:
                answer = OrderFailed(Unavailable.code, "it was not done in time", is_final=False)
            connection.send(Kind.DIRECTORY_ANSWER, with_number(number, encode(answer)))

        task = asyncio.get_running_loop().create_task(work())
        self._orders[task] = None
        task.add_done_callback(self._order_ended)

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
