"""LDAP messages from bytes (RFC 4511, 4).

A message is decoded whole or refused whole: :class:`.MalformedMessage` says whether the connection can go on.
What a later version may add at the end of a sequence is passed over, as the RFC demands.
"""

from collections.abc import Callable
from typing import Final

from holdfast.directory.operations import (
    AddRequest,
    AliasDereferencing,
    Attribute,
    CompareRequest,
    DeleteRequest,
    Modification,
    ModificationKind,
    ModifyDnRequest,
    ModifyRequest,
    Scope,
    SearchRequest,
)
from holdfast.directory.results import DirectoryError, ResultCode
from holdfast.ldap.ber import BOOLEAN, OCTETS, SET, BerError, NotUtf8, Reader
from holdfast.ldap.filter_ber import read_filter
from holdfast.ldap.messages import (
    MESSAGE_ID_MAX,
    AbandonRequest,
    AddResponse,
    BindRequest,
    BindResponse,
    CompareResponse,
    Control,
    DeleteResponse,
    ExtendedRequest,
    ExtendedResponse,
    IntermediateResponse,
    MalformedMessage,
    Message,
    ModifyDnResponse,
    ModifyResponse,
    Request,
    Response,
    Result,
    SaslAuthentication,
    SearchResultDone,
    SearchResultEntry,
    SearchResultReference,
    SimpleAuthentication,
    Tag,
    UnbindRequest,
)

CONTROLS_MAX: Final = 32
"""How many controls a message may have; each kind may be there once, and few exist."""

ATTRIBUTES_MAX: Final = 4_096
"""How many attributes an entry or the list of a search may name: more than any schema's classes have."""

MODIFICATIONS_MAX: Final = 32_768
"""How many steps one modify request may have. Some programs send one for each member of a group."""

_CONTROLS: Final = 0xA0
_REFERRALS: Final = 0xA3


def decode(data: bytes) -> Message:
    """Decode one whole message, as :class:`.Splitter` returns it."""
    message_id, tag = 0, 0
    try:
        envelope = Reader(data)
        outer = envelope.inside()
        envelope.demand_end()
        found = outer.integer()
        if not 0 <= found <= MESSAGE_ID_MAX:
            raise BerError(f"the message id {found} is not within 0..{MESSAGE_ID_MAX}")
        message_id = found
        tag, start, stop = outer.header()
        read = _READERS.get(tag)
        if read is None:
            raise BerError(f"there is no operation with the tag 0x{tag:02x}")
        operation = read(Reader(data, start, stop))
        controls: tuple[Control, ...] = ()
        if outer.at < outer.end:
            if outer.peek() == _CONTROLS:
                controls = read_controls(outer)
            outer.ignore_rest()
        return Message(message_id, operation, controls)
    except NotUtf8 as error:
        raise MalformedMessage(
            str(error),
            message_id=message_id,
            tag=tag,
            ends_connection=False,
            result=ResultCode.PROTOCOL_ERROR,
        ) from error
    except BerError as error:
        raise MalformedMessage(
            str(error), message_id=message_id, tag=tag, ends_connection=True, result=ResultCode.PROTOCOL_ERROR
        ) from error
    except DirectoryError as error:
        raise MalformedMessage(
            error.diagnostic, message_id=message_id, tag=tag, ends_connection=False, result=error.result
        ) from error


def read_controls(outer: Reader) -> tuple[Control, ...]:
    reader = outer.inside(_CONTROLS)
    controls: list[Control] = []
    while reader.at < reader.end:
        if len(controls) == CONTROLS_MAX:
            raise _not_allowed(f"a message with more than {CONTROLS_MAX} controls")
        inner = reader.inside()
        oid = inner.text()
        is_critical = inner.boolean() if inner.peek() == BOOLEAN else False
        value = inner.octets() if inner.peek() == OCTETS else None
        inner.ignore_rest()
        controls.append(Control(oid, is_critical, value))
    return tuple(controls)


def _not_allowed(what: str) -> DirectoryError:
    return DirectoryError(ResultCode.PROTOCOL_ERROR, f"{what} is not allowed")


def _too_many(what: str, most: int) -> DirectoryError:
    return DirectoryError(
        ResultCode.ADMIN_LIMIT_EXCEEDED, f"a request may have {most} {what}, and this has more"
    )


