"""LDAP's messages as values (RFC 4511): an envelope with a number, an operation and controls.

What a client asks of the directory is in :mod:`holdfast.directory.operations`; here is the rest: what
concerns the connection (bind, unbind, abandon, extended operations), and all answers. :mod:`.decoding` and
:mod:`.encoding` turn them from bytes and into bytes.
"""

from collections.abc import Callable
from enum import IntEnum
from typing import Any, Final

from msgspec import Struct

from holdfast.directory.operations import (
    AddRequest,
    Attribute,
    CompareRequest,
    DeleteRequest,
    ModifyDnRequest,
    ModifyRequest,
    SearchRequest,
)
from holdfast.directory.results import DirectoryError, ResultCode

VERSION: Final = 3

MESSAGE_ID_MAX: Final = 2**31 - 1

MESSAGE_BYTES_MAX: Final = 2 * 1024 * 1024
"""How long a message of a bound client may be, by default: an entry with photographs."""

ANONYMOUS_BYTES_MAX: Final = 256 * 1024
"""The same for a client that has not bound, so that strangers cannot make the server hold much."""


class Tag(IntEnum):
    """The byte by which each operation begins."""

    BIND_REQUEST = 0x60
    BIND_RESPONSE = 0x61
    UNBIND_REQUEST = 0x42
    SEARCH_REQUEST = 0x63
    SEARCH_RESULT_ENTRY = 0x64
    SEARCH_RESULT_DONE = 0x65
    MODIFY_REQUEST = 0x66
    MODIFY_RESPONSE = 0x67
    ADD_REQUEST = 0x68
    ADD_RESPONSE = 0x69
    DELETE_REQUEST = 0x4A
    DELETE_RESPONSE = 0x6B
    MODIFY_DN_REQUEST = 0x6C
    MODIFY_DN_RESPONSE = 0x6D
    COMPARE_REQUEST = 0x6E
    COMPARE_RESPONSE = 0x6F
    ABANDON_REQUEST = 0x50
    SEARCH_RESULT_REFERENCE = 0x73
    EXTENDED_REQUEST = 0x77
    EXTENDED_RESPONSE = 0x78
    INTERMEDIATE_RESPONSE = 0x79


class Control(Struct, frozen=True):
    """A control as it travels; :mod:`.controls` says what those that are known mean."""

    oid: str
    is_critical: bool = False
    value: bytes | None = None


# --- requests that concern the connection


class SimpleAuthentication(Struct, frozen=True):
    password: bytes

    def __repr__(self) -> str:
        return "SimpleAuthentication(a password)" if self.password else "SimpleAuthentication(no password)"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("has_password", bool(self.password))]


class SaslAuthentication(Struct, frozen=True):
    mechanism: str
    credentials: bytes | None = None

    def __repr__(self) -> str:
        return f"SaslAuthentication({self.mechanism!r})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("mechanism", self.mechanism)]


class BindRequest(Struct, frozen=True):
    version: int
    name: str
    authentication: SimpleAuthentication | SaslAuthentication


class UnbindRequest(Struct, frozen=True):
    """The client is about to close the connection; nothing answers it."""


class AbandonRequest(Struct, frozen=True):
    """The client no longer wants the answer to that message; nothing answers it."""

    message_id: int


class ExtendedRequest(Struct, frozen=True):
    name: str
    value: bytes | None = None


# --- answers


class Result(Struct, frozen=True):
    """How an operation ended. A code that this version does not know stays a plain number."""

    code: ResultCode | int = ResultCode.SUCCESS
    matched_dn: str = ""
    diagnostic: str = ""
    referrals: tuple[str, ...] = ()

    @classmethod
    def of(cls, error: DirectoryError) -> "Result":
        return cls(error.result, error.matched_dn, error.diagnostic)


SUCCESS: Final = Result()


class BindResponse(Struct, frozen=True):
    result: Result
    credentials: bytes | None = None
    """What a SASL mechanism of several steps answers."""


class SearchResultEntry(Struct, frozen=True):
    dn: str
    attributes: tuple[Attribute, ...]


