"""How an operation of the directory ends: the result codes of LDAP, and the one error that carries them."""

from enum import IntEnum
from typing import Final

from holdfast.model.errors import InvalidRequest


class ResultCode(IntEnum):
    """The codes of RFC 4511 (A.1), and the few of other RFCs that this directory answers with."""

    SUCCESS = 0
    OPERATIONS_ERROR = 1
    PROTOCOL_ERROR = 2
    TIME_LIMIT_EXCEEDED = 3
    SIZE_LIMIT_EXCEEDED = 4
    COMPARE_FALSE = 5
    COMPARE_TRUE = 6
    AUTH_METHOD_NOT_SUPPORTED = 7
    STRONGER_AUTH_REQUIRED = 8
    REFERRAL = 10
    ADMIN_LIMIT_EXCEEDED = 11
    UNAVAILABLE_CRITICAL_EXTENSION = 12
    CONFIDENTIALITY_REQUIRED = 13
    SASL_BIND_IN_PROGRESS = 14
    NO_SUCH_ATTRIBUTE = 16
    UNDEFINED_ATTRIBUTE_TYPE = 17
    INAPPROPRIATE_MATCHING = 18
    CONSTRAINT_VIOLATION = 19
    ATTRIBUTE_OR_VALUE_EXISTS = 20
    INVALID_ATTRIBUTE_SYNTAX = 21
    NO_SUCH_OBJECT = 32
    ALIAS_PROBLEM = 33
    INVALID_DN_SYNTAX = 34
    ALIAS_DEREFERENCING_PROBLEM = 36
    INAPPROPRIATE_AUTHENTICATION = 48
    INVALID_CREDENTIALS = 49
    INSUFFICIENT_ACCESS_RIGHTS = 50
    BUSY = 51
    UNAVAILABLE = 52
    UNWILLING_TO_PERFORM = 53
    LOOP_DETECT = 54
    NAMING_VIOLATION = 64
    OBJECT_CLASS_VIOLATION = 65
    NOT_ALLOWED_ON_NON_LEAF = 66
    NOT_ALLOWED_ON_RDN = 67
    ENTRY_ALREADY_EXISTS = 68
    OBJECT_CLASS_MODS_PROHIBITED = 69
    AFFECTS_MULTIPLE_DSAS = 71
    OTHER = 80
    CANCELED = 118
    NO_SUCH_OPERATION = 119
    TOO_LATE = 120
    CANNOT_CANCEL = 121
    ASSERTION_FAILED = 122


QUOTED_MAX: Final = 80
"""How many characters of what a client sent an error repeats: a diagnostic message is a sentence."""


def quoted(wrong: str | bytes) -> str:
    """Show what a client sent, shortened, without characters that disturb a terminal or a log."""
    text = wrong if isinstance(wrong, str) else wrong[: QUOTED_MAX + 4].decode("utf-8", "backslashreplace")
    short = text if len(text) <= QUOTED_MAX else text[:QUOTED_MAX] + "..."
    return "'" + "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in short) + "'"


class DirectoryError(InvalidRequest):
    """Raised when an operation ends with a result code other than success; the text is the diagnostic."""

    code = "directory"

    def __init__(self, result: ResultCode, diagnostic: str, *, matched_dn: str = "") -> None:
        super().__init__(diagnostic)
        self.result = result
        self.diagnostic = diagnostic
        self.matched_dn = matched_dn
