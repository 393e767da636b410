"""The messages between the embedded authority and its clients.

The protocol relies on the transport only to deliver each message whole: messages may be lost, repeated,
reordered, or arrive after either end has restarted.

- The server issues sessions, and every message names one. Only one server process knows a session, and no
  session is issued twice, so that a message which outlived its server or client is ignored.
- Requests are numbered within a session. The server accepts each number once, and none below the client's
  floor, so that a change is applied at most once, however often it arrives.
- Events are numbered within a watch. The client processes them in order; when some stay missing it starts a
  new watch where the last one ended. It acknowledges events with its pings, and the server sends no more than
  a window ahead of that, so that a slow watcher costs the server only history. A watch that no ping mentions
  is ended.
"""

from typing import Final

import msgspec
from msgspec import Struct

from holdfast.authority.contract import Request, Result, WatchEvent
from holdfast.model.ids import Revision

REQUESTS_IN_FLIGHT_MAX: Final = 1_024
"""The most requests in flight in one session. The server remembers accepted numbers from the client's floor
up to this far above it."""
WATCHES_MAX: Final = 64
"""The most watches in one session."""
WATCH_WINDOW: Final = 128
"""The most events of one watch that are sent and not yet acknowledged."""


# --- from client to server


class Hello(Struct, frozen=True, tag="hello", array_like=True):
    """Ask for a session -> Welcome with the same nonce."""

    nonce: int


class Ask(Struct, frozen=True, tag="ask", array_like=True):
    """One request -> Answer with the same number."""

    session: int
    floor: int
    """The lowest number the client still waits for. The server must not apply anything below it any more."""
    number: int
    request: Request


class WatchStart(Struct, frozen=True, tag="watch_start", array_like=True):
    """Send all changes below *prefix* from *revision* on, while the authority's seat is *seat* (A8)."""

    session: int
    watch: int
    prefix: str
    revision: Revision
    seat: Revision = Revision(0)


class WatchStop(Struct, frozen=True, tag="watch_stop", array_like=True):
    session: int
    watch: int


class Ping(Struct, frozen=True, tag="ping", array_like=True):
    """Ask for a Pong, and say how many events of each watch have arrived without a gap."""

    session: int
    received: tuple[tuple[int, int], ...]


ClientMessage = Hello | Ask | WatchStart | WatchStop | Ping


# --- from server to client


class Welcome(Struct, frozen=True, tag="welcome", array_like=True):
    nonce: int
    session: int


class Answer(Struct, frozen=True, tag="answer", array_like=True):
    session: int
    number: int
    result: Result


class WatchEvents(Struct, frozen=True, tag="watch_events", array_like=True):
    """Event number *index* of a watch, counted from 1."""

    session: int
    watch: int
    index: int
    event: WatchEvent


class Pong(Struct, frozen=True, tag="pong", array_like=True):
    """Say how many events of each watch have been sent. A watch that is not listed is unknown here."""

    session: int
    sent: tuple[tuple[int, int], ...]


class Stale(Struct, frozen=True, tag="stale", array_like=True):
    """The server does not know this session (any more): the client must say Hello."""

    session: int


ServerMessage = Welcome | Answer | WatchEvents | Pong | Stale

_encoder = msgspec.msgpack.Encoder()
_client_decoder: Final[msgspec.msgpack.Decoder[ClientMessage]] = msgspec.msgpack.Decoder(ClientMessage)
_server_decoder: Final[msgspec.msgpack.Decoder[ServerMessage]] = msgspec.msgpack.Decoder(ServerMessage)


def encode(message: ClientMessage | ServerMessage) -> bytes:
    return _encoder.encode(message)


def decode_client_message(payload: bytes) -> ClientMessage:
    """Decode a client's message; raises ``msgspec.DecodeError`` for anything else."""
    return _client_decoder.decode(payload)


def decode_server_message(payload: bytes) -> ServerMessage:
    """Decode a server's message; raises ``msgspec.DecodeError`` for anything else."""
    return _server_decoder.decode(payload)
