"""The compare operation: whether an entry's attribute has a value (RFC 4511, 4.10)."""

from typing import Final

from holdfast.directory.matching import NotComparable
from holdfast.directory.operations import CompareRequest
from holdfast.directory.replica.access import INTERNAL, SECRET, Identity
from holdfast.directory.replica.view import EntryView
from holdfast.directory.results import DirectoryError, ResultCode
from holdfast.directory.schema.schema import Described
from holdfast.ldap.controls import MANAGE_DSA_IT
from holdfast.ldap.service import Service

COMPARE_CONTROLS: Final = (MANAGE_DSA_IT,)


def compared(service: Service, identity: Identity, request: CompareRequest) -> bool:
    """Whether it has. Raises ``DirectoryError`` if that cannot be told, or not to this client."""
    named = service.name(request.dn)
    context = named.context
    described = service.schema.describe(request.description)
    if described.type.equality is None:
        raise DirectoryError(
            ResultCode.INAPPROPRIATE_MATCHING, f"values of {described.name} have no equality"
        )
    snapshot = context.replica.snapshot()
    try:
        view = snapshot.view(snapshot.find(named.dn, named.key))
        if view is None or not context.rules.may_read(identity, view.dn_key):
            raise DirectoryError(ResultCode.NO_SUCH_OBJECT, "there is no such entry")
        is_secret = described.type.name in (*SECRET, *INTERNAL)
        if is_secret and not context.is_administrator(identity, view.dn_key):
            raise DirectoryError(
                ResultCode.INSUFFICIENT_ACCESS_RIGHTS, f"only administrators may compare {described.name}"
            )
        return _has_value(service, view, described, request.value)
    finally:
        snapshot.close()


def _has_value(service: Service, view: EntryView, described: Described, value: bytes) -> bool:
    schema = service.schema
    try:
        wanted = described.type.assertion_key(value, schema)
    except NotComparable as error:
        raise DirectoryError(ResultCode.INVALID_ATTRIBUTE_SYNTAX, str(error)) from error
    is_there = False
    for name, values in view.everything().items():
        found = schema.find(name)
        if found is not None and described.covers(found):
            is_there = True
            if any(found.type.key(each, schema) == wanted for each in values):
                return True
    if not is_there:
        raise DirectoryError(ResultCode.NO_SUCH_ATTRIBUTE, f"the entry has no {described.name}")
    return False
