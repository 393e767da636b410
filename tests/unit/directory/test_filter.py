"""Search filters: as text, and what they mean for an entry."""

import pytest
from hypothesis import given, settings
from ldap_values import trees

from holdfast.directory.dn import Dn
from holdfast.directory.filters.evaluation import matcher, matches
from holdfast.directory.filters.filter import (
    DEPTH_MAX,
    PARTS_MAX,
    And,
    Approximate,
    Equality,
    Extensible,
    Filter,
    GreaterOrEqual,
    LessOrEqual,
    Not,
    Or,
    Present,
    Substrings,
)
from holdfast.directory.filters.text import FILTER_CHARS_MAX, InvalidFilter, filter_text, parse_filter
from holdfast.directory.schema import standard_schema
from holdfast.ldap.ber import Reader
from holdfast.ldap.filter_ber import read_filter, write_filter

SCHEMA = standard_schema()


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        # The examples of RFC 4515, section 4.
        ("(cn=Babs Jensen)", Equality("cn", b"Babs Jensen")),
        ("(!(cn=Tim Howes))", Not(Equality("cn", b"Tim Howes"))),
        (
            "(&(objectClass=Person)(|(sn=Jensen)(cn=Babs J*)))",
            And(
                (
                    Equality("objectClass", b"Person"),
                    Or((Equality("sn", b"Jensen"), Substrings("cn", b"Babs J"))),
                )
            ),
        ),
        ("(o=univ*of*mich*)", Substrings("o", b"univ", (b"of", b"mich"))),
        ("(seeAlso=)", Equality("seeAlso", b"")),
        ("(cn:caseExactMatch:=Fred Flintstone)", Extensible(b"Fred Flintstone", "caseExactMatch", "cn")),
        ("(cn:=Betty Rubble)", Extensible(b"Betty Rubble", None, "cn")),
        ("(sn:dn:2.4.6.8.10:=Barney Rubble)", Extensible(b"Barney Rubble", "2.4.6.8.10", "sn", in_dn=True)),
        ("(o:dn:=Ace Industry)", Extensible(b"Ace Industry", None, "o", in_dn=True)),
        ("(:1.2.3:=Wilma Flintstone)", Extensible(b"Wilma Flintstone", "1.2.3")),
        ("(:DN:2.4.6.8.10:=Dino)", Extensible(b"Dino", "2.4.6.8.10", None, in_dn=True)),
        (r"(o=Parens R Us \28for all your needs\29)", Equality("o", b"Parens R Us (for all your needs)")),
        (r"(cn=*\2A*)", Substrings("cn", None, (b"*",))),
        (r"(filename=C:\5cMyFile)", Equality("filename", b"C:\\MyFile")),
        (r"(bin=\00\00\00\04)", Equality("bin", b"\x00\x00\x00\x04")),
        (r"(sn=Lu\c4\8di\c4\87)", Equality("sn", "Lučić".encode())),
        (r"(1.3.6.1.4.1.1466.0=\04\02\48\69)", Equality("1.3.6.1.4.1.1466.0", b"\x04\x02Hi")),
        # Others.
        ("(cn=*)", Present("cn")),
        ("(&)", And(())),
        ("(|)", Or(())),
        ("(a>=1)", GreaterOrEqual("a", b"1")),
        ("(a<=1)", LessOrEqual("a", b"1")),
        ("(a~=1)", Approximate("a", b"1")),
        ("(a;lang-de=*b)", Substrings("a;lang-de", None, (), b"b")),
        ("uid=x", Equality("uid", b"x")),
        (" ( & (a=1) ( ! (b=2) ) ) ", And((Equality("a", b"1"), Not(Equality("b", b"2"))))),
    ],
)
def test_filters_are_read_as_the_standard_says(text: str, tree: Filter) -> None:
    assert parse_filter(text) == tree
    assert parse_filter(filter_text(tree)) == tree


@given(trees)
@settings(max_examples=60)
def test_every_filter_is_read_back_from_text_and_from_bytes(tree: Filter) -> None:
    assert parse_filter(filter_text(tree)) == tree
    assert read_filter(Reader(write_filter(tree))) == tree
    matcher(tree, SCHEMA)({"cn": [b"x"]}, Dn.parse("cn=x"))


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "(",
        ")",
        "()",
        "(cn)",
        "(cn=a",
        "cn=a)",
        "(cn=a)(sn=b)",
        "(&(cn=a)",
        "(!)",
        "(!(a=b)(c=d))",
        "(=a)",
        "(c n=a)",
        r"(cn=\)",
        r"(cn=\4)",
        r"(cn=\zz)",
        "(cn=a(b)",
        "(cn>=*)",
        "(cn~=a*b)",
        "(:=a)",
        "(:dn:=a)",
        "(cn>a)",
        "(cn=\x00)",
        "(cn=\ud800)",
        "(é=a)",
        "(&cn=a)",
    ],
)
def test_wrong_filters_are_refused_with_a_place(wrong: str) -> None:
    with pytest.raises(InvalidFilter) as caught:
        parse_filter(wrong)
    assert 0 <= caught.value.at <= len(wrong)
    assert str(caught.value).isprintable()


