"""Whose a request id is, where that can be told (N4).

Most ids cannot be guessed: a client of ours draws a long random one, and whoever knows it was told. Three
kinds can be: that of a call under an ``Idempotency-Key``, which is made of the caller's name and key; that of
an HTTP call without one, which all callers of a door share, with numbers that count up; and that of a host,
for the calls of groups to groups. Asking for an outcome also settles it (X3), so who guesses an id learns a
reply that is not his, or keeps a call from running.
"""

import secrets
from hashlib import sha256
from typing import Final

from holdfast.model.ids import ClientId
from holdfast.sequence.keyed_replies import caller_of, keyed_client

_DOOR: Final = "door-"
_RESERVED: Final = ("http-", _DOOR)
_HOSTS: Final = ":"
"""Stands in the ids of hosts, between the host's name and the number of its process."""


def door_client() -> ClientId:
    """A new client id for the HTTP calls without a key of one door to one group."""
    return ClientId(f"{_DOOR}{secrets.token_hex(12)}")


def is_of_door(client: ClientId) -> bool:
    return client.startswith(_DOOR)


def key_client(caller: str, key: str, window: int) -> ClientId:
    """The client id of one key of *caller*; *key* is a hexadecimal digest."""
    return keyed_client(_digest(caller), key, window)


def may_use(caller: str, client: ClientId) -> bool:
    """Whether *caller*, who is limited, may call and ask under *client*: it is his own, or nobody could guess
    it."""
    if owner := caller_of(client):
        return _digest(caller).startswith(owner)
    return not client.startswith(_RESERVED) and _HOSTS not in client


def _digest(caller: str) -> str:
    return sha256(caller.encode()).hexdigest()
