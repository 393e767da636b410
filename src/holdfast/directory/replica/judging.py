"""Whether a client may change what it wants to change, and which changes that comes to.

All that can be wrong is found before anything is changed: names, schema, what is there and what is not. A
judgement is a list of steps, to be taken with a CSN (:class:`holdfast.directory.issuing.Operation`), so that
an operation that is refused uses none.
"""

from collections.abc import Callable
from typing import Final

from holdfast.directory.dn import Ava, Dn, parse_rdn
from holdfast.directory.issuing import Operation
from holdfast.directory.normal_form import attribute_of, is_single, name_of, value_of
from holdfast.directory.operations import AddRequest, Change, DeleteRequest, ModifyDnRequest, ModifyRequest
from holdfast.directory.primitives import ROOT, VALUE_BYTES_MAX, EntryId, Value
from holdfast.directory.replica.modifying import Modifying
from holdfast.directory.replica.passwords import is_hashed
from holdfast.directory.replica.sight import Sight
from holdfast.directory.results import DirectoryError, ResultCode
from holdfast.directory.schema.checking import check_entry, check_writable

ENTRY_BYTES_MAX: Final = 8 << 20
"""How large a client may make an entry: photographs of a person fit, and a group of 100,000."""
PASSWORD: Final = "userPassword"

Step = Callable[[Operation], None]
Steps = list[Step]


def judged(sight: Sight, request: Change, who: str, new_id: EntryId) -> Steps:
    """The steps that *request* comes to, in the name of *who*. An added entry gets *new_id*.

    Raises ``DirectoryError``: then nothing is changed.
    """
    match request:
        case AddRequest():
            return _add(sight, request, who, new_id)
        case DeleteRequest():
            return _delete(sight, request)
        case ModifyRequest():
            return _modify(sight, request, who)
        case ModifyDnRequest():
            return _modify_dn(sight, request, who)


def _wrong(result: ResultCode, text: str) -> DirectoryError:
    return DirectoryError(result, text)


def check_size(values: dict[str, list[bytes]]) -> None:
    total = 0
    for name, contents in values.items():
        for each in contents:
            if len(each) > VALUE_BYTES_MAX:
                raise _wrong(
                    ResultCode.ADMIN_LIMIT_EXCEEDED,
                    f"a value of {name} has {len(each)} bytes; at most {VALUE_BYTES_MAX} are allowed",
                )
            total += len(each)
    if total > ENTRY_BYTES_MAX:
        raise _wrong(
            ResultCode.ADMIN_LIMIT_EXCEEDED,
            f"the entry would have {total} bytes; at most {ENTRY_BYTES_MAX} are allowed",
        )


def check_passwords(values: list[bytes]) -> None:
    """Passwords in clear are never stored, whoever forgot to hash them."""
    if not all(map(is_hashed, values)):
        raise _wrong(
            ResultCode.CONSTRAINT_VIOLATION, "a value of userPassword is no hash that this server can verify"
        )


def _named(sight: Sight, dn: Dn) -> tuple[Ava, ...]:
    """The RDN of a name that a client gives an entry."""
    for ava in dn.rdn:
        described = sight.schema.describe(ava.attribute)
        if described.type.is_operational:
            raise _wrong(
                ResultCode.NAMING_VIOLATION,
                f"an entry cannot be named by {described.name}: the server sets it",
            )
        if described.name == PASSWORD:
            # A name is shown to all who may read the entry, and it is stored as the client writes it.
            raise _wrong(
                ResultCode.NAMING_VIOLATION, f"an entry cannot be named by {described.name}: names are shown"
            )
    return dn.rdn


def _stamp(sight: Sight, entry: EntryId, attribute: str, who: str) -> Step:
    value = sight.stamp(attribute, who)
    return lambda operation: operation.add_value(entry, attribute, value, is_single=True)


