"""Whether an entry that a client writes keeps to the schema (RFC 4512, 2 and 3; RFC 4511, 4.7).

Replicated changes are never refused, so this is for clients alone. :func:`violations` tells everything that
is wrong, each with the result code that LDAP has for it; :func:`check_entry` raises the first.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from holdfast.directory.dn import Rdn
from holdfast.directory.results import DirectoryError, ResultCode, quoted
from holdfast.directory.schema.descriptions import ClassKind
from holdfast.directory.schema.schema import Described, ObjectClass, Schema

OBJECT_CLASS: Final = "2.5.4.0"
EXTENSIBLE_OBJECT: Final = "1.3.6.1.4.1.1466.101.120.111"
"""An entry of this class may have any attribute."""

Entry = Mapping[str, Sequence[bytes]]
"""Attribute descriptions, in any spelling, with values."""


def check_entry(schema: Schema, entry: Entry, *, rdn: Rdn = (), fresh: Entry | None = None) -> None:
    """Raise what is wrong first with an entry that a client adds, or that a client's change leaves behind."""
    for each in violations(schema, entry, rdn=rdn, fresh=fresh):
        raise each


def violations(
    schema: Schema, entry: Entry, *, rdn: Rdn = (), fresh: Entry | None = None
) -> Iterator[DirectoryError]:
    """Everything that is wrong with an entry; *rdn* is checked to be in it. With *fresh*, no
    other values are looked at, and of attributes without any only that the entry may have these."""
    attributes: dict[Described, Sequence[bytes]] = {}
    for description, values in entry.items():
        found = schema.find(description)
        if found is None:
            yield _error(ResultCode.UNDEFINED_ATTRIBUTE_TYPE, f"there is no attribute {quoted(description)}")
        elif found in attributes:
            yield _error(
                ResultCode.ATTRIBUTE_OR_VALUE_EXISTS, f"the attribute {found.name} is there in two spellings"
            )
        else:
            attributes[found] = values
            if fresh is None:
                yield from _value_violations(schema, found, values, values)
            elif description in fresh:
                yield from _value_violations(schema, found, values, fresh[description])
    yield from _class_violations(schema, attributes)
    yield from _naming_violations(schema, attributes, rdn)


def check_values(schema: Schema, entry: Entry, fresh: Entry) -> None:
    """Raise what is wrong first with *fresh* values, of attributes that the entry may have. A group has
    thousands of others, which were looked at when they came."""
    for description, values in entry.items():
        for each in _value_violations(schema, schema.describe(description), values, fresh[description]):
            raise each


def check_writable(schema: Schema, descriptions: Iterable[str]) -> None:
    """Raise if a client's request names an attribute that the server alone sets."""
    for each in descriptions:
        described = schema.describe(each)
        if described.type.is_read_only:
            raise _error(
                ResultCode.CONSTRAINT_VIOLATION, f"the attribute {described.name} is set by the server alone"
            )


def _error(result: ResultCode, diagnostic: str) -> DirectoryError:
    return DirectoryError(result, diagnostic)


def _value_violations(
    schema: Schema, described: Described, values: Sequence[bytes], fresh: Sequence[bytes]
) -> Iterator[DirectoryError]:
    name = described.name
    if not values:
        yield _error(ResultCode.CONSTRAINT_VIOLATION, f"the attribute {name} has no value")
    if described.type.is_single_valued and len(values) > 1:
        yield _error(
            ResultCode.CONSTRAINT_VIOLATION,
            f"the attribute {name} may have one value only, and {len(values)} are given",
        )
    seen: set[bytes] = set()
    for value in fresh:
        fault = described.type.syntax.fault_in(value)
        if fault is not None:
            yield _error(
                ResultCode.INVALID_ATTRIBUTE_SYNTAX,
                f"{quoted(value)} is no value of {name} ({described.type.syntax.description}): {fault}",
            )
            continue
        key = described.type.key(value, schema)
        if key in seen:
            yield _error(
                ResultCode.ATTRIBUTE_OR_VALUE_EXISTS, f"the value {quoted(value)} of {name} is there twice"
            )
        seen.add(key)


