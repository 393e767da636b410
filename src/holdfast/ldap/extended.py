"""The extended operations that are known here, and what their values mean."""

from typing import Any, Final

from msgspec import Struct

from holdfast.directory.results import DirectoryError, ResultCode
from holdfast.ldap import ber
from holdfast.ldap.ber import BerError, Reader
from holdfast.ldap.messages import SUCCESS, ExtendedRequest, ExtendedResponse, Result

START_TLS: Final = "1.3.6.1.4.1.1466.20037"
"""RFC 4511, 4.14."""
WHO_AM_I: Final = "1.3.6.1.4.1.4203.1.11.3"
"""RFC 4532."""
PASSWORD_MODIFY: Final = "1.3.6.1.4.1.4203.1.11.1"
"""RFC 3062."""
CANCEL: Final = "1.3.6.1.1.8"
"""RFC 3909."""

PASSWORD_BYTES_MAX: Final = 1_024
"""How long a password may be: hashing a longer one is a way to keep the server busy."""


class PasswordModify(Struct, frozen=True):
    """Change a password: of the bound user if no other is named, to a generated one if none is given."""

    user: str | None = None
    old_password: bytes | None = None
    new_password: bytes | None = None

    def __repr__(self) -> str:
        return f"PasswordModify(user={self.user!r})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("user", self.user)]


def read_password_modify(value: bytes | None) -> PasswordModify:
    if value is None:
        return PasswordModify()
    try:
        whole = Reader(value)
        reader = whole.inside()
        whole.demand_end()
        user = reader.text(0x80) if reader.peek() == 0x80 else None
        old = reader.octets(0x81) if reader.peek() == 0x81 else None
        new = reader.octets(0x82) if reader.peek() == 0x82 else None
        reader.ignore_rest()
    except BerError as error:
        raise DirectoryError(
            ResultCode.PROTOCOL_ERROR, f"the password modify request cannot be read: {error}"
        ) from error
    if max(len(old or b""), len(new or b"")) > PASSWORD_BYTES_MAX:
        raise DirectoryError(
            ResultCode.CONSTRAINT_VIOLATION, f"a password has at most {PASSWORD_BYTES_MAX} bytes"
        )
    return PasswordModify(user, old, new)


def write_password_modify(change: PasswordModify) -> ExtendedRequest:
    parts = [] if change.user is None else [ber.text(change.user, 0x80)]
    parts += [] if change.old_password is None else [ber.octets(change.old_password, 0x81)]
    parts += [] if change.new_password is None else [ber.octets(change.new_password, 0x82)]
    return ExtendedRequest(PASSWORD_MODIFY, ber.sequence(*parts) if parts else None)


def generated_password(password: bytes) -> ExtendedResponse:
    """The answer that tells the user a password that the server chose."""
    return ExtendedResponse(SUCCESS, value=ber.sequence(ber.octets(password, 0x80)))


def who_am_i(authorization_id: str) -> ExtendedResponse:
    """The answer to who am I: ``dn:...``, ``u:...``, or empty for anonymous."""
    return ExtendedResponse(SUCCESS, value=authorization_id.encode())


def start_tls(result: Result) -> ExtendedResponse:
    """The answer to a StartTLS request; after success the client begins with TLS at once."""
    return ExtendedResponse(result, name=START_TLS)


def read_cancel(value: bytes | None) -> int:
    """Which message a cancel request means."""
    try:
        reader = Reader(value or b"").inside()
        return reader.integer()
    except BerError as error:
        raise DirectoryError(
            ResultCode.PROTOCOL_ERROR, f"the cancel request cannot be read: {error}"
        ) from error
