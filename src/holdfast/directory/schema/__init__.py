"""The schema: attribute types and object classes, what they inherit, and whether an entry keeps to them.

:mod:`.descriptions` reads and writes their text; :mod:`.schema` puts them together and looks them up;
:mod:`.checking` checks entries that clients write. :mod:`.standard` is what every directory begins with,
from the tables in :mod:`.operational`, :mod:`.core`, :mod:`.cosine`, :mod:`.inet_org_person` and
:mod:`.nis`.
"""

from holdfast.directory.schema.checking import check_entry, check_writable, violations
from holdfast.directory.schema.schema import AttributeType, Described, InvalidSchema, ObjectClass, Schema
from holdfast.directory.schema.standard import standard_schema

__all__ = [
    "AttributeType",
    "Described",
    "InvalidSchema",
    "ObjectClass",
    "Schema",
    "check_entry",
    "check_writable",
    "standard_schema",
    "violations",
]
