"""A client's connection, as the housing of groups answers on it."""

from dataclasses import dataclass

import structlog

from holdfast.model.calls import ToClient, encode_message
from holdfast.model.errors import HoldfastError
from holdfast.net import Connection, Kind, Reason, Why

log = structlog.get_logger("holdfast.calls")


@dataclass(frozen=True, slots=True)
class ClientConnection:
    """The :class:`holdfast.housing.ports.Client` of one frame."""

    connection: Connection

    def send(self, message: ToClient) -> None:
        try:
            self.connection.send(Kind.CALL_ANSWER, encode_message(message))
        except HoldfastError as error:
            # An outcome longer than the client takes cannot be told, and its call would wait for ever.
            log.warning("an answer cannot be sent", peer=str(self.connection.peer), why=str(error))
            self.connection.close(Reason(Why.INTERNAL, str(error)))

    def hang_up(self, why: str) -> None:
        self.connection.close(Reason(Why.DONE, why))
