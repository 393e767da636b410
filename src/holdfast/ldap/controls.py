"""The controls that are known here: what their values mean, and which a request asks for.

A request's controls are read once, by :func:`read_request_controls`: those that are known become values, an
unknown one that is critical is refused with result 12, and an unknown one that is not is passed over.
"""

from typing import Final

from msgspec import Struct

from holdfast.directory.filters.filter import Filter
from holdfast.directory.results import DirectoryError, ResultCode, quoted
from holdfast.ldap import ber
from holdfast.ldap.ber import ENUMERATED, BerError, Reader
from holdfast.ldap.encoding import operation_bytes
from holdfast.ldap.filter_ber import read_filter, write_filter
from holdfast.ldap.messages import Control, SearchResultEntry

PAGED_RESULTS: Final = "1.2.840.113556.1.4.319"
"""RFC 2696."""
SORT_REQUEST: Final = "1.2.840.113556.1.4.473"
SORT_RESPONSE: Final = "1.2.840.113556.1.4.474"
"""RFC 2891."""
MANAGE_DSA_IT: Final = "2.16.840.1.113730.3.4.2"
"""RFC 3296: referral objects are shown as the entries that they are."""
ASSERTION: Final = "1.3.6.1.1.12"
"""RFC 4528: the operation takes place only if the target matches a filter."""
PRE_READ: Final = "1.3.6.1.1.13.1"
POST_READ: Final = "1.3.6.1.1.13.2"
"""RFC 4527: the target's attributes before and after the change are returned with the answer."""
ACKNOWLEDGE: Final = "2.25.201733915087124226513986227104352196921.100"
"""Ours: on how many disks a change shall be before it is answered, as text: 1 or 2."""

KNOWN: Final = (PAGED_RESULTS, SORT_REQUEST, MANAGE_DSA_IT, ASSERTION, PRE_READ, POST_READ, ACKNOWLEDGE)

COOKIE_BYTES_MAX: Final = 1_024
"""How long a paging cookie may be: the server's own are far shorter."""

SORT_KEYS_MAX: Final = 16
"""By how many attributes a result may be sorted."""


class PagedResults(Struct, frozen=True):
    """In a request: how many entries, and where to go on. In an answer: an estimate, and where."""

    size: int
    cookie: bytes = b""


class SortKey(Struct, frozen=True):
    description: str
    rule: str | None = None
    is_reverse: bool = False


class SortResult(Struct, frozen=True):
    code: int
    description: str | None = None
    """The attribute at which sorting failed."""


class RequestControls(Struct, frozen=True):
    """What a request's controls ask for, and which of these must be heeded."""

    paged: PagedResults | None = None
    sort: tuple[SortKey, ...] | None = None
    manage_dsa_it: bool = False
    assertion: Filter | None = None
    pre_read: tuple[str, ...] | None = None
    post_read: tuple[str, ...] | None = None
    acknowledge: int | None = None
    critical: frozenset[str] = frozenset()


NO_CONTROLS: Final = RequestControls()


def read_request_controls(controls: tuple[Control, ...], known: tuple[str, ...] = KNOWN) -> RequestControls:
    """Read a request's controls. *known* are those that fit the request; others count as unknown."""
    if not controls:
        return NO_CONTROLS
    found: dict[str, Control] = {}
    for each in controls:
        if each.oid in found:
            raise _wrong(f"the control {quoted(each.oid)} is there twice")
        found[each.oid] = each
        if each.is_critical and each.oid not in known:
            raise DirectoryError(
                ResultCode.UNAVAILABLE_CRITICAL_EXTENSION,
                f"the control {quoted(each.oid)} is critical, and not available for this operation",
            )

    def value_of(oid: str) -> bytes | None:
        control = found.get(oid) if oid in known else None
        if control is None:
            return None
        if control.value is None:
            raise _wrong(f"the control {oid} lacks its value")
        return control.value

    paged, sort, assertion = value_of(PAGED_RESULTS), value_of(SORT_REQUEST), value_of(ASSERTION)
    pre_read, post_read, acknowledge = value_of(PRE_READ), value_of(POST_READ), value_of(ACKNOWLEDGE)
    return RequestControls(
        paged=None if paged is None else read_paged_results(paged),
        sort=None if sort is None else read_sort_keys(sort),
        manage_dsa_it=MANAGE_DSA_IT in known and MANAGE_DSA_IT in found,
        assertion=None if assertion is None else _read_assertion(assertion),
        pre_read=None if pre_read is None else _read_attribute_list(pre_read, PRE_READ),
        post_read=None if post_read is None else _read_attribute_list(post_read, POST_READ),
        acknowledge=None if acknowledge is None else _read_acknowledge(acknowledge),
        critical=frozenset(each.oid for each in controls if each.is_critical),
    )


