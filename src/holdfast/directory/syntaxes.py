"""The syntaxes of RFC 4517 that clients use: what a value of each must look like.

A syntax answers with what is wrong with a value, or with nothing. It never changes the value.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from holdfast.directory.dn import ATTRIBUTE, Dn
from holdfast.directory.results import DirectoryError

Fault = str | None
"""What is wrong with a value; None if nothing is."""


@dataclass(frozen=True, slots=True)
class Syntax:
    """A syntax, and the check of a value."""

    oid: str
    description: str
    fault_in: Callable[[bytes], Fault]
    is_readable: bool = True
    """Whether people can read a value as it is; if not, tools show it as base64."""


INTEGER_DIGITS_MAX: Final = 1_000
"""How many digits an integer may have: comparing and adding longer ones is work that nobody needs."""

FRACTION_DIGITS_MAX: Final = 30
"""How many digits of a fraction a time may have."""

_PRINTABLE: Final = re.compile(rb"[A-Za-z0-9'()+,\-./:? =]+")
_COUNTRY: Final = re.compile(rb"[A-Za-z]{2}")
_NUMERIC: Final = re.compile(rb"[0-9 ]+")
_INTEGER: Final = re.compile(rb"0|-?[1-9][0-9]*")
_BITS: Final = re.compile(rb"'[01]*'B")
_UUID: Final = re.compile(rb"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_TIME: Final = re.compile(
    r"(\d{4})(\d\d)(\d\d)(\d\d)(?:(\d\d)(\d\d)?)?(?:[.,](\d+))?(?:Z|([+-])(\d\d)(\d\d)?)", re.ASCII
)
_UTC_TIME: Final = re.compile(rb"\d{10}(?:\d\d)?(?:Z|[+-]\d{4})?")
_NETGROUP: Final = re.compile(r"\([^,()]*,[^,()]*,[^,()]*\)")
_UNIQUE_MEMBER: Final = re.compile(r"(.*)#('[01]*'B)", re.DOTALL)


def as_text(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _anything(value: bytes) -> Fault:
    return None


def _directory_string(value: bytes) -> Fault:
    if not value:
        return "it is empty"
    return "it is not UTF-8" if as_text(value) is None else None


def _ia5_string(value: bytes) -> Fault:
    return None if value.isascii() else "it has characters other than ASCII"


def _printable_string(value: bytes) -> Fault:
    if _PRINTABLE.fullmatch(value):
        return None
    return "it may have letters, digits, spaces and '()+,-./:?= only, and at least one of them"


def _country_string(value: bytes) -> Fault:
    return None if _COUNTRY.fullmatch(value) else "it must be two letters, such as DE"


def _numeric_string(value: bytes) -> Fault:
    return None if _NUMERIC.fullmatch(value) else "it may have digits and spaces only, and at least one"


def _boolean(value: bytes) -> Fault:
    return None if value in (b"TRUE", b"FALSE") else "it must be TRUE or FALSE"


def _integer(value: bytes) -> Fault:
    if len(value) > INTEGER_DIGITS_MAX:
        return f"it has more than {INTEGER_DIGITS_MAX} digits"
    return None if _INTEGER.fullmatch(value) else "it must be an integer without leading zeros or spaces"


def _bit_string(value: bytes) -> Fault:
    return None if _BITS.fullmatch(value) else "it must look like '0101'B"


def _uuid(value: bytes) -> Fault:
    if _UUID.fullmatch(value):
        return None
    return "it must look like 597ae2f6-16a6-1027-98f4-d28b5365dc14"


def _oid(value: bytes) -> Fault:
    text = as_text(value)
    return (
        None if text and ATTRIBUTE.fullmatch(text) else "it must be an OID, such as 2.5.4.3, or a short name"
    )


def _dn(value: bytes) -> Fault:
    text = as_text(value)
    if text is None:
        return "it is not UTF-8"
    try:
        Dn.parse(text)
    except DirectoryError as error:
        return f"it is {error.diagnostic}"
    return None


def split_unique_member(value: str) -> tuple[str, str]:
    """The name and the optional bits of a value of syntax Name And Optional UID."""
    found = _UNIQUE_MEMBER.fullmatch(value)
    return (found[1], found[2]) if found else (value, "")


def _name_and_uid(value: bytes) -> Fault:
    text = as_text(value)
    return "it is not UTF-8" if text is None else _dn(split_unique_member(text)[0].encode())


def _telephone_number(value: bytes) -> Fault:
    """E.123 is what the RFC says; directories in the field have more, so any printable is taken."""
    return _printable_string(value)


def _postal_address(value: bytes) -> Fault:
    text = as_text(value)
    if text is None:
        return "it is not UTF-8"
    if not text:
        return "it is empty"
    try:
        address_lines(text)
    except ValueError as error:
        return str(error)
    return None


_ADDRESS_ESCAPE: Final = re.compile(r"\\(24|5[Cc])?")


def address_lines(text: str) -> list[str]:
    """The lines of a postal address, which ``$`` parts; a ``$`` or backslash of its own is escaped."""

    def unescape(found: re.Match[str]) -> str:
        if found[1] is None:
            raise ValueError("a backslash stands only in \\24 (for $) and \\5C (for itself)")
        return "$" if found[1] == "24" else "\\"

    return [_ADDRESS_ESCAPE.sub(unescape, line) for line in text.split("$")]


def _generalized_time(value: bytes) -> Fault:
    try:
        time_key(value)
    except ValueError as error:
        return str(error)
    return None


def time_key(value: bytes) -> bytes:
    """A time in UTC, ``YYYYMMDDhhmmss`` and a fraction, such that the order of texts is that of times."""
    found = _TIME.fullmatch(value.decode("ascii", "replace"))
    if found is None:
        raise ValueError("it must be a time such as 20261117124500Z, with a zone")
    year, month, day, hour, minute, second, fraction, sign, zone_hour, zone_minute = found.groups()
    if fraction is not None and len(fraction) > FRACTION_DIGITS_MAX:
        raise ValueError(f"its fraction has more than {FRACTION_DIGITS_MAX} digits")
    if second is None:
        # A fraction of an hour or of a minute becomes seconds; all are exact in decimal digits.
        unit_s = 60 if minute is not None else 3_600
        whole, rest = divmod(int(fraction or 0) * unit_s, 10 ** len(fraction or ""))
        extra_minutes, seconds = divmod(whole, 60)
        fraction = f"{rest:0{len(fraction)}d}" if fraction else ""
    else:
        extra_minutes, seconds = 0, int(second)
        if seconds > 60:  # 60 is a leap second
            raise ValueError("its seconds are not within 00..60")
    try:
        moment = datetime(int(year), int(month), int(day), int(hour), int(minute or 0), tzinfo=UTC)
        if sign is not None:
            if int(zone_hour) > 23 or int(zone_minute or 0) > 59:
                raise ValueError("its zone is not within -2359..+2359")
            extra_minutes -= (int(zone_hour) * 60 + int(zone_minute or 0)) * (1 if sign == "+" else -1)
        moment += timedelta(minutes=extra_minutes)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"there is no such time ({error})") from error
    written = f"{moment.year:04d}{moment:%m%d%H%M}{seconds:02d}"
    digits = (fraction or "").rstrip("0")
    return (f"{written}.{digits}" if digits else written).encode()


def _utc_time(value: bytes) -> Fault:
    return None if _UTC_TIME.fullmatch(value) else "it must be a time such as 261117124500Z"


def _other_mailbox(value: bytes) -> Fault:
    return None if value.isascii() and b"$" in value else "it must look like type$mailbox"


def _netgroup_triple(value: bytes) -> Fault:
    text = as_text(value)
    return None if text and _NETGROUP.fullmatch(text) else "it must look like (host,user,domain)"


def _description(value: bytes) -> Fault:
    text = as_text(value)
    if text and text.strip().startswith("(") and text.strip().endswith(")"):
        return None
    return "it must be a description in parentheses"


def _jpeg(value: bytes) -> Fault:
    return None if value.startswith(b"\xff\xd8") else "it is not a JPEG picture"


_RFC: Final = "1.3.6.1.4.1.1466.115.121.1."

BIT_STRING: Final = _RFC + "6"
BOOLEAN: Final = _RFC + "7"
DN: Final = _RFC + "12"
DIRECTORY_STRING: Final = _RFC + "15"
GENERALIZED_TIME: Final = _RFC + "24"
IA5_STRING: Final = _RFC + "26"
INTEGER: Final = _RFC + "27"
NAME_AND_OPTIONAL_UID: Final = _RFC + "34"
NUMERIC_STRING: Final = _RFC + "36"
OID: Final = _RFC + "38"
OCTET_STRING: Final = _RFC + "40"
POSTAL_ADDRESS: Final = _RFC + "41"
TELEPHONE_NUMBER: Final = _RFC + "50"
SUBSTRING_ASSERTION: Final = _RFC + "58"
UUID: Final = "1.3.6.1.1.16.1"

SYNTAXES: Final[dict[str, Syntax]] = {
    each.oid: each
    for each in (
        Syntax(_RFC + "3", "Attribute Type Description", _description),
        Syntax(_RFC + "4", "Audio", _anything, is_readable=False),
        Syntax(_RFC + "5", "Binary", _anything, is_readable=False),
        Syntax(BIT_STRING, "Bit String", _bit_string),
        Syntax(BOOLEAN, "Boolean", _boolean),
        Syntax(_RFC + "8", "Certificate", _anything, is_readable=False),
        Syntax(_RFC + "9", "Certificate List", _anything, is_readable=False),
        Syntax(_RFC + "10", "Certificate Pair", _anything, is_readable=False),
        Syntax(_RFC + "11", "Country String", _country_string),
        Syntax(DN, "DN", _dn),
        Syntax(_RFC + "14", "Delivery Method", _printable_string),
        Syntax(DIRECTORY_STRING, "Directory String", _directory_string),
        Syntax(_RFC + "16", "DIT Content Rule Description", _description),
        Syntax(_RFC + "17", "DIT Structure Rule Description", _description),
        Syntax(_RFC + "21", "Enhanced Guide", _directory_string),
        Syntax(_RFC + "22", "Facsimile Telephone Number", _telephone_number),
        Syntax(_RFC + "23", "Fax", _anything, is_readable=False),
        Syntax(GENERALIZED_TIME, "Generalized Time", _generalized_time),
        Syntax(_RFC + "25", "Guide", _directory_string),
        Syntax(IA5_STRING, "IA5 String", _ia5_string),
        Syntax(INTEGER, "INTEGER", _integer),
        Syntax(_RFC + "28", "JPEG", _jpeg, is_readable=False),
        Syntax(_RFC + "30", "Matching Rule Description", _description),
        Syntax(_RFC + "31", "Matching Rule Use Description", _description),
        Syntax(NAME_AND_OPTIONAL_UID, "Name And Optional UID", _name_and_uid),
        Syntax(_RFC + "35", "Name Form Description", _description),
        Syntax(NUMERIC_STRING, "Numeric String", _numeric_string),
        Syntax(_RFC + "37", "Object Class Description", _description),
        Syntax(OID, "OID", _oid),
        Syntax(_RFC + "39", "Other Mailbox", _other_mailbox),
        Syntax(OCTET_STRING, "Octet String", _anything),
        Syntax(POSTAL_ADDRESS, "Postal Address", _postal_address),
        Syntax(_RFC + "44", "Printable String", _printable_string),
        Syntax(_RFC + "45", "Subtree Specification", _directory_string),
        Syntax(_RFC + "49", "Supported Algorithm", _anything, is_readable=False),
        Syntax(TELEPHONE_NUMBER, "Telephone Number", _telephone_number),
        Syntax(_RFC + "51", "Teletex Terminal Identifier", _anything),
        Syntax(_RFC + "52", "Telex Number", _printable_string),
        Syntax(_RFC + "53", "UTC Time", _utc_time),
        Syntax(_RFC + "54", "LDAP Syntax Description", _description),
        Syntax(SUBSTRING_ASSERTION, "Substring Assertion", _directory_string),
        Syntax(UUID, "UUID", _uuid),
        Syntax("1.3.6.1.1.1.0.0", "RFC 2307 NIS netgroup triple", _netgroup_triple),
        Syntax("1.3.6.1.1.1.0.1", "RFC 2307 boot parameter", _ia5_string),
    )
}
