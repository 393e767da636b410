"""What may be set about the HTTP door: ``http.json`` in the domain's directory, read when a host starts.

How much of everything the door takes. A host's loop serves its groups too: nobody outside may fill it.
"""

import re
from pathlib import Path
from typing import Final, Literal

import msgspec

from holdfast.model.errors import InvalidRequest
from holdfast.net import Address

FILE: Final = "http.json"
CLIENTS_MAX: Final = 1_000
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")

Grade = Literal["client", "reader", "admin"]
"""What one may do: call what is listed; also look at everything; everything."""


class Client(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One client and what it may do."""

    token_sha256: str = ""
    """Of its token, in hexadecimal digits; without it, it is known by its certificate's id alone."""
    grade: Grade = "client"
    calls: dict[str, tuple[str, ...]] = {}
    """Which methods of which groups: patterns of names, where ``*`` stands for anything."""


class HttpSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The door of every host of the domain on this machine. The defaults are those without the file."""

    listen: str = "127.0.0.1:0"
    """``host:port``. With port 0 each host takes a free one and keeps it; empty means no door."""
    certs: str = ""
    """A directory made by `holdfast certs`, with a certificate for each host: TLS, and clients may show a
    certificate of role ``client`` or ``admin`` instead of a token."""
    insecure: bool = False
    """Go without TLS beyond this machine: tokens can then be read on the way."""
    loopback: Literal["nobody", "reader", "admin"] = "admin"
    """What whoever connects from this machine may do without a token. Behind a proxy everybody does."""
    clients: dict[str, Client] = {}

    def problems(self) -> list[str]:
        """What is wrong, in words; the door stays shut."""
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
            if not client.token_sha256 and not self.certs:
                found.append(f"{name} has neither a token nor, without certs, a certificate")
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


def read_settings(directory: Path) -> HttpSettings:
    """The settings of the domain in *directory*. Raises ``InvalidRequest`` naming every problem."""
    file = directory / FILE
    try:
        settings = msgspec.json.decode(file.read_bytes(), type=HttpSettings)
    except FileNotFoundError:
        return HttpSettings()
    except (OSError, msgspec.DecodeError, RecursionError) as error:
        raise InvalidRequest(f"{file} cannot be used: {error}") from None
    problems = settings.problems()
    if problems:
        raise InvalidRequest(f"{file} cannot be used: {'; '.join(problems)}")
    return settings


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
