"""Finds out whether the authority answers: who starts a domain is told whom it waits for.

Hosts ask their authority again and again, without a word: for them one that is away is an ordinary state.
A person who mistyped an address would otherwise look at a start that does not end.
"""

import asyncio
import os
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

PROBE_S: Final = 1.0
"""How long an endpoint may take. A person is told within two seconds."""
ETCD_PORT: Final = 2379
NATIVE: Final = "holdfast"
"""The scheme of an embedded authority, here."""
_SILENT: Final = ("https", NATIVE)
"""What speaks these says something only to those who have a certificate or the domain's secret."""
_ASK: Final = b"GET /health HTTP/1.1\r\nhost: etcd\r\nconnection: close\r\n\r\n"


async def why_none_answers(endpoints: Sequence[str], *, within_s: float = PROBE_S) -> str | None:
    """What is wrong with each endpoint, in words; None if one of them answers."""
    found = await asyncio.gather(*(_problem(each, within_s) for each in endpoints))
    if any(each is None for each in found):
        return None
    return "; ".join(f"{endpoint}: {why}" for endpoint, why in zip(endpoints, found, strict=True))


async def _problem(endpoint: str, within_s: float) -> str | None:
    parts = urlsplit(endpoint if "//" in endpoint else f"//{endpoint}")
    try:
        host, port = parts.hostname or "", parts.port or ETCD_PORT
    except ValueError as error:
        return str(error)
    is_connected = False
    try:
        async with asyncio.timeout(within_s):
            reader, writer = await asyncio.open_connection(host, port)
            is_connected = True
            try:
                if parts.scheme not in _SILENT:
                    writer.write(_ASK)
                    if not await reader.read(1):
                        return "hangs up"
                return None
            finally:
                writer.close()
    except TimeoutError:
        return "takes connections and does not answer" if is_connected else "does not answer"
    except OSError as error:
        number = error.errno or 0  # negative for a name that is not found
        return os.strerror(number) if number > 0 else error.strerror or str(error)
