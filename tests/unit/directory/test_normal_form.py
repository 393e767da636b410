"""What the schema says of names and values goes into changes, and resolution needs no more."""

import pytest
from directory_world import SUFFIX, Master, built, entry_id

from holdfast.directory.dn import parse_rdn
from holdfast.directory.issuing import Operation
from holdfast.directory.normal_form import attribute_of, is_single, name_of, value_of
from holdfast.directory.primitives import ROOT
from holdfast.directory.results import DirectoryError
from holdfast.directory.schema import standard_schema

SCHEMA = standard_schema()
ENTRY = entry_id(20)


def name(text: str):
    return name_of(SCHEMA, parse_rdn(text))


def test_spellings_of_one_name_have_one_key() -> None:
    first, second = name("CN=Ann  Smith+sn=S"), name("2.5.4.4=s+commonName=ann smith")
    assert first.key == second.key
    assert first.text == "CN=Ann  Smith+sn=S"
    assert [each.attribute for each in first.values] == ["cn", "sn"]
    assert name("cn=ann").key != name("sn=ann").key


def test_spellings_of_one_attribute_and_value() -> None:
    assert attribute_of(SCHEMA, "commonName;LANG-de") == attribute_of(SCHEMA, "CN;lang-DE") == "cn;lang-de"
    assert value_of(SCHEMA, "mail", b"A@b").key == value_of(SCHEMA, "mail", b"a@B").key
    assert value_of(SCHEMA, "mail", b"A@b").content == b"A@b"
    assert is_single(SCHEMA, "dc")
    assert not is_single(SCHEMA, "cn")
    with pytest.raises(DirectoryError, match="no attribute"):
        value_of(SCHEMA, "nothing", b"")


def test_a_single_valued_naming_attribute_follows_the_name() -> None:
    """``dc`` has one value: to rename replaces it, and of two renames at once the value is the winner's."""

    def begin(ask: Operation) -> None:
        ask.add_entry(SUFFIX, ROOT, name("dc=top"))
        ask.add_entry(ENTRY, SUFFIX, name("dc=one"))

    a, b = Master(1), Master(2)
    begun = a.issue(begin)
    b.take(begun)
    renamed = [
        a.issue(lambda ask: ask.rename(ENTRY, name("dc=two"), remove_old=True)),
        b.issue(lambda ask: ask.rename(ENTRY, name("dc=three"), remove_old=True), later=1),
    ]
    assert a.view().entries[ENTRY] == (("dc=two", "dc=top"), {"dc": (b"two",)})
    assert not a.view().losses
    for order in (renamed, renamed[::-1]):
        both = built([begun, *order])
        assert both.view().entries[ENTRY] == (("dc=three", "dc=top"), {"dc": (b"three",)})
        assert sorted(kind for kind, *_ in both.view().losses) == ["rename", "value"]
