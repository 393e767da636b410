"""Names and values as changes carry them: made comparable by the issuer's schema, once.

Masters resolve changes without a schema (:mod:`.primitives`). So whoever issues a change says which attribute
it is about, by the lower case of the name that the schema gives it; by which key the value is compared; and
whether the attribute has one value at most.
"""

from holdfast.directory.dn import Rdn, rdn_key, rdn_text
from holdfast.directory.primitives import Name, NameValue, Value
from holdfast.directory.schema.schema import Schema


def attribute_of(schema: Schema, description: str) -> str:
    """What all descriptions of one attribute, with the same options, have in common."""
    return schema.describe(description).name.lower()


def is_single(schema: Schema, description: str) -> bool:
    return schema.describe(description).type.is_single_valued


def value_of(schema: Schema, description: str, content: bytes) -> Value:
    return Value(schema.describe(description).type.key(content, schema), content)


def name_of(schema: Schema, rdn: Rdn) -> Name:
    """The name, and the values that an entry of that name has."""
    values = tuple(
        NameValue(
            attribute_of(schema, each.attribute),
            value_of(schema, each.attribute, each.value),
            is_single(schema, each.attribute),
        )
        for each in rdn
    )
    return Name(rdn_key(rdn, schema), rdn_text(rdn), values)
