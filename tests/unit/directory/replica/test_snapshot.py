"""The suffix: which names are below it, and their keys, however they are written."""

import pytest

from holdfast.directory.dn import Dn
from holdfast.directory.replica.snapshot import Suffix
from holdfast.directory.schema.standard import standard_schema

SCHEMA = standard_schema()
SUFFIX = Suffix("dc=example,dc=com", SCHEMA)


@pytest.mark.parametrize(
    ("text", "is_covered"),
    [
        ("dc=example,dc=com", True),
        ("uid=ada,ou=people,dc=example,dc=com", True),
        ("uid=ada,ou=people,DC=Example,0.9.2342.19200300.100.1.25=COM", True),
        ("ou=people,dc=example,dc=org", False),
        ("dc=com", False),
        ("", False),
    ],
)
def test_names_are_compared_by_what_they_mean(text: str, is_covered: bool) -> None:
    """A name that ends as the suffix is written takes a shorter way to the same key."""
    dn = Dn.parse(text)
    assert SUFFIX.covers(dn, SCHEMA) is is_covered
    assert SUFFIX.key_of(dn, SCHEMA) == dn.key(SCHEMA)
    assert SUFFIX.key_of(dn, SCHEMA).startswith(SUFFIX.key) is is_covered
