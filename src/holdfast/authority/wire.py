"""What the embedded authority and its clients say to each other.

Theory of operation. Nothing here relies on the transport but that bytes arrive whole: messages may be lost,
repeated, reordered, or arrive after either end has started anew.

- The server issues sessions, and every message names one. A session is known to one server process
  only and never given twice, so a message that survived its server or its client finds nobody home.
- Within a session requests are numbered. The server takes each number once, and none below the client's
  floor, so a change is applied at most once however often it arrives.
- Within a watch events are numbered. The client takes them in order; when some stay missing it starts a new
  watch where the last one ended. It acknowledges by its pings, and the server sends no more than a window
  ahead of that: a slow watcher costs the server nothing but history. A watch no ping mentions is ended.
"""

from typing import Final

import msgspec
from msgspec import Struct

from holdfast.authority.contract import Request, Result, WatchEvent
from holdfast.model.ids import Revision

REQUESTS_IN_FLIGHT_MAX: Final = 1_024
"""Of one session. The server remembers the numbers it took between a client's floor and this far above."""
WATCHES_MAX: Final = 64
"""Of one session."""
WATCH_WINDOW: Final = 128
"""Events of one watch sent and not yet acknowledged."""


# --- from client to server


class Hello(Struct, frozen=True, tag="hello", array_like=True):
    """Ask for a session -> Welcome with the same nonce."""

    nonce: int


class Ask(Struct, frozen=True, tag="ask", array_like=True):
    """One request -> Answer with the same number."""

    session: int
    floor: int
    """The lowest number the client still awaits: nothing below it is to be applied any more."""
    number: int
    request: Request


class WatchStart(Struct, frozen=True, tag="watch_start", array_like=True):
    """Send all changes below *prefix* from *revision* on."""

    session: int
    watch: int
    prefix: str
    revision: Revision


class WatchStop(Struct, frozen=True, tag="watch_stop", array_like=True):
    session: int
    watch: int


class Ping(Struct, frozen=True, tag="ping", array_like=True):
    """Are you there? -> Pong. Says how many events of each watch have arrived without a gap."""

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
    """How many events of each watch have been sent; a watch that is not listed is not known here."""

    session: int
    sent: tuple[tuple[int, int], ...]


class Stale(Struct, frozen=True, tag="stale", array_like=True):
    """There is no such session (any more): say Hello."""

    session: int


ServerMessage = Welcome | Answer | WatchEvents | Pong | Stale

_encoder = msgspec.msgpack.Encoder()
_client_decoder: Final[msgspec.msgpack.Decoder[ClientMessage]] = msgspec.msgpack.Decoder(ClientMessage)
_server_decoder: Final[msgspec.msgpack.Decoder[ServerMessage]] = msgspec.msgpack.Decoder(ServerMessage)


def encode(message: ClientMessage | ServerMessage) -> bytes:
    return _encoder.encode(message)


def decode_client_message(payload: bytes) -> ClientMessage:
    """Raises ``msgspec.DecodeError`` for anything that is not a client's message."""
    return _client_decoder.decode(payload)


def decode_server_message(payload: bytes) -> ServerMessage:
    """Raises ``msgspec.DecodeError`` for anything that is not a server's message."""
    return _server_decoder.decode(payload)