def _octets_until_end(reader: Reader) -> tuple[bytes, ...]:
    found = []
    while reader.at < reader.end:
        found.append(reader.octets())
    return tuple(found)


def _texts_until_end(reader: Reader) -> tuple[str, ...]:
    found = []
    while reader.at < reader.end:
        found.append(reader.text())
    return tuple(found)


# --- requests


def _bind(reader: Reader) -> BindRequest:
    version = reader.integer()
    name = reader.text()
    tag = reader.peek()
    authentication: SimpleAuthentication | SaslAuthentication
    if tag == 0x80:
        authentication = SimpleAuthentication(reader.octets(0x80))
    elif tag == 0xA3:
        inner = reader.inside(0xA3)
        mechanism = inner.text()
        authentication = SaslAuthentication(mechanism, inner.octets() if inner.peek() == OCTETS else None)
        inner.ignore_rest()
    else:
        raise DirectoryError(
            ResultCode.AUTH_METHOD_NOT_SUPPORTED, "bind with a simple password or with SASL; this was neither"
        )
    reader.ignore_rest()
    return BindRequest(version, name, authentication)


def _unbind(reader: Reader) -> UnbindRequest:
    return UnbindRequest()  # What it holds besides nothing is of no interest: the client is gone.


def _abandon(reader: Reader) -> AbandonRequest:
    return AbandonRequest(_whole_integer(reader))


def _whole_integer(reader: Reader) -> int:
    content = reader.data[reader.at : reader.end]
    if not 0 < len(content) <= 4:
        raise BerError(f"a message id has 1 to 4 bytes, not {len(content)}")
    return int.from_bytes(content, "big", signed=True)


_SCOPES: Final = {int(each): each for each in Scope}
_DEREFERENCING: Final = {int(each): each for each in AliasDereferencing}
_KINDS: Final = {int(each): each for each in ModificationKind}


def _search(reader: Reader) -> SearchRequest:
    base = reader.text()
    scope = _SCOPES.get(number := reader.enumerated())
    if scope is None:
        raise _not_allowed(f"the scope {number}")
    dereference = _DEREFERENCING.get(number := reader.enumerated())
    if dereference is None:
        raise _not_allowed(f"the alias dereferencing {number}")
    size_limit = reader.integer()
    time_limit_s = reader.integer()
    if size_limit < 0 or time_limit_s < 0:
        raise _not_allowed(f"a negative limit ({size_limit} entries, {time_limit_s} s)")
    types_only = reader.boolean()
    filter_ = read_filter(reader)
    attributes = _texts_until_end(reader.inside()) if reader.at < reader.end else ()
    if len(attributes) > ATTRIBUTES_MAX:
        raise _too_many("attributes", ATTRIBUTES_MAX)
    if reader.at < reader.end:
        reader.ignore_rest()
    return SearchRequest(base, scope, filter_, attributes, dereference, size_limit, time_limit_s, types_only)


def _attribute(reader: Reader) -> Attribute:
    inner = reader.inside()
    description = inner.text()
    values = _octets_until_end(inner.inside(SET))
    inner.ignore_rest()
    return Attribute(description, values)


def _attributes(reader: Reader) -> tuple[Attribute, ...]:
    found: list[Attribute] = []
    while reader.at < reader.end:
        if len(found) == ATTRIBUTES_MAX:
            raise _too_many("attributes", ATTRIBUTES_MAX)
        found.append(_attribute(reader))
    return tuple(found)


def _modify(reader: Reader) -> ModifyRequest:
    dn = reader.text()
    changes: list[Modification] = []
    steps = reader.inside()
    while steps.at < steps.end:
        if len(changes) == MODIFICATIONS_MAX:
            raise _too_many("modifications", MODIFICATIONS_MAX)
        step = steps.inside()
        kind = _KINDS.get(number := step.enumerated())
        if kind is None:
            raise _not_allowed(f"the modification {number}")
        attribute = _attribute(step)
        step.ignore_rest()
        changes.append(Modification(kind, attribute.description, attribute.values))
    reader.ignore_rest()
    return ModifyRequest(dn, tuple(changes))


def _add(reader: Reader) -> AddRequest:
    dn = reader.text()
    attributes = _attributes(reader.inside())
    reader.ignore_rest()
    for each in attributes:
        if not each.values:
            raise _not_allowed(f"to add {each.description} without a value")
    return AddRequest(dn, attributes)


def _delete(reader: Reader) -> DeleteRequest:
    return DeleteRequest(_whole_text(reader))


