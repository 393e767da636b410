"""A program of another user that tries every door of a domain: ``stranger.py UID DIR ATTEMPTS``.

*ATTEMPTS* is JSON: addresses by the role that listens there, addresses of HTTP doors, and the domain's name.
It becomes that user first, as ``setpriv --reuid --clear-groups`` would, and prints what it got as JSON.
"""

import asyncio
import encodings.idna
import json
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from holdfast.net import (
    Address,
    ClientKey,
    ConnectionSettings,
    DomainSecret,
    Inbox,
    NotConnected,
    PeerIdentity,
    Role,
    connect,
)
from holdfast.net.credentials import SECRET_BYTES

assert encodings.idna  # loaded before this user can no longer read the library


async def attempts(domain: str, doors: dict[str, list[str]]) -> dict[str, str]:
    found = {}
    guess = DomainSecret(domain, bytes(SECRET_BYTES))
    for door, addresses in doors.items():
        for address in addresses:
            for role in Role:
                endpoint = ConnectionSettings(PeerIdentity(domain, role, "stranger"), credentials=guess)
                found[f"{door} {address} as {role}"] = await attempt(address, endpoint)
            key = ClientKey("shop", bytes(SECRET_BYTES))
            client = ConnectionSettings(PeerIdentity(domain, Role.CLIENT, "shop"), credentials=key)
            found[f"{door} {address} with a key"] = await attempt(address, client)
    return found


async def attempt(address: str, endpoint: ConnectionSettings) -> str:
    try:
        connection = await connect(Address.parse(address), lambda _: Inbox(frames_max=1), endpoint)
    except NotConnected as error:
        return str(error.reason.why)
    connection.abort()
    return "admitted"


def asked(url: str, method: str, body: bytes | None = None) -> str:
    request = urllib.request.Request(url, method=method, data=body)
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return str(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return str(error.code)


def main(user: int, directory: Path, wanted: dict[str, Any]) -> dict[str, str]:
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    found = asyncio.run(attempts(wanted["domain"], wanted["doors"]))
    for url in wanted["http"]:
        found[f"GET {url}"] = asked(f"{url}/v1/groups", "GET")
        found[f"DELETE {url}"] = asked(f"{url}/v1/groups/books", "DELETE")
        found[f"POST {url}"] = asked(f"{url}/v1/groups/books/calls/balance", "POST", b'{"args": ["alice"]}')
    for name in ("secret", "domain.json"):
        try:
            found[f"read {name}"] = (directory / name).read_text()
        except PermissionError:
            found[f"read {name}"] = "denied"
    return found


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3]))))
