"""Where a domain keeps its secret, and the keys that other domains gave it.

::

    DIR/secret           the domain's secret: made once, readable by the domain's user only
    DIR/keys/<domain>    the key with which this domain's groups call those of another domain

Programs of the domain's user find the secret in the directory that they name, or in ``HOLDFAST_DIR``, or in
``.holdfast`` below the current directory, where the commands look too.
"""

import os
import secrets
import stat
from pathlib import Path
from typing import Final

import msgspec

from holdfast.machine.files import OTHERS, create_file, make_private, write_durably
from holdfast.model.errors import InvalidRequest
from holdfast.net.credentials import ADVICE, SECRET_BYTES, ClientKey, DomainSecret
from holdfast.net.handshake import check_name

SECRET_FILE: Final = "secret"
KEYS_DIRECTORY: Final = "keys"
DIRECTORY_VARIABLE: Final = "HOLDFAST_DIR"
DIRECTORY_DEFAULT: Final = Path(".holdfast")
FILE_BYTES_MAX: Final = 1_000
"""No secret or key is longer; a file that is, is none."""


class _Kept(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of the secret's file."""

    domain: str
    secret: str
    """Hexadecimal digits."""


def ensure_secret(directory: Path, domain: str) -> DomainSecret:
    """The secret of the domain in *directory*, made now if there is none. Raises ``InvalidRequest``."""
    file = directory / SECRET_FILE
    if not file.exists():
        _keep(file, DomainSecret(domain, secrets.token_bytes(SECRET_BYTES)), is_new=True)
    return read_secret(directory, domain)


def keep_secret(directory: Path, secret: DomainSecret) -> None:
    """Keep *secret* in *directory*: a second directory of the same domain."""
    make_private(directory)
    _keep(directory / SECRET_FILE, secret)


def read_secret(directory: Path, domain: str | None = None) -> DomainSecret:
    """The secret in *directory*, which must be of *domain* if that is given. Raises ``InvalidRequest``."""
    file = directory / SECRET_FILE
    try:
        kept = msgspec.json.decode(_read(file), type=_Kept)
        found = DomainSecret(kept.domain, bytes.fromhex(kept.secret))
    except FileNotFoundError:
        raise InvalidRequest(
            f"{directory} holds no secret of a domain; `holdfast up --dir {directory}` makes it"
        ) from None
    except PermissionError:
        raise InvalidRequest(f"{file} is not readable for this user: {ADVICE}") from None
    except (msgspec.DecodeError, ValueError):
        raise InvalidRequest(f"{file} is not the secret of a domain") from None
    if domain is not None and found.domain != domain:
        raise InvalidRequest(f"{file} is the secret of domain {found.domain!r}, not of {domain!r}")
    return found


def find_secret(domain: str) -> DomainSecret:
    """The secret of *domain*, from ``HOLDFAST_DIR`` or the default directory. Raises ``InvalidRequest``."""
    named = os.environ.get(DIRECTORY_VARIABLE)
    if named:
        return read_secret(Path(named), domain)
    try:
        return read_secret(DIRECTORY_DEFAULT, domain)
    except InvalidRequest:
        raise InvalidRequest(f"nothing proves to domain {domain!r} who this is: {ADVICE}") from None


def keep_key(directory: Path, domain: str, key: ClientKey) -> None:
    """Keep the key that *domain* gave to this one."""
    check_name("domain", domain)
    make_private(directory / KEYS_DIRECTORY)
    write_durably(directory / KEYS_DIRECTORY / domain, f"{key.text}\n".encode())


def read_key(directory: Path, domain: str) -> ClientKey:
    """The key that *domain* gave to the domain in *directory*. Raises ``InvalidRequest``."""
    check_name("domain", domain)
    try:
        return ClientKey.parse(_read(directory / KEYS_DIRECTORY / domain).decode("ascii", "replace").strip())
    except OSError:
        raise InvalidRequest(
            f"there is no key of domain {domain!r} here: make one there with `holdfast key NAME` and keep it "
            f"with `holdfast key keep {domain} --dir {directory}`"
        ) from None


def _read(file: Path) -> bytes:
    with file.open("rb") as opened:
        mode = stat.S_IMODE(os.fstat(opened.fileno()).st_mode)
        if mode & OTHERS:
            raise InvalidRequest(f"{file} is open to others (mode {mode:o}): `chmod go= {file}`")
        return opened.read(FILE_BYTES_MAX)


def _keep(file: Path, secret: DomainSecret, *, is_new: bool = False) -> None:
    kept = _Kept(domain=secret.domain, secret=secret.secret.hex())
    (create_file if is_new else write_durably)(file, msgspec.json.encode(kept) + b"\n")
