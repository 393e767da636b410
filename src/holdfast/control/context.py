"""The state context as the control plane sees it: a number and bytes that are equal where the number is."""

from hashlib import blake2b
from typing import Final

from msgspec import Struct

DIGEST_BYTES: Final = 16


class Context(Struct, frozen=True, array_like=True):
    """One committed (or proposed) state context. *cas* is that of the transaction that made it; 0 of none."""

    cas: int = 0
    body: bytes = b""

    @property
    def digest(self) -> bytes:
        return digest_of(self.cas, self.body)


def digest_of(cas: int, body: bytes) -> bytes:
    return blake2b(body, digest_size=DIGEST_BYTES, salt=cas.to_bytes(8, "little")).digest()
