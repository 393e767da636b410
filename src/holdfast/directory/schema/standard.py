"""The schema that every directory begins with: what clients expect to be there."""

import re
from functools import cache
from typing import Final

from holdfast.directory.schema import core, cosine, inet_org_person, nis, operational
from holdfast.directory.schema.descriptions import parse_attribute, parse_class
from holdfast.directory.schema.schema import Schema
from holdfast.directory.syntaxes import SYNTAXES

_SHORT_NAMES: Final = {each.description.replace(" ", ""): each.oid for each in SYNTAXES.values()} | {
    "Integer": "1.3.6.1.4.1.1466.115.121.1.27",
}
"""What the tables beside this module write for the OIDs of syntaxes, so that people can read them."""

_SYNTAX: Final = re.compile(r"SYNTAX\s+([A-Za-z]\w*)")


@cache
def standard_schema() -> Schema:
    """Core, cosine, inetOrgPerson, NIS, and the operational attributes."""
    tables = (operational, core, cosine, inet_org_person, nis)
    return Schema(
        tuple(parse_attribute(text) for each in tables for text in _descriptions(each.ATTRIBUTES)),
        tuple(parse_class(text) for each in tables for text in _descriptions(each.CLASSES)),
    )


def _descriptions(table: str) -> list[str]:
    """The descriptions of a table, each of which begins at the start of a line."""
    whole = _SYNTAX.sub(lambda found: f"SYNTAX {_SHORT_NAMES[found[1]]}", table)
    return [" ".join(each.split()) for each in re.split(r"\n(?=\()", whole.strip())]
