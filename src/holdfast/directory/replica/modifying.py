"""A modify request, step by step: what each does to the values, and which changes it comes to.

Later steps see what earlier ones did, and the schema judges what is left in the end, as RFC 4511 demands; the
changes are issued in the same order, so that they come to the same on every master.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from holdfast.directory.dn import Rdn
from holdfast.directory.entry import NO_ATTRIBUTE, NONE_REQUIRED, EntryState
from holdfast.directory.issuing import Operation
from holdfast.directory.operations import Modification, ModificationKind
from holdfast.directory.primitives import EntryId, Name, Value
from holdfast.directory.results import DirectoryError, ResultCode, quoted
from holdfast.directory.schema.checking import (
    check_entry,
    check_values,
    check_writable,
    classes_of,
    structural_class,
)
from holdfast.directory.schema.schema import Described, Schema
from holdfast.directory.syntaxes import INTEGER_DIGITS_MAX

CLASS: Final = "objectClass"


class Modifying:
    """An entry's values while a request changes them. Those of attributes that it is not about are not even
    looked at, as long as nothing depends on them."""

    def __init__(self, schema: Schema, entry: EntryId, state: EntryState) -> None:
        self._schema = schema
        self._entry = entry
        self._state = state
        self._required = state.required()
        self._values: dict[str, dict[bytes, Value]] = {}
        """Of the attributes that were looked at, by key, as they are now."""
        self._first: dict[str, dict[bytes, Value]] = {}
        """Of the same, as they were at first."""
        self._touched: dict[str, str] = {}
        """What the request was about: the schema's names of attributes, and their names in changes."""
        self.steps: list[Callable[[Operation], None]] = []

    def _of(self, attribute: str) -> dict[bytes, Value]:
        """The values of an attribute now, by key."""
        values = self._values.get(attribute)
        if values is None:
            first = self._first[attribute] = {each.key: each for each in self._at_first(attribute)}
            values = self._values[attribute] = dict(first)
        return values

    def _at_first(self, attribute: str) -> tuple[Value, ...]:
        known = self._state.attributes.get(attribute, NO_ATTRIBUTE)
        return known.visible(self._required.get(attribute, NONE_REQUIRED))

    def contents(self) -> dict[str, list[bytes]]:
        """All values now, under the names that the schema has for their attributes."""
        found: dict[str, list[bytes]] = {}
        for name in sorted({*self._state.attributes, *self._required, *self._values}):
            described = self._schema.find(name)
            if described is not None and (values := self._of(name)):
                found[described.name] = [each.content for each in values.values()]
        return found

    def touched(self) -> dict[str, list[bytes]]:
        """As :meth:`contents`, of what the request was about alone."""
        found: dict[str, list[bytes]] = {}
        for name, attribute in self._touched.items():
            if values := self._of(attribute):
                found[name] = [each.content for each in values.values()]
        return found

    def _fresh(self) -> dict[str, list[bytes]]:
        """As :meth:`touched`, without the values that the entry had at first."""
        found = {}
        for name, attribute in self._touched.items():
            values, first = self._of(attribute), self._first[attribute]
            found[name] = [each.content for each in values.values() if first.get(each.key) != each]
        return found

    def bytes_most(self, touched: Mapping[str, list[bytes]]) -> int:
        """The entry has no more bytes now, if *touched* is what the request was about."""
        return self._state.bytes_most() + sum([len(each) for values in touched.values() for each in values])

    def check(self, rdn: Rdn = ()) -> None:
        """Raise what is wrong with the entry as it is now. Of values, only those that the request brings are
        looked at: another master may have sent others, whose schema differs, and there may be thousands.
        Whether its classes allow its attributes is asked when either has changed."""
        came_or_went = any(bool(values) != bool(self._first[name]) for name, values in self._values.items())
        if not rdn and not came_or_went and CLASS not in self._touched:
            check_values(self._schema, self.touched(), self._fresh())
            return
        writable = {
            name: values
            for name, values in self.contents().items()
            if not self._schema.describe(name).type.is_read_only
        }
        check_entry(self._schema, writable, rdn=rdn, fresh=self._fresh())
        if self._structural_class(self._of("objectclass").values()) != self._structural_class(
            self._at_first("objectclass")
        ):
            raise DirectoryError(
                ResultCode.OBJECT_CLASS_MODS_PROHIBITED,
                "the structural class of an entry stays: delete the entry, and add another",
            )

    def _structural_class(self, classes: Iterable[Value]) -> str | None:
        found = structural_class(classes_of(self._schema, [each.content for each in classes])[0])
        return None if found is None else found.oid

    # --- steps

    def take(self, step: Modification) -> None:
        check_writable(self._schema, (step.description,))
        described = self._schema.describe(step.description)
        attribute = described.name.lower()
        self._touched[described.name] = attribute
        single = described.type.is_single_valued
        given = self._given(described, step.values)
        match step.kind:
            case ModificationKind.ADD:
                self._add(described, attribute, given, single)
            case ModificationKind.DELETE:
                self._delete(described, attribute, given, single)
            case ModificationKind.REPLACE:
                self._replace(described, attribute, given, single)
            case ModificationKind.INCREMENT:
                self._increment(described, attribute, step.values, single)

    def rename(self, name: Name, *, delete_old: bool) -> None:
        """What becomes of the values when the entry gets another name."""
        if delete_old:
            for attribute, values in self._required.items():
                for each in values.values():
                    self._of(attribute).pop(each.key, None)
        for part in name.values:
            values = self._of(part.attribute)
            if part.is_single:
                values.clear()
            values[part.value.key] = part.value
            self._touched[self._schema.describe(part.attribute).name] = part.attribute

    def _given(self, described: Described, values: tuple[bytes, ...]) -> dict[bytes, Value]:
        given: dict[bytes, Value] = {}
        for content in values:
            value = Value(described.type.key(content, self._schema), content)
            if value.key in given:
                raise DirectoryError(
                    ResultCode.ATTRIBUTE_OR_VALUE_EXISTS,
                    f"the value {quoted(content)} of {described.name} is given twice",
                )
            given[value.key] = value
        return given

    def _add(self, described: Described, attribute: str, given: dict[bytes, Value], single: bool) -> None:
        if not given:
            raise DirectoryError(ResultCode.PROTOCOL_ERROR, f"no value of {described.name} is given to add")
        values = self._of(attribute)
        for each in given.values():
            if each.key in values:
                raise DirectoryError(
                    ResultCode.ATTRIBUTE_OR_VALUE_EXISTS,
                    f"{described.name} has the value {_told(described, each.content)} already",
                )
            if single and values:
                raise DirectoryError(
                    ResultCode.CONSTRAINT_VIOLATION, f"{described.name} may have one value only, and has one"
                )
            values[each.key] = each
            self._issue_add(attribute, each, single)

    def _delete(self, described: Described, attribute: str, given: dict[bytes, Value], single: bool) -> None:
        values = self._of(attribute)
        if not values:
            raise DirectoryError(ResultCode.NO_SUCH_ATTRIBUTE, f"the entry has no {described.name}")
        if not given:
            self._check_kept(described, attribute, {})
            values.clear()
            self.steps.append(lambda operation: operation.remove_attribute(self._entry, attribute))
            return
        for each in given.values():
            stored = values.pop(each.key, None)
            if stored is None:
                raise DirectoryError(
                    ResultCode.NO_SUCH_ATTRIBUTE,
                    f"{described.name} has no value {_told(described, each.content)}",
                )
            self._check_kept(described, attribute, values)
            self._issue_remove(attribute, stored, single)

    def _replace(self, described: Described, attribute: str, given: dict[bytes, Value], single: bool) -> None:
        self._check_kept(described, attribute, given)
        if not self._of(attribute) and not given:
            return  # to replace nothing by nothing is allowed
        self._values[attribute] = dict(given)
        values = list(given.values())
        self.steps.append(
            lambda operation: operation.replace(self._entry, attribute, values, is_single=single)
        )

    def _increment(
        self, described: Described, attribute: str, values: tuple[bytes, ...], single: bool
    ) -> None:
        current = list(self._of(attribute).values())
        if len(values) != 1:
            raise DirectoryError(ResultCode.PROTOCOL_ERROR, "an increment has one value: by how much")
        if not current:
            raise DirectoryError(ResultCode.NO_SUCH_ATTRIBUTE, f"the entry has no {described.name}")
        by = self._integer(described, values[0])
        new = self._given(
            described, tuple(str(self._integer(described, each.content) + by).encode() for each in current)
        )
        self._check_kept(described, attribute, new)
        self._values[attribute] = dict(new)
        for each in () if single else current:
            if each.key not in new:
                self._issue_remove(attribute, each, single)
        for each in new.values():
            self._issue_add(attribute, each, single)

    def _integer(self, described: Described, content: bytes) -> int:
        if described.type.syntax.fault_in(content) is None and len(content) <= INTEGER_DIGITS_MAX:
            try:
                return int(content)
            except ValueError:
                pass
        raise DirectoryError(
            ResultCode.CONSTRAINT_VIOLATION, f"{quoted(content)} of {described.name} is no integer"
        )

    def _check_kept(self, described: Described, attribute: str, left: dict[bytes, Value]) -> None:
        if any(each.key not in left for each in self._required.get(attribute, {}).values()):
            raise DirectoryError(
                ResultCode.NOT_ALLOWED_ON_RDN,
                f"a value of {described.name} is part of the entry's name: rename the entry instead",
            )

    def _issue_add(self, attribute: str, value: Value, single: bool) -> None:
        self.steps.append(
            lambda operation: operation.add_value(self._entry, attribute, value, is_single=single)
        )

    def _issue_remove(self, attribute: str, value: Value, single: bool) -> None:
        self.steps.append(
            lambda operation: operation.remove_value(self._entry, attribute, value, is_single=single)
        )


def _told(described: Described, content: bytes) -> str:
    """A value as a diagnostic repeats it: never a password."""
    return "of that password" if described.type.name == "userPassword" else quoted(content)
