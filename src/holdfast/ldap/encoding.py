"""LDAP messages into bytes (RFC 4511, 4).

The bytes of an operation do not depend on the message's number, so those of an entry can be kept and sent
again in other envelopes: :func:`operation_bytes` writes the one, :func:`envelope` the other.
"""

from collections.abc import Callable
from typing import Any, Final

from holdfast.directory.operations import (
    AddRequest,
    Attribute,
    CompareRequest,
    DeleteRequest,
    ModifyDnRequest,
    ModifyRequest,
    SearchRequest,
)
from holdfast.directory.replica.ready import attribute
from holdfast.ldap import ber
from holdfast.ldap.ber import SEQUENCE, SET, length_bytes
from holdfast.ldap.filter_ber import write_filter
from holdfast.ldap.messages import (
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
    Message,
    ModifyDnResponse,
    ModifyResponse,
    Request,
    Response,
    Result,
    SearchResultDone,
    SearchResultEntry,
    SearchResultReference,
    SimpleAuthentication,
    Tag,
    UnbindRequest,
)


def encode(message: Message) -> bytes:
    """The message's bytes."""
    return envelope(message.message_id, operation_bytes(message.operation), message.controls)


def envelope(message_id: int, operation: bytes, controls: tuple[Control, ...] = ()) -> bytes:
    """Put an operation that is already bytes into a message."""
    content = ber.integer(message_id) + operation
    if controls:
        content += ber.sequence(*map(_control, controls), tag=0xA0)
    length = len(content)
    if length < 0x80:
        return bytes((SEQUENCE, length)) + content
    return b"\x30" + length_bytes(length) + content


def operation_bytes(operation: Request | Response) -> bytes:
    """The bytes of an operation, without the message around it."""
    return _WRITERS[type(operation)](operation)


def entry_bytes(dn: bytes, attributes: tuple[tuple[bytes, tuple[bytes, ...]], ...]) -> bytes:
    """The operation bytes of a search result entry, from names that are UTF-8 already."""
    return entry_with(dn, b"".join([attribute(name, values) for name, values in attributes]))


def entry_with(dn: bytes, attributes: bytes) -> bytes:
    """As :func:`entry_bytes`, of attributes that are bytes already."""
    head = b"\x04" + length_bytes(len(dn)) + dn + b"\x30" + length_bytes(len(attributes))
    return b"\x64" + length_bytes(len(head) + len(attributes)) + head + attributes


def _control(control: Control) -> bytes:
    return ber.sequence(
        ber.text(control.oid),
        ber.boolean(True) if control.is_critical else b"",
        ber.octets(control.value) if control.value is not None else b"",
    )


def _attribute(attribute: Attribute) -> bytes:
    return ber.sequence(
        ber.text(attribute.description), ber.element(SET, b"".join(map(ber.octets, attribute.values)))
    )


# --- requests


def _bind(request: BindRequest) -> bytes:
    match request.authentication:
        case SimpleAuthentication(password):
            authentication = ber.octets(password, 0x80)
        case sasl:
            credentials = b"" if sasl.credentials is None else ber.octets(sasl.credentials)
            authentication = ber.sequence(ber.text(sasl.mechanism), credentials, tag=0xA3)
    return ber.sequence(
        ber.integer(request.version), ber.text(request.name), authentication, tag=Tag.BIND_REQUEST
    )


def _unbind(request: UnbindRequest) -> bytes:
    return ber.element(Tag.UNBIND_REQUEST, b"")


def _abandon(request: AbandonRequest) -> bytes:
    return ber.integer(request.message_id, Tag.ABANDON_REQUEST)


def _search(request: SearchRequest) -> bytes:
    return ber.sequence(
        ber.text(request.base),
        ber.enumerated(request.scope),
        ber.enumerated(request.dereference),
        ber.integer(request.size_limit),
        ber.integer(request.time_limit_s),
        ber.boolean(request.types_only),
        write_filter(request.filter),
        ber.sequence(*map(ber.text, request.attributes)),
        tag=Tag.SEARCH_REQUEST,
    )