def _wrong(what: str) -> DirectoryError:
    return DirectoryError(ResultCode.PROTOCOL_ERROR, what)


def _read_acknowledge(value: bytes) -> int:
    if value not in (b"1", b"2"):
        raise _wrong(f"a change is acknowledged by 1 or 2 stores, not {quoted(value)}")
    return int(value)


def read_paged_results(value: bytes) -> PagedResults:
    try:
        reader = Reader(value).inside()
        size, cookie = reader.integer(), reader.octets()
    except BerError as error:
        raise _wrong(f"the paged results control cannot be read: {error}") from error
    if size < 0 or len(cookie) > COOKIE_BYTES_MAX:
        raise _wrong(
            f"a page has 0 or more entries, not {size}, and a cookie at most {COOKIE_BYTES_MAX} bytes"
        )
    return PagedResults(size, cookie)


def write_paged_results(paged: PagedResults, *, is_critical: bool = False) -> Control:
    value = ber.sequence(ber.integer(paged.size), ber.octets(paged.cookie))
    return Control(PAGED_RESULTS, is_critical, value)


def read_sort_keys(value: bytes) -> tuple[SortKey, ...]:
    keys = []
    try:
        reader = Reader(value).inside()
        while not reader.is_done:
            key = reader.inside()
            description = key.text()
            rule = key.text(0x80) if key.peek() == 0x80 else None
            keys.append(SortKey(description, rule, key.boolean(0x81) if key.peek() == 0x81 else False))
    except BerError as error:
        raise _wrong(f"the sort control cannot be read: {error}") from error
    if not 0 < len(keys) <= SORT_KEYS_MAX:
        raise _wrong(f"a result is sorted by 1 to {SORT_KEYS_MAX} keys, not {len(keys)}")
    return tuple(keys)


def write_sort_keys(keys: tuple[SortKey, ...], *, is_critical: bool = False) -> Control:
    written = (
        ber.sequence(
            ber.text(each.description),
            b"" if each.rule is None else ber.text(each.rule, 0x80),
            ber.boolean(True, 0x81) if each.is_reverse else b"",
        )
        for each in keys
    )
    return Control(SORT_REQUEST, is_critical, ber.sequence(*written))


def read_sort_result(value: bytes) -> SortResult:
    try:
        reader = Reader(value).inside()
        code = reader.integer(ENUMERATED)
        return SortResult(code, reader.text(0x80) if reader.peek() == 0x80 else None)
    except BerError as error:
        raise _wrong(f"the sort answer cannot be read: {error}") from error


def write_sort_result(result: SortResult) -> Control:
    description = b"" if result.description is None else ber.text(result.description, 0x80)
    return Control(SORT_RESPONSE, False, ber.sequence(ber.enumerated(result.code), description))


def _read_assertion(value: bytes) -> Filter:
    try:
        return read_filter(Reader(value))
    except BerError as error:
        raise _wrong(f"the assertion control cannot be read: {error}") from error


def write_assertion(filter_: Filter, *, is_critical: bool = True) -> Control:
    return Control(ASSERTION, is_critical, write_filter(filter_))


def _read_attribute_list(value: bytes, oid: str) -> tuple[str, ...]:
    found = []
    try:
        reader = Reader(value).inside()
        while not reader.is_done:
            found.append(reader.text())
    except BerError as error:
        raise _wrong(f"the control {oid} cannot be read: {error}") from error
    return tuple(found)


def write_attribute_list(oid: str, attributes: tuple[str, ...], *, is_critical: bool = False) -> Control:
    """Ask for a read before (``PRE_READ``) or after (``POST_READ``) the change."""
    return Control(oid, is_critical, ber.sequence(*map(ber.text, attributes)))


def write_entry_read(oid: str, entry: SearchResultEntry) -> Control:
    """Answer a read: the entry as a search would have returned it, with the tag of such an answer."""
    return Control(oid, False, operation_bytes(entry))