def _whole_text(reader: Reader) -> str:
    try:
        return str(reader.data[reader.at : reader.end], "utf-8")
    except UnicodeDecodeError as error:
        raise NotUtf8("the name is not UTF-8") from error


def _modify_dn(reader: Reader) -> ModifyDnRequest:
    dn = reader.text()
    new_rdn = reader.text()
    delete_old_rdn = reader.boolean()
    new_superior = reader.text(0x80) if reader.peek() == 0x80 else None
    reader.ignore_rest()
    return ModifyDnRequest(dn, new_rdn, delete_old_rdn, new_superior)


def _compare(reader: Reader) -> CompareRequest:
    dn = reader.text()
    assertion = reader.inside()
    description = assertion.text()
    value = assertion.octets()
    assertion.ignore_rest()
    reader.ignore_rest()
    return CompareRequest(dn, description, value)


def _extended(reader: Reader) -> ExtendedRequest:
    name = reader.text(0x80)
    value = reader.octets(0x81) if reader.peek() == 0x81 else None
    reader.ignore_rest()
    return ExtendedRequest(name, value)


# --- answers


def _result(reader: Reader) -> Result:
    number = reader.enumerated()
    matched_dn = reader.text()
    diagnostic = reader.text()
    referrals = _texts_until_end(reader.inside(_REFERRALS)) if reader.peek() == _REFERRALS else ()
    return Result(_CODES.get(number, number), matched_dn, diagnostic, referrals)


_CODES: Final = {int(each): each for each in ResultCode}


def _bind_response(reader: Reader) -> BindResponse:
    result = _result(reader)
    credentials = reader.octets(0x87) if reader.peek() == 0x87 else None
    reader.ignore_rest()
    return BindResponse(result, credentials)


def _entry(reader: Reader) -> SearchResultEntry:
    dn = reader.text()
    attributes = _attributes(reader.inside())
    reader.ignore_rest()
    return SearchResultEntry(dn, attributes)


def _reference(reader: Reader) -> SearchResultReference:
    return SearchResultReference(_texts_until_end(reader))


def _plain(answer: Callable[[Result], Response]) -> Callable[[Reader], Response]:
    def read(reader: Reader) -> Response:
        result = _result(reader)
        reader.ignore_rest()
        return answer(result)

    return read


def _extended_response(reader: Reader) -> ExtendedResponse:
    result = _result(reader)
    name = reader.text(0x8A) if reader.peek() == 0x8A else None
    value = reader.octets(0x8B) if reader.peek() == 0x8B else None
    reader.ignore_rest()
    return ExtendedResponse(result, name, value)


def _intermediate(reader: Reader) -> IntermediateResponse:
    name = reader.text(0x80) if reader.peek() == 0x80 else None
    value = reader.octets(0x81) if reader.peek() == 0x81 else None
    reader.ignore_rest()
    return IntermediateResponse(name, value)


_READERS: Final[dict[int, Callable[[Reader], Request | Response]]] = {
    Tag.BIND_REQUEST: _bind,
    Tag.UNBIND_REQUEST: _unbind,
    Tag.SEARCH_REQUEST: _search,
    Tag.MODIFY_REQUEST: _modify,
    Tag.ADD_REQUEST: _add,
    Tag.DELETE_REQUEST: _delete,
    Tag.MODIFY_DN_REQUEST: _modify_dn,
    Tag.COMPARE_REQUEST: _compare,
    Tag.ABANDON_REQUEST: _abandon,
    Tag.EXTENDED_REQUEST: _extended,
    Tag.BIND_RESPONSE: _bind_response,
    Tag.SEARCH_RESULT_ENTRY: _entry,
    Tag.SEARCH_RESULT_REFERENCE: _reference,
    Tag.SEARCH_RESULT_DONE: _plain(SearchResultDone),
    Tag.MODIFY_RESPONSE: _plain(ModifyResponse),
    Tag.ADD_RESPONSE: _plain(AddResponse),
    Tag.DELETE_RESPONSE: _plain(DeleteResponse),
    Tag.MODIFY_DN_RESPONSE: _plain(ModifyDnResponse),
    Tag.COMPARE_RESPONSE: _plain(CompareResponse),
    Tag.EXTENDED_RESPONSE: _extended_response,
    Tag.INTERMEDIATE_RESPONSE: _intermediate,
}