def _add(sight: Sight, request: AddRequest, who: str, new_id: EntryId) -> Steps:
    schema = sight.schema
    dn = Dn.parse(request.dn)
    rdn = _named(sight, dn)
    if not rdn:
        raise _wrong(ResultCode.ENTRY_ALREADY_EXISTS, "the root DSE is there already")
    parent = _parent(sight, dn)
    if sight.name_holder(parent, rdn) is not None:
        raise _wrong(ResultCode.ENTRY_ALREADY_EXISTS, "an entry of that name is there already")
    check_writable(schema, (each.description for each in request.attributes))
    values: dict[str, list[bytes]] = {}
    for each in request.attributes:
        spelling = schema.describe(each.description).name
        if spelling in values:
            raise _wrong(ResultCode.ATTRIBUTE_OR_VALUE_EXISTS, f"the attribute {spelling} is given twice")
        values[spelling] = list(each.values)
    name = name_of(schema, rdn)
    for ava in rdn:
        # RFC 4511, 4.7: clients may leave out what the name says.
        described = schema.describe(ava.attribute)
        given = values.setdefault(described.name, [])
        key = described.type.key(ava.value, schema)
        if all(described.type.key(each, schema) != key for each in given):
            given.append(ava.value)
    check_size(values)
    check_entry(schema, values, rdn=rdn)
    check_passwords(values.get(PASSWORD, []))
    named = [(each.attribute, each.value.key) for each in name.values]
    steps: Steps = [lambda operation: operation.add_entry(new_id, parent, name)]
    for description, contents in values.items():
        attribute, single = attribute_of(schema, description), is_single(schema, description)
        for content in contents:
            value = value_of(schema, description, content)
            if (attribute, value.key) not in named:
                steps.append(_adding(new_id, attribute, value, single))
            elif value.content not in [each.value.content for each in name.values]:
                # The client spells the value otherwise than the name: as a value, its own spelling counts.
                steps.append(_adding(new_id, attribute, value, single))
    return [*steps, _stamp(sight, new_id, "creatorsname", who), _stamp(sight, new_id, "modifiersname", who)]


def _adding(entry: EntryId, attribute: str, value: Value, single: bool) -> Step:
    return lambda operation: operation.add_value(entry, attribute, value, is_single=single)


def _parent(sight: Sight, dn: Dn) -> EntryId:
    """Below which entry a new one of that name stands."""
    if len(dn) == len(sight.suffix.dn) and sight.suffix.covers(dn, sight.schema):
        return ROOT
    return sight.find(Dn(dn.rdns[1:]))


def _delete(sight: Sight, request: DeleteRequest) -> Steps:
    entry, _ = sight.live(Dn.parse(request.dn))
    if sight.tree.has_children(entry):
        raise _wrong(
            ResultCode.NOT_ALLOWED_ON_NON_LEAF, "there are entries below it: delete these first, leaves first"
        )
    return [lambda operation: operation.remove_entry(entry)]


def _modify(sight: Sight, request: ModifyRequest, who: str) -> Steps:
    entry, state = sight.live(Dn.parse(request.dn))
    modifying = Modifying(sight.schema, entry, state)
    for each in request.changes:
        modifying.take(each)
    after = modifying.touched()
    check_size(after if modifying.bytes_most(after) <= ENTRY_BYTES_MAX else modifying.contents())
    check_passwords(after.get(PASSWORD, []))
    modifying.check()
    return [*modifying.steps, _stamp(sight, entry, "modifiersname", who)]


def _modify_dn(sight: Sight, request: ModifyDnRequest, who: str) -> Steps:
    schema = sight.schema
    dn = Dn.parse(request.dn)
    entry, state = sight.live(dn)
    if entry == sight.top():
        raise _wrong(ResultCode.UNWILLING_TO_PERFORM, "the suffix's own entry keeps its name and place")
    rdn = _named(sight, Dn((parse_rdn(request.new_rdn),)))
    before = sight.tree.parent(entry)
    parent = before if request.new_superior is None else sight.find(Dn.parse(request.new_superior))
    if parent == ROOT:
        raise _wrong(
            ResultCode.UNWILLING_TO_PERFORM, "the entry stands at the root: name the superior it shall have"
        )
    _check_no_cycle(sight, entry, parent)
    holder = sight.name_holder(parent, rdn)
    if holder is not None and holder != entry:
        raise _wrong(ResultCode.ENTRY_ALREADY_EXISTS, "an entry of that name is there already")
    name = name_of(schema, rdn)
    modifying = Modifying(schema, entry, state)
    modifying.rename(name, delete_old=request.delete_old_rdn)
    check_size(modifying.contents())
    modifying.check(rdn)
    own = state.name.winner
    steps: Steps = []
    is_same = own is not None and own.wish.key == name.key and own.wish.text == name.text
    if not is_same:
        steps.append(lambda operation: operation.rename(entry, name, remove_old=request.delete_old_rdn))
    if parent != before:
        steps.append(lambda operation: operation.move(entry, parent))
    return [*steps, _stamp(sight, entry, "modifiersname", who)]


def _check_no_cycle(sight: Sight, entry: EntryId, parent: EntryId) -> None:
    each = parent
    while each != ROOT:
        if each == entry:
            raise _wrong(ResultCode.UNWILLING_TO_PERFORM, "an entry cannot be moved below itself")
        each = sight.tree.parent(each)
