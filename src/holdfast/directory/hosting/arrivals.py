"""Connections that other masters make to this host: their first word names the suffix that they are for.

Each suffix is replicated on connections of its own, so that what is on its way of one holds up no other, and
a refusal, a cut or a new life of one replica ends no other's link.
"""

from collections.abc import Callable

import msgspec

from holdfast.directory.hosting.peer_links import NO_PEER, PeerLinks
from holdfast.directory.replication.messages import CopyAsk, Hello, ShippedCopyAsk, decode_message
from holdfast.model.errors import InvalidRequest
from holdfast.net import Connection, Kind, Reason, Receiver

LinksOf = Callable[[str], PeerLinks | None]


class Arrival:
    """The receiver of one such connection. *links_of* says whose a suffix is; None if it is nobody's here."""

    def __init__(self, links_of: LinksOf) -> None:
        self._links_of = links_of
        self._to: Receiver | None = None

    def on_frame(self, connection: Connection, kind: Kind, payload: bytes) -> None:
        if self._to is None:
            self._to = self._accepted(connection, payload)
        if self._to is not None:
            self._to.on_frame(connection, kind, payload)

    def on_closed(self, connection: Connection, reason: Reason) -> None:
        if self._to is not None:
            self._to.on_closed(connection, reason)

    def _accepted(self, connection: Connection, payload: bytes) -> Receiver | None:
        try:
            first = decode_message(payload)
        except InvalidRequest as fault:
            raise msgspec.ValidationError(str(fault)) from None
        if not isinstance(first, Hello | CopyAsk | ShippedCopyAsk):
            raise msgspec.ValidationError(f"a master does not begin with {type(first).__name__}")
        links = self._links_of(first.suffix)
        if links is None:
            connection.close(NO_PEER)
            return None
        return links.accepted(connection)