# --- classes


def classes_of(schema: Schema, names: Iterable[bytes]) -> tuple[list[ObjectClass], list[str]]:
    """The known classes among *names*, and the names of the others."""
    known, unknown = [], []
    for each in names:
        text = each.decode("utf-8", "replace")
        found = schema.find_class(text)
        if found is None:
            unknown.append(text)
        else:
            known.append(found)
    return known, unknown


def structural_class(classes: Sequence[ObjectClass]) -> ObjectClass | None:
    """The most derived structural class, if all structural ones are of one line; else None."""
    structural = [each for each in classes if each.kind is ClassKind.STRUCTURAL]
    if not structural:
        return None
    deepest = max(structural, key=lambda each: len(each.lineage))
    return deepest if all(each.oid in deepest.lineage for each in structural) else None


def _class_violations(
    schema: Schema, attributes: Mapping[Described, Sequence[bytes]]
) -> Iterator[DirectoryError]:
    named = [
        value for each, values in attributes.items() if each.type.oid == OBJECT_CLASS for value in values
    ]
    if not named:
        yield _error(ResultCode.OBJECT_CLASS_VIOLATION, "the entry has no objectClass")
        return
    classes, unknown = classes_of(schema, named)
    for name in unknown:
        yield _error(ResultCode.OBJECT_CLASS_VIOLATION, f"there is no object class {quoted(name)}")
    if unknown:
        return
    if structural_class(classes) is None:
        structural = [each.name for each in classes if each.kind is ClassKind.STRUCTURAL]
        yield _error(
            ResultCode.OBJECT_CLASS_VIOLATION,
            f"the structural classes {' and '.join(structural)} do not descend from one another"
            if structural
            else f"the entry has no structural class, only {', '.join(each.name for each in classes)}",
        )
    yield from _content_violations(schema, classes, attributes)


def _content_violations(
    schema: Schema, classes: list[ObjectClass], attributes: Mapping[Described, Sequence[bytes]]
) -> Iterator[DirectoryError]:
    present = {oid for each in attributes for oid in each.type.lineage}
    for each in classes:
        for oid in sorted(each.must):
            if oid not in present:
                attribute = schema.find_attribute(oid)
                yield _error(
                    ResultCode.OBJECT_CLASS_VIOLATION,
                    f"an entry of the class {each.name} has the attribute "
                    f"{attribute.name if attribute else oid}, and this one has not",
                )
    if any(EXTENSIBLE_OBJECT in each.lineage for each in classes):
        return
    allowed = frozenset[str]().union(*(each.must | each.may for each in classes))
    for described in attributes:
        if described.type.oid not in allowed and not described.type.is_operational:
            yield _error(
                ResultCode.OBJECT_CLASS_VIOLATION,
                f"no class of the entry ({', '.join(each.name for each in classes)}) has the attribute "
                f"{described.type.name}",
            )


def _naming_violations(
    schema: Schema, attributes: Mapping[Described, Sequence[bytes]], rdn: Rdn
) -> Iterator[DirectoryError]:
    for ava in rdn:
        attribute = schema.find_attribute(ava.attribute)
        if attribute is None:
            yield _error(
                ResultCode.UNDEFINED_ATTRIBUTE_TYPE,
                f"there is no attribute {quoted(ava.attribute)} to name by",
            )
            continue
        if attribute.equality is None:
            yield _error(
                ResultCode.NAMING_VIOLATION,
                f"an entry cannot be named by {attribute.name}: its values have no equality",
            )
        if attribute.is_operational and attribute.is_read_only:
            continue  # entryUUID in the name of an entry that lost its own to another
        key = attribute.key(ava.value, schema)
        values = attributes.get(Described(attribute), ())
        if all(attribute.key(value, schema) != key for value in values):
            yield _error(
                ResultCode.NAMING_VIOLATION, f"the entry is named by {ava}, which is not among its values"
            )
