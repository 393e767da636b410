"""Matching rules, string preparation and syntaxes."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.directory.matching import (
    BY_NAME,
    RULES,
    NotComparable,
    integer_key,
    prepared_pieces,
    substring_assertion,
)
from holdfast.directory.schema import standard_schema
from holdfast.directory.string_preparation import comparable, piece, prepared, searchable
from holdfast.directory.syntaxes import SYNTAXES

SCHEMA = standard_schema()


def key(rule: str, value: str | bytes) -> bytes:
    return BY_NAME[rule.lower()].key(value if isinstance(value, bytes) else value.encode(), SCHEMA)


@pytest.mark.parametrize(
    ("rule", "left", "right"),
    [
        ("caseIgnoreMatch", " Foo   BAR ", "foo bar"),
        ("caseIgnoreMatch", "Straße", "STRASSE"),
        ("caseIgnoreMatch", "é", "É"),
        ("caseIgnoreMatch", "ﬁ", "FI"),
        ("caseIgnoreMatch", "a\u00a0b", "A b"),
        ("caseIgnoreMatch", "a\tb\nc", "a b c"),
        ("caseIgnoreMatch", "soft\u00adhyphen\u200b\x07", "softhyphen"),
        ("caseIgnoreMatch", "Ａ", "a"),
        ("caseIgnoreMatch", "😀 X", "😀  x"),
        ("caseExactMatch", " Foo  Bar", "Foo Bar"),
        ("caseIgnoreIA5Match", "A@B.c", "a@b.C"),
        ("caseIgnoreListMatch", "1 Main St.$Anytown", "1 MAIN st. $ ANYTOWN"),
        ("integerMatch", "0", "0"),
        ("numericStringMatch", "123 456", "123456"),
        ("telephoneNumberMatch", "+49 (30) 12-34", "+49(30)1234"),
        ("telephoneNumberMatch", "+1 x\u201012", "+1X12"),
        ("booleanMatch", "TRUE", "true"),
        ("generalizedTimeMatch", "20261117124500Z", "202611171245Z"),
        ("generalizedTimeMatch", "20261117134500+0100", "20261117124500.000Z"),
        ("generalizedTimeMatch", "2026111712.75Z", "202611171245Z"),
        ("generalizedTimeMatch", "2026111712,5+01", "202611171130Z"),
        ("generalizedTimeMatch", "202612312359.5-0030", "20270101002930Z"),
        ("objectIdentifierMatch", "CN", "2.5.4.3"),
        ("objectIdentifierMatch", "nosuch", "NoSuch"),
        ("objectIdentifierFirstComponentMatch", "( 2.5.4.3 NAME 'cn' SUP name )", "commonName"),
        ("distinguishedNameMatch", "CN=A b,DC=X", "commonName=a  B, dc=x"),
        ("uniqueMemberMatch", "cn=A#'01'B", "CN=a#'01'B"),
        ("UUIDMatch", "597AE2F6-16a6-1027-98f4-d28b5365dc14", "597ae2f6-16A6-1027-98F4-D28B5365DC14"),
        ("integerFirstComponentMatch", "( 12 NAME 'x' )", "12"),
    ],
)
def test_values_that_are_equal(rule: str, left: str, right: str) -> None:
    assert key(rule, left) == key(rule, right)


@pytest.mark.parametrize(
    ("rule", "left", "right"),
    [
        ("caseIgnoreMatch", "ab", "a b"),
        ("caseExactMatch", "Foo", "foo"),
        ("caseIgnoreListMatch", "a$b", "a b"),
        ("caseIgnoreListMatch", "a\\24b", "a$b"),
        ("integerMatch", "1", "-1"),
        ("octetStringMatch", "a", "A"),
        ("bitStringMatch", "'0'B", "'00'B"),
        ("uniqueMemberMatch", "cn=a#'01'B", "cn=a"),
        ("generalizedTimeMatch", "20261231235960Z", "20270101000000Z"),
        ("distinguishedNameMatch", "cn=a,cn=b", "cn=b,cn=a"),
    ],
)
def test_values_that_differ(rule: str, left: str, right: str) -> None:
    assert key(rule, left) != key(rule, right)


@pytest.mark.parametrize(
    ("rule", "wrong"),
    [
        ("caseIgnoreMatch", b"\xff"),
        ("caseIgnoreIA5Match", "é".encode()),
        ("integerMatch", b"01"),
        ("integerMatch", b""),
        ("integerMatch", b"1" * 5000),
        ("booleanMatch", b"yes"),
        ("generalizedTimeMatch", b"20261117"),
        ("generalizedTimeMatch", b"20261317124500Z"),
        ("generalizedTimeMatch", b"20261117124561Z"),
        ("generalizedTimeMatch", b"20261117124500"),
        ("generalizedTimeMatch", b"99991231235900-0100"),
        ("generalizedTimeMatch", b"00000101000000Z"),
        ("generalizedTimeMatch", b"20261117124500." + b"1" * 40 + b"Z"),
        ("generalizedTimeMatch", b"20261117124500+2400"),
        ("bitStringMatch", b"01"),
        ("UUIDMatch", b"x"),
        ("distinguishedNameMatch", b"x"),
        ("caseIgnoreListMatch", b"a\\b"),
        ("uniqueMemberMatch", b"x#'0'B"),
    ],
)
def test_values_that_a_rule_cannot_read(rule: str, wrong: bytes) -> None:
    with pytest.raises(NotComparable):
        key(rule, wrong)


@given(st.integers(), st.integers())
def test_integers_are_ordered_by_their_keys(left: int, right: int) -> None:
    assert (integer_key(left) < integer_key(right)) == (left < right)
    assert (integer_key(left) == integer_key(right)) == (left == right)


times = st.datetimes().map(lambda it: f"{it.year:04d}{it:%m%d%H%M%S.%f}Z")


@given(times, times)
def test_times_are_ordered_by_their_keys(left: str, right: str) -> None:
    assert (key("generalizedTimeOrderingMatch", left) < key("generalizedTimeOrderingMatch", right)) == (
        left < right
    )


@given(st.text(), st.booleans())
def test_preparing_a_text_again_changes_nothing(text: str, fold: bool) -> None:
    once = comparable(text, fold_case=fold)
    assert comparable(once, fold_case=fold) == once
    assert "  " not in once
    assert once == once.strip(" ")


@given(st.binary(max_size=20))
def test_every_value_has_a_key(value: bytes) -> None:
    """State that came from elsewhere can always be compared, whatever is in it."""
    for each in SCHEMA.attribute_types:
        assert isinstance(each.key(value, SCHEMA), bytes)


def test_keys_are_the_same_for_ever() -> None:
    """Masters with other versions of Python must agree: the tables are those of Unicode 3.2 and no newer."""
    table = "\x00".join(
        prepared(chr(each), fold_case=True) for each in range(0x10000) if not 0xD800 <= each < 0xE000
    )
    assert hashlib.sha256(table.encode()).hexdigest() == KEPT


def test_half_a_million_combining_characters_are_no_burden() -> None:
    """Putting them in order would take minutes if it were done at once."""
    marks = "a" + "\u0315\u0300" * 100_000
    assert len(comparable(marks, fold_case=True)) >= 199_000
    assert comparable("a\u0315\u0300", fold_case=True) == comparable("à\u0315", fold_case=True)


KEPT = "28f020b76bb740826b06978af7879e41ef2f87d1bceec981f748e803cad282fd"


@pytest.mark.parametrize(
    ("value", "pieces", "is_in"),
    [
        ("John Smith", ("john ", (), " smith"), True),
        ("John Smith", ("JOHN", (), "smith"), True),
        ("John Smith", ("john", (" ",), "smith"), True),
        ("John   Smith", (None, ("n s",), None), True),
        ("John Smith", (None, ("ns",), None), False),
        ("John Smith", ("smith", (), None), False),
        ("John Smith", (None, ("smith", "john"), None), False),
        ("aa", ("a", (), "a"), True),
        ("a", ("a", (), "a"), False),
        ("abab", (None, ("ab", "ab"), None), True),
        ("aba", ("ab", (), "ba"), False),
        ("Straße", (None, ("SS",), "e"), True),
        ("x", (" ", (), None), True),
    ],
)
def test_pieces_of_text(
    value: str, pieces: tuple[str | None, tuple[str, ...], str | None], is_in: bool
) -> None:
    rule = BY_NAME["caseignoresubstringsmatch"]
    initial, anywhere, final = pieces
    found = prepared_pieces(
        rule,
        None if initial is None else initial.encode(),
        tuple(each.encode() for each in anywhere),
        None if final is None else final.encode(),
    )
    assert found.are_in(rule.key(value.encode(), SCHEMA)) is is_in


def test_pieces_of_numbers_and_lists() -> None:
    phone = BY_NAME["telephonenumbersubstringsmatch"]
    assert prepared_pieces(phone, b"+49 3", (), b"4").are_in(phone.key(b"+49 30 12-34", SCHEMA))
    lines = BY_NAME["caseignorelistsubstringsmatch"]
    assert prepared_pieces(lines, None, (b"main st",), None).are_in(lines.key(b"1 Main  St$Town", SCHEMA))
    assert not prepared_pieces(lines, None, (b"st town",), None).are_in(lines.key(b"1 Main St$Town", SCHEMA))
    with pytest.raises(NotComparable):
        prepared_pieces(BY_NAME["integermatch"], b"1", (), None)


def test_forms_for_substrings_are_those_of_the_standard() -> None:
    """RFC 4518, 2.6.1."""
    assert searchable(" foo  bar ", fold_case=False) == " foo  bar "
    assert searchable("  ", fold_case=False) == "  "
    assert piece("foo ", fold_case=False, is_initial=True) == " foo "
    assert piece(" bar", fold_case=False, is_final=True) == " bar "
    assert piece("o b", fold_case=False) == "o  b"
    assert piece("   ", fold_case=False) == " "


def test_substring_assertions_as_text() -> None:
    assert substring_assertion(b"a*b**c") == (b"a", (b"b",), b"c")
    assert substring_assertion(rb"*\2a\5C*") == (None, (b"*\\",), None)
    with pytest.raises(NotComparable):
        substring_assertion(b"abc")


RIGHT = {
    "Boolean": [b"TRUE"],
    "Directory String": ["é".encode()],
    "IA5 String": [b"", b"a@b"],
    "INTEGER": [b"0", b"-5", b"12"],
    "Generalized Time": [b"20261117124500Z"],
    "DN": [b"", b"dc=x"],
    "OID": [b"cn", b"2.5.4.3"],
    "Bit String": [b"'01'B", b"''B"],
    "Numeric String": [b"1 2"],
    "Printable String": [b"a b?"],
    "Country String": [b"DE"],
    "Postal Address": [b"a$b\\24"],
    "Telephone Number": [b"+49 30 1"],
    "UUID": [b"597ae2f6-16a6-1027-98f4-d28b5365dc14"],
    "JPEG": [b"\xff\xd8x"],
    "Octet String": [b"", b"\xff"],
    "Name And Optional UID": [b"cn=a#'0'B", b"cn=a"],
    "UTC Time": [b"261117124500Z"],
    "RFC 2307 NIS netgroup triple": [b"(a,,)"],
    "Other Mailbox": [b"x$y"],
    "Attribute Type Description": [b"( 1.2 )"],
}
WRONG = {
    "Boolean": [b"true", b""],
    "Directory String": [b"", b"\xff"],
    "IA5 String": [b"\x80"],
    "INTEGER": [b"", b"-0", b"00", b"1 ", b"1.0"],
    "Generalized Time": [b"now", b"20261117Z", b"20260230000000Z"],
    "DN": [b"x", b"\xff"],
    "OID": [b"", b"1..2", b"a b"],
    "Bit String": [b"'02'B", b"01"],
    "Numeric String": [b"", b"a"],
    "Printable String": [b"", b"a@b"],
    "Country String": [b"D", b"DEU"],
    "Postal Address": [b"", b"a\\x"],
    "Telephone Number": [b"", "é".encode()],
    "UUID": [b"597ae2f616a6102798f4d28b5365dc14"],
    "JPEG": [b"GIF"],
    "Name And Optional UID": [b"x#'0'B"],
    "UTC Time": [b"x"],
    "RFC 2307 NIS netgroup triple": [b"(a,b)"],
    "Other Mailbox": [b"x"],
    "Attribute Type Description": [b"1.2"],
}


@pytest.mark.parametrize("name", RIGHT)
def test_syntaxes_know_their_values(name: str) -> None:
    syntax = next(each for each in SYNTAXES.values() if each.description == name)
    assert [value for value in RIGHT[name] if syntax.fault_in(value) is not None] == []
    assert [value for value in WRONG.get(name, []) if syntax.fault_in(value) is None] == []


def test_every_rule_has_a_syntax_that_is_listed() -> None:
    assert [each.name for each in RULES if each.syntax not in SYNTAXES] == []