def test_filters_are_bounded() -> None:
    parse_filter("(!" * (DEPTH_MAX - 1) + "(a=*)" + ")" * (DEPTH_MAX - 1))
    for long in (
        "(!" * DEPTH_MAX + "(a=*)" + ")" * DEPTH_MAX,
        "(" * 100_000,
        "(&" * 100_000,
        "(|" + "(a=1)" * PARTS_MAX + ")",
        "(|" + "(a=1*2*3)" * (PARTS_MAX // 3) + ")",
        "(a=" + "x" * FILTER_CHARS_MAX + ")",
    ):
        with pytest.raises(InvalidFilter):
            parse_filter(long)


ENTRY: dict[str, list[bytes]] = {
    "objectClass": [b"inetOrgPerson"],
    "cn": [b"Ada Lovelace"],
    "sn;lang-en": [b"Lovelace"],
    "uidNumber": [b"1000"],
    "mail": [b"Ada@Example.com"],
    "telephoneNumber": [b"+44 20-1234"],
    "createTimestamp": [b"20261117124500Z"],
    "manager": [b"uid=Babbage, dc=Example"],
    "jpegPhoto": [b"\xff\xd8"],
    "userPassword": [b"x"],
    "description": [b"\xff"],  # not text: came from elsewhere
}
NAME = Dn.parse("uid=ada+cn=Ada Lovelace,ou=People,dc=example")


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("(cn=ada  LOVELACE)", True),
        ("(commonName=ada lovelace)", True),
        ("(name=ada lovelace)", True),  # a subtype
        ("(name;lang-en=lovelace)", True),
        ("(sn=lovelace)", True),  # options are passed over
        ("(sn;lang-fr=lovelace)", False),
        ("(cn=ada*)", True),
        ("(cn=*LOVE*ce)", True),
        ("(cn=*ada)", False),
        ("(cn~=ada lovelace)", True),
        ("(cn=*)", True),
        ("(givenName=*)", False),
        ("(nosuch=*)", None),
        ("(nosuch=x)", None),
        ("(!(nosuch=x))", None),
        ("(&(cn=*)(nosuch=x))", None),
        ("(&(cn=nobody)(nosuch=x))", False),
        ("(|(cn=*)(nosuch=x))", True),
        ("(|(cn=nobody)(nosuch=x))", None),
        ("(&)", True),
        ("(|)", False),
        ("(!(cn=bob))", True),
        ("(uidNumber=1000)", True),
        ("(uidNumber>=999)", True),
        ("(uidNumber<=999)", False),
        ("(uidNumber>=1000)", True),
        ("(uidNumber<=1000)", True),
        ("(uidNumber>=many)", None),
        ("(uidNumber=0x3e8)", None),
        ("(uidNumber=10*)", None),  # no rule for substrings
        ("(cn>=a)", None),  # no rule for order
        ("(createTimestamp>=20261117)", None),
        ("(createTimestamp>=20261117134500+0100)", True),
        ("(createTimestamp<=20261117124459Z)", False),
        ("(mail=ada@example.COM)", True),
        ("(telephoneNumber=+4420 1234)", True),
        ("(telephoneNumber=*1234)", True),
        ("(manager=UID=babbage,DC=example)", True),
        ("(manager=babbage)", None),
        ("(objectClass=person)", True),  # what a class descends from
        ("(objectClass=2.5.6.6)", True),
        ("(objectClass=top)", True),
        ("(objectClass=device)", False),
        ("(objectClass=nosuch)", False),
        ("(jpegPhoto=x)", None),  # no rule for equality
        ("(description=x)", False),  # what cannot be read does not match
        ("(!(description=x))", True),
        ("(cn:=ada lovelace)", True),
        ("(cn:caseExactMatch:=ada lovelace)", False),
        ("(cn:caseExactMatch:=Ada Lovelace)", True),
        ("(cn:2.5.13.5:=Ada Lovelace)", True),
        ("(cn:caseExactSubstringsMatch:=Ada*)", True),
        ("(cn:caseIgnoreOrderingMatch:=b)", True),  # it comes earlier
        ("(cn:integerMatch:=1)", None),
        ("(cn:nosuchMatch:=1)", None),
        ("(nosuch:caseExactMatch:=1)", None),
        ("(:caseIgnoreMatch:=lovelace)", True),
        ("(:caseIgnoreMatch:=people)", False),
        ("(:dn:caseIgnoreMatch:=people)", True),
        ("(ou:dn:=people)", True),
        ("(ou:=people)", False),
        ("(:integerMatch:=1000)", True),
        ("(jpegPhoto:=x)", None),
        ("(jpegPhoto:octetStringMatch:=\\ff\\d8)", True),
        ("(:caseIgnoreSubstringsMatch:=nothing)", None),
    ],
)
def test_what_a_filter_means_for_an_entry(text: str, verdict: bool | None) -> None:
    assert matches(parse_filter(text), ENTRY, SCHEMA, NAME) is verdict
