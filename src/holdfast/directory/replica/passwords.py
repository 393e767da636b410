"""Stored passwords: hashed, salted, and readable by other servers.

Values of ``userPassword`` are ``{SCHEME}`` and the rest (RFC 2307). New ones are PBKDF2 as OpenLDAP's module
writes it; the salted SHA family is read as well, so that entries of other directories can be taken over.
Hashing takes long on purpose: whoever calls :func:`verified` or :func:`hashed` does so off the loop.
"""

import base64
import hashlib
import hmac
import re
from binascii import Error as BinasciiError
from typing import Final

ROUNDS: Final = 100_000
"""How often a new password is hashed: some 50 ms of one core."""
ROUNDS_MAX: Final = 10_000_000
"""A stored value that asks for more is not computed: it would keep a core busy for seconds."""
SALT_BYTES: Final = 16
PASSWORD_BYTES_MAX: Final = 1_024

_PBKDF2: Final = re.compile(rb"\{PBKDF2-(SHA1|SHA256|SHA512)\}(\d{1,8})\$([A-Za-z0-9./]+)\$([A-Za-z0-9./]+)")
_SHA: Final = re.compile(rb"\{(S?)(SHA|SHA256|SHA384|SHA512)\}([A-Za-z0-9+/]+=*)", re.IGNORECASE)
_DIGESTS: Final = {
    b"SHA": hashlib.sha1,
    b"SHA256": hashlib.sha256,
    b"SHA384": hashlib.sha384,
    b"SHA512": hashlib.sha512,
}


def is_hashed(value: bytes) -> bool:
    """Whether a value is a hash that this server can verify. Everything else counts as a password in
    clear, which is never stored."""
    return _PBKDF2.fullmatch(value) is not None or _SHA.fullmatch(value) is not None


def hashed(password: bytes, salt: bytes, rounds: int = ROUNDS) -> bytes:
    """What is stored of a new password."""
    digest = hashlib.pbkdf2_hmac("sha512", password, salt, rounds)
    return b"{PBKDF2-SHA512}%d$%b$%b" % (rounds, _adapted(salt), _adapted(digest))


def verified(password: bytes, stored: bytes) -> bool:
    """Whether *password* is the one of which *stored* is the hash."""
    if not password or len(password) > PASSWORD_BYTES_MAX:
        return False
    try:
        return _verified(password, stored)
    except (ValueError, BinasciiError):
        return False


def _verified(password: bytes, stored: bytes) -> bool:
    found = _PBKDF2.fullmatch(stored)
    if found is not None:
        rounds, salt, digest = int(found[2]), _plain(found[3]), _plain(found[4])
        if not 0 < rounds <= ROUNDS_MAX:
            return False
        computed = hashlib.pbkdf2_hmac(found[1].decode().lower(), password, salt, rounds, len(digest))
        return hmac.compare_digest(computed, digest)
    found = _SHA.fullmatch(stored)
    if found is None:
        return False
    digest_of = _DIGESTS[found[2].upper()]
    data = base64.b64decode(found[3], validate=True)
    size = digest_of().digest_size
    digest, salt = data[:size], data[size:]
    if bool(salt) != bool(found[1]):
        return False
    return hmac.compare_digest(digest_of(password + salt).digest(), digest)


def _adapted(data: bytes) -> bytes:
    """Base64 with a dot for the plus and without padding."""
    return base64.b64encode(data).rstrip(b"=").replace(b"+", b".")


def _plain(text: bytes) -> bytes:
    return base64.b64decode(text.replace(b".", b"+") + b"=" * (-len(text) % 4), validate=True)