class SearchResultReference(Struct, frozen=True):
    """Where else to look: at least one URL."""

    urls: tuple[str, ...]


class SearchResultDone(Struct, frozen=True):
    result: Result


class ModifyResponse(Struct, frozen=True):
    result: Result


class AddResponse(Struct, frozen=True):
    result: Result


class DeleteResponse(Struct, frozen=True):
    result: Result


class ModifyDnResponse(Struct, frozen=True):
    result: Result


class CompareResponse(Struct, frozen=True):
    result: Result


class ExtendedResponse(Struct, frozen=True):
    result: Result
    name: str | None = None
    value: bytes | None = None


class IntermediateResponse(Struct, frozen=True):
    name: str | None = None
    value: bytes | None = None


Request = (
    BindRequest
    | UnbindRequest
    | SearchRequest
    | ModifyRequest
    | AddRequest
    | DeleteRequest
    | ModifyDnRequest
    | CompareRequest
    | AbandonRequest
    | ExtendedRequest
)

Response = (
    BindResponse
    | SearchResultEntry
    | SearchResultReference
    | SearchResultDone
    | ModifyResponse
    | AddResponse
    | DeleteResponse
    | ModifyDnResponse
    | CompareResponse
    | ExtendedResponse
    | IntermediateResponse
)


class Message(Struct, frozen=True):
    """A request or an answer, with the number that the client gave the request (0: nobody asked)."""

    message_id: int
    operation: Request | Response
    controls: tuple[Control, ...] = ()


class MalformedMessage(DirectoryError):
    """Raised when bytes are no LDAP message, or one with values that LDAP does not allow.

    ``ends_connection`` says whether the peer must be told and left (RFC 4511, 5.3), because nothing after
    this message can be trusted; otherwise the message is answered with this error and the connection goes
    on.
    """

    code = "malformed_ldap_message"

    def __init__(
        self, diagnostic: str, *, message_id: int, tag: int, ends_connection: bool, result: ResultCode
    ) -> None:
        super().__init__(result, diagnostic)
        self.message_id = message_id
        self.tag = tag
        self.ends_connection = ends_connection


NOTICE_OF_DISCONNECTION: Final = "1.3.6.1.4.1.1466.20036"


def notice_of_disconnection(code: ResultCode, diagnostic: str) -> Message:
    """What a server sends unasked before it closes a connection (RFC 4511, 4.4.1)."""
    return Message(0, ExtendedResponse(Result(code, "", diagnostic), name=NOTICE_OF_DISCONNECTION))


RESPONSES: Final[dict[type, Callable[[Result], Response]]] = {
    AddRequest: AddResponse,
    DeleteRequest: DeleteResponse,
    ModifyRequest: ModifyResponse,
    ModifyDnRequest: ModifyDnResponse,
    CompareRequest: CompareResponse,
    SearchRequest: SearchResultDone,
    BindRequest: BindResponse,
    ExtendedRequest: ExtendedResponse,
}
"""How each request is answered; those that are not here are not."""


def answer_with(tag: int, result: Result) -> Response | None:
    """The response to a request of that tag which ends it with *result*; None if nothing answers it."""
    match tag:
        case Tag.BIND_REQUEST:
            return BindResponse(result)
        case Tag.SEARCH_REQUEST:
            return SearchResultDone(result)
        case Tag.MODIFY_REQUEST:
            return ModifyResponse(result)
        case Tag.ADD_REQUEST:
            return AddResponse(result)
        case Tag.DELETE_REQUEST:
            return DeleteResponse(result)
        case Tag.MODIFY_DN_REQUEST:
            return ModifyDnResponse(result)
        case Tag.COMPARE_REQUEST:
            return CompareResponse(result)
        case Tag.EXTENDED_REQUEST:
            return ExtendedResponse(result)
    return None


def refusal(error: MalformedMessage) -> Message | None:
    """What to send for a message that could not be read; None if it was one that nothing answers."""
    if error.ends_connection:
        return notice_of_disconnection(error.result, error.diagnostic)
    answer = answer_with(error.tag, Result.of(error))
    return None if answer is None else Message(error.message_id, answer)
