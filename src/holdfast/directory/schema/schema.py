"""The schema: which attributes and classes there are, with what each inherits, and what names mean.

A schema never changes; :meth:`Schema.extended_with` makes another. It is checked as a whole when it is made,
so that looking something up later cannot fail half way.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, TypeVar
from zlib import crc32

from holdfast.directory import matching
from holdfast.directory.dn import Vocabulary
from holdfast.directory.matching import MatchingRule, NotComparable, RuleKind
from holdfast.directory.results import DirectoryError, ResultCode, quoted
from holdfast.directory.schema.descriptions import (
    AttributeTypeDescription,
    ClassKind,
    Extensions,
    MatchingRuleDescription,
    MatchingRuleUseDescription,
    ObjectClassDescription,
    SyntaxDescription,
    Usage,
)
from holdfast.directory.syntaxes import SYNTAXES, Syntax

DESCRIBED_MAX: Final = 4_096
"""How many spellings of attribute descriptions are remembered: clients could send any number of them."""

OPTIONS_MAX: Final = 16
"""How many options one attribute description may have."""

INHERITED_MAX: Final = 32
"""How many steps up a type or class may inherit. It also ends a search that goes in a circle."""

KEY_BYTES_MAX: Final = 256
"""How long the key of a value is at most as it is. A longer one is cut, and ends in its digest: keys stand in
indexes and travel with each change, and a photograph's need not be a photograph."""

_KEY_BYTES_CUT: Final = KEY_BYTES_MAX - 31
"""What is left of a long key. With its digest it is longer than every key that is not cut."""

_UNCOMPARABLE: Final = b"\xff"
"""What the key of a value begins with that its rule cannot read. No key of a rule that can fail begins so."""


@dataclass(frozen=True, slots=True, eq=False)
class AttributeType:
    """An attribute type with all that it inherits."""

    description: AttributeTypeDescription
    syntax: Syntax
    equality: MatchingRule | None
    ordering: MatchingRule | None
    substrings: MatchingRule | None
    lineage: tuple[str, ...]
    """The OIDs of this type and of all that it descends from, itself first."""
    # The rest follows from the description: told once, since every change and every filter asks for it.
    oid: str = field(init=False)
    name: str = field(init=False)
    """The name that answers use: the first of its names, or its OID."""
    is_single_valued: bool = field(init=False)
    is_read_only: bool = field(init=False)
    is_operational: bool = field(init=False)

    def __post_init__(self) -> None:
        told, put = self.description, object.__setattr__
        put(self, "oid", told.oid)
        put(self, "name", told.names[0] if told.names else told.oid)
        put(self, "is_single_valued", told.is_single_valued)
        put(self, "is_read_only", told.is_read_only)
        put(self, "is_operational", told.usage is not Usage.USER)

    def key(self, value: bytes, vocabulary: Vocabulary) -> bytes:
        """What two equal values have in common. Every value has one, also one that is wrong."""
        try:
            return self.assertion_key(value, vocabulary)
        except NotComparable:
            return _bounded(_UNCOMPARABLE + value)

    def assertion_key(self, value: bytes, vocabulary: Vocabulary) -> bytes:
        """The key of the values that equal what a client compares with; raises NotComparable if none can."""
        return _bounded((self.equality or matching.OCTETS).key(value, vocabulary))


@dataclass(frozen=True, slots=True)
class Described:
    """An attribute description that the schema knows: a type, and options in order."""

    type: AttributeType
    options: tuple[str, ...] = ()
    name: str = field(init=False, compare=False)
    """How the description is written in answers."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", ";".join((self.type.name, *self.options)))

    def covers(self, other: "Described") -> bool:
        """Whether *other* is this, a subtype of it, or has options besides its own."""
        return self.type.oid in other.type.lineage and (
            not self.options or all(each in other.options for each in self.options)
        )


@dataclass(frozen=True, slots=True, eq=False)
class ObjectClass:
    """A class, with all that it inherits."""

    description: ObjectClassDescription
    lineage: tuple[str, ...]
    """The OIDs of this class and of all that it descends from, itself first."""
    must: frozenset[str]
    """The OIDs of the attributes that an entry of this class has, its ancestors' included."""
    may: frozenset[str]

    @property
    def oid(self) -> str:
        return self.description.oid

    @property
    def name(self) -> str:
        return self.description.names[0] if self.description.names else self.description.oid

    @property
    def kind(self) -> ClassKind:
        return self.description.kind


class InvalidSchema(DirectoryError):
    """Raised when the elements of a schema do not fit together."""

    code = "invalid_schema"

    def __init__(self, problem: str) -> None:
        super().__init__(ResultCode.CONSTRAINT_VIOLATION, problem)


