"""How much of everything the door takes. A host's loop serves its groups too: nobody outside may fill it."""

from typing import Final

CONNECTIONS_MAX: Final = 512
REQUESTS_MAX: Final = 256
"""Being answered at once; whoever comes then is told to come again."""
STREAMS_MAX: Final = 32
"""Of events. Each is a watch at the authority."""
HEAD_BYTES_MAX: Final = 16 << 10
"""Request line and headers."""
BODY_BYTES_MAX: Final = 1 << 20
"""Read and decoded in one turn of the loop: some milliseconds. The native protocol takes more."""
TARGET_CHARACTERS_MAX: Final = 2_000
KEY_CHARACTERS_MAX: Final = 200
TOKEN_CHARACTERS_MAX: Final = 500
TEXT_CHARACTERS_MAX: Final = 2_000
"""Of an error's text."""

HEAD_S: Final = 10.0
"""Until the head of a request is there."""
BODY_S: Final = 10.0
KEEP_ALIVE_S: Final = 60
ORDER_S: Final = 20.0
"""As the native protocol gives an order: it waits for the authority, and the authority for its disk."""
DURATION_S_DEFAULT: Final = 10.0
DURATION_S_MAX: Final = 60.0
"""Of a call: how long it is tried before it ends unanswered."""
STREAM_S_MAX: Final = 3600.0
"""Then a stream of events ends; whoever listens comes again with the last id."""
QUIET_S: Final = 15.0
"""A stream without events says so often that it lives."""
CLOSE_S: Final = 1
"""For answers under way when the host stops."""
RETRY_AFTER_S: Final = 1

GROUPS_SHOWN_MAX: Final = 1_000
"""In a page of groups, and by name in the metrics; totals count them all."""
FINGERPRINTS_MAX: Final = 10_000
"""Keys whose calls a host remembers, to tell callers that use one for two."""
ORDERS_MAX: Final = 64
"""Under way at once. One whose caller has gone goes on: half an order is worse than a whole one."""
