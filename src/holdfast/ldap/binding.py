"""Who a client is: simple binds, EXTERNAL, and changed passwords.

A wrong name and a wrong password are answered alike and take as long: each is compared with some hash.
"""

from collections.abc import Callable
from typing import Any, Final

from holdfast.directory.dn import Dn
from holdfast.directory.operations import Modification, ModificationKind, ModifyRequest
from holdfast.directory.replica.access import ANONYMOUS, Identity
from holdfast.directory.replica.passwords import verified
from holdfast.directory.results import DirectoryError, ResultCode
from holdfast.ldap.changing import PASSWORD, Changing
from holdfast.ldap.controls import NO_CONTROLS
from holdfast.ldap.extended import PasswordModify
from holdfast.ldap.messages import VERSION, BindRequest, SaslAuthentication, SimpleAuthentication
from holdfast.ldap.server_entries import EXTERNAL
from holdfast.ldap.service import Service

NOBODYS: Final = (
    b"{PBKDF2-SHA512}100000$bm9ib2R5bm9ib2R5bm9ibw$"
    b"3i0uY5zVv0kEwq8cJxv2m6w1c2t9b7o4n8Zs5d6f7g8h9j0k1l2m3n4b5v6c7x8z9q0w1e2r3t4y5u6i7o8p9A"
)
"""What the password of an entry that does not exist is compared with."""

ALPHABET: Final = b"abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"
GENERATED_CHARACTERS: Final = 20


def wrong(result: ResultCode, text: str) -> DirectoryError:
    return DirectoryError(result, text)


class Binding:
    """Finds out who one connection is."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def begin(
        self,
        request: BindRequest,
        *,
        is_tls: bool,
        certified: str | None,
        then: Callable[[Identity | DirectoryError], None],
    ) -> None:
        """Check who the client says it is; *then* hears of it, at once or later. Raises what is refused at
        once. *certified* is the subject of the client's certificate."""
        if request.version != VERSION:
            raise wrong(ResultCode.PROTOCOL_ERROR, f"this server speaks version {VERSION} of LDAP")
        match request.authentication:
            case SimpleAuthentication(password):
                self._simple(request.name, password, is_tls=is_tls, then=then)
            case SaslAuthentication(mechanism, credentials):
                if mechanism != EXTERNAL:
                    raise wrong(
                        ResultCode.AUTH_METHOD_NOT_SUPPORTED,
                        "of SASL's mechanisms this server knows EXTERNAL, over TLS with a client certificate",
                    )
                then(self._external(certified, credentials))

    def _simple(
        self, name: str, password: bytes, *, is_tls: bool, then: Callable[[Identity | DirectoryError], None]
    ) -> None:
        if not password:
            if name:
                # RFC 4513, 5.1.2: taken for a success by programs that forgot to check for an empty password.
                raise wrong(ResultCode.UNWILLING_TO_PERFORM, "a name without a password proves nothing")
            then(ANONYMOUS)
            return
        if self._service.policy.require_tls and not is_tls:
            raise wrong(ResultCode.CONFIDENTIALITY_REQUIRED, "passwords are taken over TLS alone")
        dn = Dn.parse(name)
        stored = self._stored(name) or (NOBODYS,)

        def judge(is_right: Any) -> None:
            if is_right:
                then(self._service.identity(dn))
            else:
                then(wrong(ResultCode.INVALID_CREDENTIALS, "the name or the password is wrong"))

        work = any_verified(password, stored)
        if not self._service.ports.hasher.submit(work, judge):
            raise wrong(ResultCode.BUSY, "too many passwords wait to be checked; try again")

    def _stored(self, name: str) -> tuple[bytes, ...]:
        named = self._service.name(name)
        snapshot = named.context.replica.snapshot()
        try:
            view = snapshot.view(snapshot.find(named.dn, named.key))
            return () if view is None else view.attributes.get(PASSWORD, ())
        except DirectoryError:
            return ()
        finally:
            snapshot.close()

    def _external(self, certified: str | None, credentials: bytes | None) -> Identity | DirectoryError:
        if certified is None:
            return wrong(
                ResultCode.INAPPROPRIATE_AUTHENTICATION,
                "EXTERNAL needs TLS with a client certificate that this server trusts",
            )
        identity = self._service.identity(Dn.parse(certified))
        if credentials:
            text = credentials.decode("utf-8", "replace")
            asked = text.removeprefix("dn:")
            if not text.startswith("dn:") or self._service.identity(Dn.parse(asked)).key != identity.key:
                return wrong(
                    ResultCode.INVALID_CREDENTIALS, "the certificate is not that of the name asked for"
                )
        return identity

    def change_password(
        self,
        identity: Identity,
        change: PasswordModify,
        changing: Changing,
        done: Callable[[bytes | None], None],
        refused: Callable[[DirectoryError], None],
    ) -> None:
        """RFC 3062: *done* is called with the password if the server chose it."""
        service = self._service
        if identity.is_anonymous:
            raise wrong(ResultCode.INSUFFICIENT_ACCESS_RIGHTS, "bind first: whose password shall be changed?")
        dn = Dn.parse(identity.dn if change.user is None else change.user.removeprefix("dn:"))
        new = change.new_password
        if new is not None and not new:
            raise wrong(ResultCode.CONSTRAINT_VIOLATION, "a password has at least one character")
        chosen = None if new is not None else generated(service.ports.random_bytes)
        step = Modification(ModificationKind.REPLACE, PASSWORD, (new or chosen or b"",))
        request = ModifyRequest(str(dn), (step,))

        def replace() -> None:
            changing.begin(identity, request, NO_CONTROLS, lambda controls: done(chosen), refused)

        old = change.old_password
        if old is None:
            replace()
            return

        def judge(is_right: Any) -> None:
            if not is_right:
                refused(wrong(ResultCode.UNWILLING_TO_PERFORM, "the old password is wrong"))
                return
            try:
                replace()
            except DirectoryError as error:
                refused(error)

        if not service.ports.hasher.submit(any_verified(old, self._stored(str(dn))), judge):
            raise wrong(ResultCode.BUSY, "too many passwords wait to be checked; try again")


def any_verified(password: bytes, stored: tuple[bytes, ...]) -> Callable[[], bool]:
    return lambda: any(verified(password, each) for each in stored)


def generated(random_bytes: Callable[[int], bytes]) -> bytes:
    """A password that people can read aloud: no letters that look alike."""
    found = bytearray()
    while len(found) < GENERATED_CHARACTERS:
        # Bytes past the last whole multiple of the alphabet would make its first letters more likely.
        whole = 256 - 256 % len(ALPHABET)
        found += bytes(ALPHABET[each % len(ALPHABET)] for each in random_bytes(32) if each < whole)
    return bytes(found[:GENERATED_CHARACTERS])