@dataclass(frozen=True, eq=False)
class Schema:
    """Attribute types and object classes, by any of their names in any case, and by OID."""

    attributes: tuple[AttributeTypeDescription, ...]
    classes: tuple[ObjectClassDescription, ...]
    _types: dict[str, AttributeType] = field(init=False, repr=False)
    _classes: dict[str, ObjectClass] = field(init=False, repr=False)
    mark: int = field(init=False, repr=False)
    """Tells schemas apart that spell user attributes otherwise."""
    _described: dict[str, Described] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        resolving = _Resolving(self.attributes, self.classes)
        object.__setattr__(self, "_types", resolving.types())
        object.__setattr__(self, "_classes", resolving.object_classes())
        types = sorted((name, each.name, each.is_operational) for name, each in self._types.items())
        object.__setattr__(self, "mark", crc32(repr(types).encode()))

    def extended_with(
        self,
        attributes: Iterable[AttributeTypeDescription] = (),
        classes: Iterable[ObjectClassDescription] = (),
    ) -> "Schema":
        """This schema with further elements."""
        return Schema((*self.attributes, *attributes), (*self.classes, *classes))

    # --- looking up

    def find_attribute(self, name: str) -> AttributeType | None:
        return self._types.get(name) or self._types.get(name.lower())

    def find_class(self, name: str) -> ObjectClass | None:
        return self._classes.get(name) or self._classes.get(name.lower())

    def find(self, description: str) -> Described | None:
        """What an attribute description such as ``cn;lang-de`` means; None if its type is unknown."""
        found = self._described.get(description)
        if found is not None:
            return found
        name, *options = description.split(";")
        attribute = self.find_attribute(name)
        if attribute is None or len(options) > OPTIONS_MAX or not all(map(_is_option, options)):
            return None
        found = Described(attribute, tuple(sorted({each.lower() for each in options})))
        if len(self._described) >= DESCRIBED_MAX:
            self._described.clear()
        self._described[description] = found
        return found

    def describe(self, description: str) -> Described:
        """As :meth:`find`, for when the client must name an attribute that exists."""
        found = self.find(description)
        if found is None:
            raise DirectoryError(
                ResultCode.UNDEFINED_ATTRIBUTE_TYPE, f"there is no attribute {quoted(description)}"
            )
        return found

    def oid_of(self, descriptor: str) -> str | None:
        lower = descriptor.lower()
        if (object_class := self._classes.get(lower)) is not None:
            return object_class.oid
        if (attribute := self._types.get(lower)) is not None:
            return attribute.oid
        rule = matching.BY_NAME.get(lower)
        return None if rule is None else rule.oid

    def naming_key(self, attribute: str, value: bytes) -> tuple[str, bytes]:
        found = self.find_attribute(attribute)
        if found is None:
            # A replicated name may have an attribute that this schema lacks: it is compared as most are.
            try:
                return attribute.lower(), _bounded(_CASE_IGNORE.key(value, self))
            except NotComparable:
                return attribute.lower(), _bounded(_UNCOMPARABLE + value)
        return found.oid, found.key(value, self)

    # --- the subschema entry

    @cached_property
    def attribute_types(self) -> tuple[AttributeType, ...]:
        return tuple(self._types[each.oid] for each in self.attributes)

    @cached_property
    def covered(self) -> dict[str, tuple[AttributeType, ...]]:
        """The attribute types that a type covers, itself first, by its OID."""
        found: dict[str, list[AttributeType]] = {}
        for each in sorted(self.attribute_types, key=lambda one: len(one.lineage)):
            for oid in each.lineage:
                found.setdefault(oid, []).append(each)
        return {oid: tuple(types) for oid, types in found.items()}

    def subschema(self) -> dict[str, tuple[str, ...]]:
        """The attributes of the subschema entry that say what there is (RFC 4512, 4.2)."""
        return {
            "attributeTypes": tuple(map(str, self.attributes)),
            "objectClasses": tuple(map(str, self.classes)),
            "matchingRules": tuple(
                str(MatchingRuleDescription(each.oid, (each.name,), each.syntax)) for each in matching.RULES
            ),
            "matchingRuleUse": tuple(map(str, self._rule_uses())),
            "ldapSyntaxes": tuple(str(_syntax_description(each)) for each in SYNTAXES.values()),
        }

    def _rule_uses(self) -> Iterable[MatchingRuleUseDescription]:
        for rule in matching.RULES:
            applies = tuple(
                each.name
                for each in self.attribute_types
                if rule in (each.equality, each.ordering, each.substrings)
            )
            if applies:
                yield MatchingRuleUseDescription(rule.oid, (rule.name,), applies)


def _bounded(key: bytes) -> bytes:
    if len(key) <= KEY_BYTES_MAX:
        return key
    return key[:_KEY_BYTES_CUT] + hashlib.sha256(key).digest()


_CASE_IGNORE: Final = matching.BY_NAME["caseignorematch"]


