"""The settings of the HTTP door, ``http.json`` in the domain's directory, and the door's limits.

A host reads the settings when it starts. The limits exist because a host's loop also serves its groups, and
nobody outside may use it up.
"""

import re
from pathlib import Path
from typing import Final, Literal

import msgspec

from holdfast.admin.client_rights import Client as Client
from holdfast.admin.client_rights import ClientRules
from holdfast.admin.client_rights import Grade as Grade
from holdfast.model.errors import InvalidRequest
from holdfast.net import Address

FILE: Final = "http.json"
CLIENTS_MAX: Final = 1_000
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


class HttpSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The door of every host of the domain on this machine. The defaults apply if there is no file."""

    listen: str = "127.0.0.1:0"
    """``host:port``. With port 0 each host takes a free port and keeps it; empty means no door."""
    certs: str = ""
    """A directory made by `holdfast certs`, with a certificate for each host. It enables TLS, and clients may
    then show a certificate of role ``client`` or ``admin`` instead of a token."""
    insecure: bool = False
    """Permit access from other machines without TLS: tokens can then be read on the way."""
    loopback: Literal["nobody", "reader", "admin"] = "admin"
    """What the domain's own user and root may do on this machine without a token. Behind a proxy, everybody
    seems to be there."""
    clients: dict[str, Client] = {}

    def problems(self) -> list[str]:
        """What is wrong, in words; the door then stays closed."""
        if not self.listen:
            return []
        found = []
        try:
            address = Address.parse(self.listen)
        except InvalidRequest as error:
            return [str(error)]
        if len(self.clients) > CLIENTS_MAX:
            found.append(f"there are {len(self.clients)} clients; at most {CLIENTS_MAX}")
        for name, client in self.clients.items():
            if not _NAME.fullmatch(name):
                found.append(f"{name!r} cannot be a client's name")
            if client.token_sha256 and not _DIGEST.fullmatch(client.token_sha256):
                found.append(f"token_sha256 of {name} must have 64 lower-case hexadecimal digits")
        if not address.is_loopback:
            found += self._problems_beyond_loopback()
        return found

    def _problems_beyond_loopback(self) -> list[str]:
        found = []
        if not self.certs and not self.insecure:
            found.append(f"{self.listen} is not on this machine: it needs certs, or an explicit insecure")
        if not self.certs and not any(client.token_sha256 for client in self.clients.values()):
            found.append(f"{self.listen} is not on this machine: it needs clients with tokens, or certs")
        return found


def read_settings(directory: Path, default: HttpSettings | None = None) -> HttpSettings:
    """The settings of the domain in *directory*, or *default* if there are none.

    Raises ``InvalidRequest`` naming every problem.
    """
    file = directory / FILE
    try:
        settings = msgspec.json.decode(file.read_bytes(), type=HttpSettings)
    except FileNotFoundError:
        return default or HttpSettings()
    except (OSError, msgspec.DecodeError, RecursionError) as error:
        raise InvalidRequest(f"{file} cannot be used: {error}") from None
    problems = settings.problems()
    if problems:
        raise InvalidRequest(f"{file} cannot be used: {'; '.join(problems)}")
    return settings


def read_client_rules(directory: Path) -> ClientRules:
    """What the file says of clients, for the native door. If it cannot be used, no client comes in there; the
    HTTP door says why."""
    try:
        return ClientRules(read_settings(directory).clients)
    except InvalidRequest:
        return ClientRules(None)


CONNECTIONS_MAX: Final = 512
"""Beyond it a new connection takes the place of one that waits for its client."""
REQUESTS_MAX: Final = 256
"""Requests being answered at once; further ones are told to come again."""
STREAMS_MAX: Final = 32
"""Streams of events. Each is a watch at the authority."""
HEAD_BYTES_MAX: Final = 16 << 10
"""Request line and headers."""
BODY_BYTES_MAX: Final = 1 << 20
"""The body is read and decoded in one turn of the loop, some milliseconds. The native protocol takes more."""
BODIES_BYTES_MAX: Final = 32 << 20
"""All bodies that are being read, together; a slow one holds what it has sent so far."""
TARGET_CHARACTERS_MAX: Final = 2_000
KEY_CHARACTERS_MAX: Final = 200
TOKEN_CHARACTERS_MAX: Final = 500
TEXT_CHARACTERS_MAX: Final = 2_000
"""The length of an error's text."""

HEAD_S: Final = 10.0
"""Time until the head of a request is complete."""
BODY_S: Final = 10.0
UNREAD_S: Final = 10.0
"""How long an answer may wait for its client to read on."""
KEEP_ALIVE_S: Final = 60
ORDER_S: Final = 20.0
"""Time for an order, as in the native protocol: it waits for the authority and its disk."""
DURATION_S_DEFAULT: Final = 10.0
DURATION_S_MAX: Final = 60.0
"""The longest time for which a call is tried before it ends unanswered."""
STREAM_S_MAX: Final = 3600.0
"""How long a stream of events lasts; the listener then reconnects with the last id."""
QUIET_S: Final = 15.0
"""How often a stream without events sends a sign of life."""
CLOSE_S: Final = 1
"""Time for unfinished answers when the host stops."""
RETRY_AFTER_S: Final = 1

GROUPS_SHOWN_MAX: Final = 1_000
"""Groups in a page, and by name in the metrics; totals count them all."""
FINGERPRINTS_MAX: Final = 10_000
"""How many keys a host remembers with their calls, to report a key that is used for two."""
ORDERS_MAX: Final = 64
"""Orders that may run at once. One whose caller has gone continues: half an order is worse than a whole."""