def _modify(request: ModifyRequest) -> bytes:
    changes = (
        ber.sequence(ber.enumerated(each.kind), _attribute(Attribute(each.description, each.values)))
        for each in request.changes
    )
    return ber.sequence(ber.text(request.dn), ber.sequence(*changes), tag=Tag.MODIFY_REQUEST)


def _add(request: AddRequest) -> bytes:
    return ber.sequence(
        ber.text(request.dn), ber.sequence(*map(_attribute, request.attributes)), tag=Tag.ADD_REQUEST
    )


def _delete(request: DeleteRequest) -> bytes:
    return ber.text(request.dn, Tag.DELETE_REQUEST)


def _modify_dn(request: ModifyDnRequest) -> bytes:
    return ber.sequence(
        ber.text(request.dn),
        ber.text(request.new_rdn),
        ber.boolean(request.delete_old_rdn),
        b"" if request.new_superior is None else ber.text(request.new_superior, 0x80),
        tag=Tag.MODIFY_DN_REQUEST,
    )


def _compare(request: CompareRequest) -> bytes:
    assertion = ber.sequence(ber.text(request.description), ber.octets(request.value))
    return ber.sequence(ber.text(request.dn), assertion, tag=Tag.COMPARE_REQUEST)


def _extended(request: ExtendedRequest) -> bytes:
    value = b"" if request.value is None else ber.octets(request.value, 0x81)
    return ber.sequence(ber.text(request.name, 0x80), value, tag=Tag.EXTENDED_REQUEST)


# --- answers


def _result(result: Result) -> bytes:
    content = ber.enumerated(result.code) + ber.text(result.matched_dn) + ber.text(result.diagnostic)
    if result.referrals:
        content += ber.sequence(*map(ber.text, result.referrals), tag=0xA3)
    return content


def _bind_response(response: BindResponse) -> bytes:
    credentials = b"" if response.credentials is None else ber.octets(response.credentials, 0x87)
    return ber.sequence(_result(response.result), credentials, tag=Tag.BIND_RESPONSE)


def _entry(response: SearchResultEntry) -> bytes:
    return entry_bytes(
        response.dn.encode(),
        tuple((each.description.encode(), each.values) for each in response.attributes),
    )


def _reference(response: SearchResultReference) -> bytes:
    return ber.sequence(*map(ber.text, response.urls), tag=Tag.SEARCH_RESULT_REFERENCE)


def _plain(tag: Tag) -> Callable[[Any], bytes]:
    return lambda response: ber.element(tag, _result(response.result))


def _extended_response(response: ExtendedResponse) -> bytes:
    name = b"" if response.name is None else ber.text(response.name, 0x8A)
    value = b"" if response.value is None else ber.octets(response.value, 0x8B)
    return ber.sequence(_result(response.result), name, value, tag=Tag.EXTENDED_RESPONSE)


def _intermediate(response: IntermediateResponse) -> bytes:
    name = b"" if response.name is None else ber.text(response.name, 0x80)
    value = b"" if response.value is None else ber.octets(response.value, 0x81)
    return ber.sequence(name, value, tag=Tag.INTERMEDIATE_RESPONSE)


_WRITERS: Final[dict[type, Callable[[Any], bytes]]] = {
    BindRequest: _bind,
    UnbindRequest: _unbind,
    AbandonRequest: _abandon,
    SearchRequest: _search,
    ModifyRequest: _modify,
    AddRequest: _add,
    DeleteRequest: _delete,
    ModifyDnRequest: _modify_dn,
    CompareRequest: _compare,
    ExtendedRequest: _extended,
    BindResponse: _bind_response,
    SearchResultEntry: _entry,
    SearchResultReference: _reference,
    SearchResultDone: _plain(Tag.SEARCH_RESULT_DONE),
    ModifyResponse: _plain(Tag.MODIFY_RESPONSE),
    AddResponse: _plain(Tag.ADD_RESPONSE),
    DeleteResponse: _plain(Tag.DELETE_RESPONSE),
    ModifyDnResponse: _plain(Tag.MODIFY_DN_RESPONSE),
    CompareResponse: _plain(Tag.COMPARE_RESPONSE),
    ExtendedResponse: _extended_response,
    IntermediateResponse: _intermediate,
}