_RESERVED: Final = ("vucsn-", "vdcsn-", "vkey-", "vsingle", "vmulti")
"""How options begin by which exports tell CSNs (:mod:`..interchange.entry_text`); clients have none."""


def _is_option(text: str) -> bool:
    return text.isascii() and text.replace("-", "").isalnum() and not text.lower().startswith(_RESERVED)


def _syntax_description(syntax: Syntax) -> SyntaxDescription:
    extensions: Extensions = {} if syntax.is_readable else {"X-NOT-HUMAN-READABLE": ("TRUE",)}
    return SyntaxDescription(syntax.oid, syntax.description, extensions)


class _Resolving:
    """Makes types and classes of their descriptions, with what they inherit."""

    def __init__(
        self, attributes: tuple[AttributeTypeDescription, ...], classes: tuple[ObjectClassDescription, ...]
    ) -> None:
        self._attributes = _by_name("attribute", attributes)
        self._classes = _by_name("class", classes)
        self._made: dict[str, AttributeType] = {}
        self._made_classes: dict[str, ObjectClass] = {}

    def types(self) -> dict[str, AttributeType]:
        return {name: self._type(each, 0) for name, each in self._attributes.items()}

    def object_classes(self) -> dict[str, ObjectClass]:
        return {name: self._class(each, 0) for name, each in self._classes.items()}

    def _type(self, description: AttributeTypeDescription, depth: int) -> AttributeType:
        made = self._made.get(description.oid)
        if made is not None:
            return made
        name = _name_of(description)
        parent: AttributeType | None = None
        if description.superior is not None:
            above = self._attributes.get(description.superior.lower())
            if above is None or depth == INHERITED_MAX:
                raise InvalidSchema(
                    f"the attribute {name} descends from {quoted(description.superior)}, which "
                    + ("descends from it in turn" if above else "does not exist")
                )
            parent = self._type(above, depth + 1)
        syntax = SYNTAXES.get(description.syntax or "")
        if description.syntax is None and parent is not None:
            syntax = parent.syntax
        if syntax is None:
            raise InvalidSchema(
                f"the attribute {name} has the syntax {description.syntax}, which is not known"
            )
        made = AttributeType(
            description,
            syntax,
            _rule(description.equality, RuleKind.EQUALITY, name) or (parent.equality if parent else None),
            _rule(description.ordering, RuleKind.ORDERING, name) or (parent.ordering if parent else None),
            _rule(description.substrings, RuleKind.SUBSTRINGS, name)
            or (parent.substrings if parent else None),
            (description.oid, *(parent.lineage if parent else ())),
        )
        self._made[description.oid] = made
        return made

    def _class(self, description: ObjectClassDescription, depth: int) -> ObjectClass:
        made = self._made_classes.get(description.oid)
        if made is not None:
            return made
        parents = []
        for superior in description.superiors:
            above = self._classes.get(superior.lower())
            if above is None or depth == INHERITED_MAX:
                raise InvalidSchema(
                    f"the class {_name_of(description)} descends from {quoted(superior)}, which "
                    + ("descends from it in turn" if above else "does not exist")
                )
            parents.append(self._class(above, depth + 1))
        made = ObjectClass(
            description,
            tuple(dict.fromkeys((description.oid, *(oid for each in parents for oid in each.lineage)))),
            self._oids(description, description.must).union(*(each.must for each in parents)),
            self._oids(description, description.may).union(*(each.may for each in parents)),
        )
        self._made_classes[description.oid] = made
        return made

    def _oids(self, description: ObjectClassDescription, names: tuple[str, ...]) -> frozenset[str]:
        oids = []
        for each in names:
            found = self._attributes.get(each.lower())
            if found is None:
                raise InvalidSchema(
                    f"the class {_name_of(description)} has the attribute {quoted(each)}, which is unknown"
                )
            oids.append(found.oid)
        return frozenset(oids)


def _name_of(description: AttributeTypeDescription | ObjectClassDescription) -> str:
    return quoted(description.names[0] if description.names else description.oid)


D = TypeVar("D", AttributeTypeDescription, ObjectClassDescription)


def _by_name(what: str, elements: Iterable[D]) -> dict[str, D]:
    found: dict[str, D] = {}
    element: D
    for element in elements:
        for name in (element.oid, *element.names):
            if found.setdefault(name.lower(), element) is not element:
                raise InvalidSchema(f"there are two {what} descriptions of {quoted(name)}")
    return found


def _rule(name: str | None, kind: RuleKind, attribute: str) -> MatchingRule | None:
    if name is None:
        return None
    rule = matching.BY_NAME.get(name.lower())
    if rule is None or rule.kind is not kind:
        raise InvalidSchema(
            f"the attribute {attribute} is matched by {quoted(name)}, which is no known {kind.value} rule"
        )
    return rule
