"""The settings of the HTTP door, ``[http]`` in `holdfast.toml` and ``http.json``, and the door's limits.

Where it listens is in `holdfast.toml` (or in ``http.json``, but not in both), who may come in is in the
latter. A host reads both when it starts. The limits exist because a host's loop also serves its groups, and
nobody outside may use it up.
"""

import os
import re
from pathlib import Path
from typing import Final

import msgspec

from holdfast.admin.client_rights import Client as Client
from holdfast.admin.client_rights import ClientRules
from holdfast.admin.client_rights import Grade as Grade
from holdfast.model.errors import InvalidRequest
from holdfast.net import Address
from holdfast.settings.doors import HttpConfig
from holdfast.settings.file import read_applied

FILE: Final = "http.json"
CLIENTS_MAX: Final = 1_000
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


class HttpSettings(HttpConfig, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The door of every host of the domain on this machine, and who may come in."""

    clients: dict[str, Client] = msgspec.field(default_factory=dict)

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
    """The settings of the domain in *directory*: those of ``[http]`` in its `holdfast.toml`, as it was
    applied, with what ``http.json`` says of clients, or *default* if there are none.

    Raises ``InvalidRequest`` naming every problem.
    """
    file = directory / FILE
    applied = read_applied(directory, os.environ)
    given = [name.partition(".")[2] for name in applied.sources if name.startswith("http.")]
    base = msgspec.structs.asdict(applied.settings.http) if given else {}
    try:
        said = msgspec.json.decode(file.read_bytes(), type=dict[str, msgspec.Raw])
        settings = msgspec.convert(
            base | {name: msgspec.json.decode(each) for name, each in said.items()}, HttpSettings
        )
    except FileNotFoundError:
        return HttpSettings(**base) if given else default or HttpSettings()
    except (OSError, msgspec.DecodeError, RecursionError) as error:
        raise InvalidRequest(f"{file} cannot be used: {error}") from None
    problems = settings.problems()
    if twice := [name for name in given if name in said]:
        problems.append(f"{', '.join(twice)} stands in [http] of holdfast.toml too; keep one of them")
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
