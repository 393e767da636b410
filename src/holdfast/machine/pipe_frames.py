"""Messages in the pipes between a host and its worker processes: each has its length in front.

Both ends are of one version, because the host starts the worker from its own code. So there is no handshake;
but the length is checked before anything is allocated, because a worker may run a user's class, and what that
prints must not be taken for a length.
"""

import asyncio
import struct
from collections.abc import Callable
from typing import Final

import msgspec

FRAME_BYTES_MAX: Final = 64 << 20
"""The longest message: longer than any record and any chunk of a checkpoint."""
_LENGTH: Final = struct.Struct("<I")
HEAD_BYTES: Final = _LENGTH.size


def framed(encoded: bytes) -> bytes:
    """Put the length in front of an encoded message. Raises ``msgspec.ValidationError`` if it is too long."""
    if len(encoded) > FRAME_BYTES_MAX:
        raise msgspec.ValidationError(f"a message of {len(encoded):,} bytes is too long")
    return _LENGTH.pack(len(encoded)) + encoded


def length_of(head: bytes, most: int = FRAME_BYTES_MAX) -> int:
    """The length of the next message. Raises ``msgspec.ValidationError`` before allocating anything."""
    (length,) = _LENGTH.unpack(head)
    if length > most:
        raise msgspec.ValidationError(f"a message of {length:,} bytes is too long; at most {most:,}")
    return int(length)


def read_frame(read: Callable[[int], bytes]) -> bytes:
    """Read the next message. Raises ``EOFError`` when there is none or only a part of it."""
    head = read(HEAD_BYTES)
    if len(head) < HEAD_BYTES:
        raise EOFError("the pipe has ended")
    found = read(length := length_of(head))
    if len(found) < length:
        raise EOFError("the pipe has ended within a message")
    return found


async def next_frame(pipe: asyncio.StreamReader, most: int = FRAME_BYTES_MAX) -> bytes:
    """Read the next message on the loop. Raises ``EOFError``, and ``msgspec.ValidationError`` when it would
    have more than *most* bytes."""
    return await pipe.readexactly(length_of(await pipe.readexactly(HEAD_BYTES), most))
