"""Kinds of frames: the one table that says what may travel on a connection.

Each subsystem owns a range of 16 numbers and decodes its own payloads. A number is never reused.
"""

from enum import IntEnum
from typing import Final


class Kind(IntEnum):
    """What a frame's payload is; the byte after the length."""

    # 0-15: the connection itself, never seen by its users
    HELLO = 1
    WELCOME = 2
    GOODBYE = 3
    ALIVE = 4

    # 16-31: authority
    AUTHORITY_ASK = 16
    AUTHORITY_ANSWER = 17
    AUTHORITY_WATCH = 18
    AUTHORITY_EVENT = 19
    AUTHORITY_UNWATCH = 20

    # 32-47: hosts among themselves
    HEARTBEAT = 32
    HEARTBEAT_ANSWER = 33
    CONTROL = 34

    # 48-63: agents
    AGENT_REPORT = 48
    AGENT_ORDER = 49
    AGENT_ANSWER = 50

    # 64-79: status, asked of any process
    STATUS_REQUEST = 64
    STATUS_REPLY = 65

    # 80-95: calls and their replies (model.calls)
    CALL = 80
    CALL_ANSWER = 81
    GROUP_ORDER = 82
    GROUP_ANSWER = 83

    # 96-127: the replicated sequence, and the leases between hosts (sequence.messages)
    SEQUENCE = 96


FIRST_APPLICATION_KIND: Final = 16

KIND_OF_NUMBER: Final[tuple[Kind | None, ...]] = tuple(
    Kind(number) if number in Kind._value2member_map_ else None for number in range(256)
)
"""The kind of each possible byte; looking it up costs a tenth of calling ``Kind``."""

APPLICATION_KIND_OF_NUMBER: Final[tuple[Kind | None, ...]] = (
    *(None,) * FIRST_APPLICATION_KIND,
    *KIND_OF_NUMBER[FIRST_APPLICATION_KIND:],
)
"""The same without the kinds of the connection itself."""
