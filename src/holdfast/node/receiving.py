"""What a host does with the frames that others send it, by their kind."""

from collections.abc import Iterable
from typing import Final

import msgspec
import structlog

from holdfast.authority.recipe import Authority
from holdfast.housing.groups import Groups
from holdfast.machine.randomness import fresh_nonce
from holdfast.model.calls import Nested, decode_to_host
from holdfast.model.ids import HostId
from holdfast.model.orders import UNKNOWN_ORDER, OrderRefused, encode_order
from holdfast.model.versions import LaterKind
from holdfast.net import Connection, Kind, Role, split_number, with_number
from holdfast.node.administering import Administering
from holdfast.node.answering import ClientConnection
from holdfast.node.control import Control
from holdfast.node.creating import Creating
from holdfast.node.deafness import Deafness
from holdfast.node.links import decode_sequence
from holdfast.node.managing import Managing
from holdfast.node.notifying import Notifying
from holdfast.node.orders import Orders
from holdfast.styles.nested import is_from_abroad
from holdfast.styles.operation import Sent

log = structlog.get_logger("holdfast.receiving")
_sent: Final = msgspec.msgpack.Decoder(Sent)


class Receiving:
    """The groups of a host, as hosts, clients and people reach them."""

    def __init__(
        self,
        groups: Groups,
        authority: Authority,
        deafness: Deafness,
        managing: Managing,
        control: Control,
        hosts: Iterable[HostId],
        *,
        allows_chaos: bool,
    ) -> None:
        self._groups = groups
        self._deafness = deafness
        self._control = control
        hosts = tuple(hosts)
        creating = Creating(groups, authority, control, fresh_nonce)
        self.notifying = Notifying(groups, creating, control, len(hosts))
        self.administering = Administering(
            groups,
            authority,
            creating,
            self.notifying,
            deafness,
            managing,
            control,
            hosts,
            allows_chaos=allows_chaos,
        )
        self._on_call = groups.guarded(groups.serving.on_call)
        self._orders = Orders(self.administering.do)

    def on_frame(self, connection: Connection, kind: Kind, payload: bytes) -> None:
        """Raises what msgspec raises for a payload that is none of ours. What a later version says to hosts
        of its own is passed over: it says it again in older words, or does without this one."""
        try:
            self._take(connection, kind, payload)
        except LaterKind as later:
            log.info("a later version is not understood", peer=str(connection.peer), why=str(later))
            if kind is Kind.GROUP_ORDER:
                self._refuse_unknown(connection, payload)

    def _take(self, connection: Connection, kind: Kind, payload: bytes) -> None:
        peer = connection.peer
        is_host = peer.role is Role.HOST
        if is_host and peer.id in self._deafness.to:
            return
        # Whether that role may send this kind was seen to at the door (net.admission).
        if kind is Kind.SEQUENCE:
            self._groups.on_sequence(HostId(peer.id), decode_sequence(payload))
        elif kind is Kind.CONTROL:
            self._control.on_frame(HostId(peer.id), payload)
        elif kind is Kind.CALL:
            message = decode_to_host(payload)
            if isinstance(message, Nested) and not is_host:
                check_from_abroad(message)
            self._on_call(ClientConnection(connection), message)
        elif kind is Kind.GROUP_ORDER:
            self._orders.take(connection, payload)
        else:
            raise msgspec.ValidationError(f"a host takes no {kind.name}")

    def _refuse_unknown(self, connection: Connection, payload: bytes) -> None:
        """Whoever orders waits for an answer, and a host of its own version may give it."""
        number, _ = split_number(payload)
        said = "this host's version does not know the order"
        refused = OrderRefused(code=UNKNOWN_ORDER, text=said, is_final=False)
        connection.send(Kind.GROUP_ANSWER, with_number(number, encode_order(refused)))

    def on_closed(self, connection: Connection) -> None:
        self._groups.serving.on_gone(ClientConnection(connection))

    async def close(self) -> None:
        await self._orders.close()
        self._groups.close()


def check_from_abroad(message: Nested) -> None:
    """Who is no host of this domain carries calls of no group of it: under their ids it could take what they
    are told. A host of another domain is a client here, and its groups have ids of their own (FTC-6). Raises
    ``msgspec.ValidationError``."""
    client = _sent.decode(message.sent).client
    if not is_from_abroad(client):
        raise msgspec.ValidationError(f"only hosts of this domain carry calls under the id {client}")
