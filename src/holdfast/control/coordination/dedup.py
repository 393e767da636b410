"""Makes each requested change once, however often it is sent.

A host that requests a change and does not hear the outcome asks again, if need be the next coordinator. So
each request (:class:`Wish`) has an id, and the context keeps the latest granted ones with their replies. A
second copy gets the first one's reply and changes nothing. Asking for the outcome settles it, as X3 does for
calls: a request that was not granted when somebody asked about it never will be.
"""

from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Struct

from holdfast.model.errors import InvalidRequest

IDS_KEPT: Final = 1_000
"""How many requests the context remembers. A copy that arrives after so many others counts as a new request;
that is far more than are made while a host asks again."""
REPLIES_BYTES_MAX: Final = 1 << 20
"""The most bytes of remembered replies; if replies are long, fewer requests are remembered. Otherwise replies
could fill the context, and since every request adds one, nothing could ever be changed again."""
ID_CHARACTERS_MAX: Final = 100

Apply = Callable[[bytes, bytes], tuple[bytes, bytes]]


class NeverGranted(InvalidRequest):
    """Raised when a request arrives after somebody was told that it was not granted."""

    code = "never_granted"


class Wish(Struct, frozen=True, array_like=True):
    """A change, with the id under which it is made at most once. Without a change, it asks for the outcome of
    that id."""

    id: str
    change: bytes = b""


class Settled(Struct, frozen=True, array_like=True):
    """The outcome of one request."""

    id: str
    is_granted: bool
    reply: bytes = b""


class Kept(Struct, frozen=True, array_like=True):
    """The body of the context: the application's own body, and the newest requests, oldest first."""

    body: bytes = b""
    settled: tuple[Settled, ...] = ()


class Dedup:
    """Makes each change once, by *apply*."""

    def __init__(self, apply: Apply) -> None:
        self._apply = apply

    def apply(self, body: bytes, change: bytes) -> tuple[bytes, bytes]:
        """Apply a request to *body*. The reply is an encoded :class:`Settled`. Raises ``InvalidRequest``,
        also for bytes that are not a request."""
        wish, kept = decode_wish(change), decode_body(body)
        known = next((each for each in kept.settled if each.id == wish.id), None)
        if known is not None:
            if wish.change and not known.is_granted:
                raise NeverGranted(f"wish {wish.id} was settled before: it is never granted")
            return body, _encode(known)
        inner, settled = kept.body, Settled(wish.id, is_granted=False)
        if wish.change:
            inner, reply = self._apply(kept.body, wish.change)
            settled = Settled(wish.id, is_granted=True, reply=reply)
        after = Kept(inner, _newest((*kept.settled, settled)))
        return _encode(after), _encode(settled)


def _newest(settled: tuple[Settled, ...]) -> tuple[Settled, ...]:
    """Return the outcomes that the context remembers; the last is always among them."""
    first, room = len(settled) - 1, REPLIES_BYTES_MAX - len(settled[-1].reply)
    while first > max(0, len(settled) - IDS_KEPT) and len(settled[first - 1].reply) <= room:
        first -= 1
        room -= len(settled[first].reply)
    return settled[first:]


def encode_wish(wish: Wish) -> bytes:
    return _encode(wish)


def decode_wish(change: bytes) -> Wish:
    try:
        wish = _wishes.decode(change)
    except msgspec.DecodeError as error:
        raise InvalidRequest(f"not a wish: {error}") from None
    if not 1 <= len(wish.id) <= ID_CHARACTERS_MAX:
        raise InvalidRequest(f"the id of a wish has 1 to {ID_CHARACTERS_MAX} characters")
    return wish


def decode_body(body: bytes) -> Kept:
    """Decode the body of a committed context, which is always well-formed."""
    return _bodies.decode(body) if body else Kept()


def with_body(body: bytes, inner: bytes) -> bytes:
    """Return *body* with the same remembered requests and the application body *inner*."""
    return _encode(Kept(inner, decode_body(body).settled))


def decode_settled(reply: bytes) -> Settled:
    return _replies.decode(reply)


_encode: Final = msgspec.msgpack.Encoder().encode
_wishes: Final = msgspec.msgpack.Decoder(Wish)
_bodies: Final = msgspec.msgpack.Decoder(Kept)
_replies: Final = msgspec.msgpack.Decoder(Settled)
