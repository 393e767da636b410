"""Routes the frames that a host receives to the part that handles their kind.

:class:`FrameDispatch` handles frames from hosts, clients and operators once the host serves.
:class:`ClientConnection` is what the groups use to answer on a client's connection.
"""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec
import structlog

from holdfast.admin.control_plane import ControlPlane
from holdfast.admin.dispatch import AdminDispatch, RunningOrders
from holdfast.admin.fault_injection import PartitionFilter
from holdfast.admin.groups import GroupsAdmin
from holdfast.admin.notifier_group import NotifierGroups
from holdfast.admin.reconciler import Reconciler
from holdfast.authority.recipe import Authority
from holdfast.execution.nested_call import is_from_abroad
from holdfast.execution.records import Sent
from holdfast.groups.host_groups import HostGroups
from holdfast.machine.real_ports import fresh_nonce
from holdfast.machine.workers import Workers
from holdfast.model.admin.groups import UNKNOWN_ORDER, OrderRefused, encode_order
from holdfast.model.calls import Nested, ToClient, encode_message, messages_to_host
from holdfast.model.errors import HoldfastError
from holdfast.model.ids import HostId
from holdfast.model.versions import LaterKind
from holdfast.net import Connection, Kind, Reason, Role, Why, split_number, with_number
from holdfast.node.links import sequence_messages
from holdfast.node.services.running import HostServices

calls_log = structlog.get_logger("holdfast.calls")


class ClientConnection(msgspec.Struct, frozen=True):
    """A client's connection, on which groups answer: implements :class:`holdfast.groups.ports.Client`."""

    connection: Connection

    def send(self, message: ToClient) -> None:
        try:
            self.connection.send(Kind.CALL_ANSWER, encode_message(message))
        except HoldfastError as error:
            # The client cannot be told an outcome longer than it accepts, and its call would wait for ever.
            calls_log.warning("an answer cannot be sent", peer=str(self.connection.peer), why=str(error))
            self.connection.close(Reason(Why.INTERNAL, str(error)))

    def hang_up(self, why: str) -> None:
        self.connection.close(Reason(Why.DONE, why))


log = structlog.get_logger("holdfast.receiving")
_sent: Final = msgspec.msgpack.Decoder(Sent)
_encode: Final = msgspec.msgpack.Encoder().encode
_decode_sequence: Final = sequence_messages.decode_known
_decode_to_host: Final = messages_to_host.decode_known


class FrameDispatch:
    """Gives hosts, clients and operators access to a host's groups."""

    def __init__(
        self,
        groups: HostGroups,
        authority: Authority,
        partition: PartitionFilter,
        reconciler: Reconciler,
        control: ControlPlane,
        hosts: Sequence[HostId],
        services: HostServices,
        workers: Workers,
        report: Callable[[], object],
        *,
        allows_chaos: bool,
        stop: Callable[[], None],
    ) -> None:
        """*report* returns what the host says of itself; *stop* ends its process in an orderly way."""
        self._groups = groups
        self._services = services
        self._partition = partition
        self._report = report
        self._control = control
        groups_admin = GroupsAdmin(groups, authority, control, fresh_nonce)
        self.notifiers = NotifierGroups(groups, groups_admin, control, hosts)
        self.admin_dispatch = AdminDispatch(
            groups,
            authority,
            groups_admin,
            self.notifiers,
            partition,
            reconciler,
            control,
            hosts,
            workers,
            allows_chaos=allows_chaos,
            stop=stop,
        )
        self._on_call = groups.guarded(groups.serving.on_call)
        self._orders = RunningOrders(self.admin_dispatch.do)

    def on_frame(self, connection: Connection, kind: Kind, payload: bytes) -> None:
        """Handle one frame. Raises msgspec's errors for a payload that cannot be decoded.

        A message of a later version that this one does not know is skipped: the sender either repeats it in
        an older form or can do without this host's answer.
        """
        peer = connection.peer
        is_host = peer.role is Role.HOST
        if is_host and peer.id in self._partition.to:
            return
        try:
            # The handshake has already checked that this role may send this kind (net.handshake).
            if kind is Kind.SEQUENCE:
                self._groups.on_sequence(HostId(peer.id), _decode_sequence(payload))
            elif kind is Kind.CONTROL:
                self._control.on_frame(HostId(peer.id), payload)
            elif kind is Kind.CALL:
                message = _decode_to_host(payload)
                if isinstance(message, Nested) and not is_host:
                    check_from_abroad(message)
                self._on_call(ClientConnection(connection), message)
            elif kind is Kind.GROUP_ORDER:
                self._orders.take(connection, payload)
            elif kind is Kind.STATUS_REQUEST:
                number, _ = split_number(payload)
                connection.send(Kind.STATUS_REPLY, with_number(number, _encode(self._report())))
            elif is_host and self._services.takes(kind):
                self._services.on_frame(HostId(peer.id), kind, payload)
            else:
                raise msgspec.ValidationError(f"a host takes no {kind.name}")
        except msgspec.ValidationError as error:
            why = _why_later(kind, payload, error)
            if why is None:
                raise
            log.info("a later version is not understood", peer=str(peer), why=why)
            if kind is Kind.GROUP_ORDER:
                self._refuse_unknown(connection, payload)

    def _refuse_unknown(self, connection: Connection, payload: bytes) -> None:
        """Refuse an order of a later version, so that the sender can try a host of its version."""
        number, _ = split_number(payload)
        said = "this host's version does not know the order"
        refused = OrderRefused(code=UNKNOWN_ORDER, text=said, is_final=False)
        connection.send(Kind.GROUP_ANSWER, with_number(number, encode_order(refused)))

    def on_closed(self, connection: Connection) -> None:
        self._groups.serving.on_gone(ClientConnection(connection))

    async def close(self) -> None:
        await self._orders.close()
        self._groups.close()


def _why_later(kind: Kind, payload: bytes, error: msgspec.ValidationError) -> str | None:
    """Say that *payload* is of a later version; None if it is not, and *error* is what it is."""
    if isinstance(error, LaterKind):
        return str(error)
    if kind is Kind.SEQUENCE:
        return sequence_messages.why_later(payload)
    return messages_to_host.why_later(payload) if kind is Kind.CALL else None


def check_from_abroad(message: Nested) -> None:
    """Check that a nested call sent by a client belongs to a group of another domain.

    Otherwise a client could use the id of one of this domain's groups and receive the answers meant for it.
    A host of another domain is a client here, and its groups have ids of their own (FTC-6). Raises
    ``msgspec.ValidationError``.
    """
    client = _sent.decode(message.sent).client
    if not is_from_abroad(client):
        raise msgspec.ValidationError(f"only hosts of this domain carry calls under the id {client}")
