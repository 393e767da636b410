"""The schema: descriptions, inheritance, and what an entry must keep to."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.directory.dn import parse_rdn
from holdfast.directory.matching import NotComparable
from holdfast.directory.results import DirectoryError, ResultCode
from holdfast.directory.schema import (
    InvalidSchema,
    Schema,
    check_entry,
    check_writable,
    standard_schema,
    violations,
)
from holdfast.directory.schema.checking import classes_of, structural_class
from holdfast.directory.schema.descriptions import (
    AttributeTypeDescription,
    ClassKind,
    InvalidDescription,
    MatchingRuleUseDescription,
    ObjectClassDescription,
    SyntaxDescription,
    Usage,
    parse_attribute,
    parse_class,
    parse_rule,
    parse_rule_use,
    parse_syntax,
)
from holdfast.directory.schema.schema import KEY_BYTES_MAX

SCHEMA = standard_schema()
TEXT = "1.3.6.1.4.1.1466.115.121.1.15"

oids = st.from_regex(r"[012](\.[1-9][0-9]{0,3}){1,4}", fullmatch=True)
words = st.from_regex(r"[a-zA-Z][a-zA-Z0-9-]{0,8}", fullmatch=True)
some_words = st.lists(words, max_size=3).map(tuple)
texts = st.text(st.characters(exclude_characters="\r\n", exclude_categories=("Cs",)), max_size=20)
extensions = st.dictionaries(
    st.from_regex(r"X-[A-Z-]{1,5}", fullmatch=True),
    st.lists(texts, min_size=1, max_size=2).map(tuple),
    max_size=2,
)


@settings(max_examples=40)
@given(
    st.builds(
        AttributeTypeDescription,
        oids,
        some_words,
        texts,
        st.booleans(),
        words,
        st.none() | words,
        st.none() | words,
        st.none() | words,
        st.just(TEXT),
        st.none() | st.integers(0, 99_999),
        st.booleans(),
        st.booleans(),
        st.booleans(),
        st.sampled_from(Usage),
        extensions,
    )
)
def test_attribute_descriptions_are_read_back(description: AttributeTypeDescription) -> None:
    assert parse_attribute(str(description)) == description


@settings(max_examples=40)
@given(
    st.builds(
        ObjectClassDescription,
        oids,
        some_words,
        texts,
        st.booleans(),
        some_words,
        st.sampled_from(ClassKind),
        some_words,
        some_words,
        extensions,
    )
)
def test_class_descriptions_are_read_back(description: ObjectClassDescription) -> None:
    assert parse_class(str(description)) == description


def test_the_examples_of_the_standard() -> None:
    """RFC 4512, 4519, 4517."""
    cn = parse_attribute("( 2.5.4.3 NAME 'cn' SUP name )")
    assert (cn.oid, cn.names, cn.superior, cn.syntax) == ("2.5.4.3", ("cn",), "name", None)
    many = (
        "(2.5.18.1 NAME 'createTimestamp'\n EQUALITY generalizedTimeMatch SYNTAX 1.2.3{64} "
        "NO-USER-MODIFICATION SINGLE-VALUE USAGE directoryOperation)"
    )
    assert str(parse_attribute(many)) == (
        "( 2.5.18.1 NAME 'createTimestamp' EQUALITY generalizedTimeMatch SYNTAX 1.2.3{64} SINGLE-VALUE "
        "NO-USER-MODIFICATION USAGE directoryOperation )"
    )
    person = parse_class(
        "( 2.5.6.6 NAME 'person' SUP top STRUCTURAL MUST ( sn $ cn ) MAY ( userPassword $ seeAlso ) )"
    )
    assert (person.must, person.may, person.kind) == (
        ("sn", "cn"),
        ("userPassword", "seeAlso"),
        ClassKind.STRUCTURAL,
    )
    quote = parse_syntax(r"( 1.2.3 DESC 'it\27s a \5C' X-NOT-HUMAN-READABLE 'TRUE' )")
    assert quote == SyntaxDescription("1.2.3", "it's a \\", {"X-NOT-HUMAN-READABLE": ("TRUE",)})
    use = parse_rule_use("( 2.5.13.16 APPLIES ( givenName $ surname ) )")
    assert use == MatchingRuleUseDescription("2.5.13.16", (), ("givenName", "surname"))
    rule = parse_rule("( 2.5.13.2 NAME 'caseIgnoreMatch' SYNTAX 1.2.3 )")
    assert (rule.names, rule.syntax) == (("caseIgnoreMatch",), "1.2.3")


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "2.5.4.3",
        "( )",
        "( 2.5.4.3",
        "( 2.5.4.3 SUP name ) x",
        "( 2.5.4.3 SUP name NAME cn )",
        "( 2.5.4.3 SUP name NAME 'c_n' )",
        "( 2.5.4.3 SUP name SUP name )",
        "( 2.5.4.3 SUP name DESC 'x )",
        "( 2.5.4.3 SUP name COLOUR 'red' )",
        "( 2.5.4.3 SUP name USAGE never )",
        "( 2.5.4.3 NAME 'cn' )",
        "( 2.5.4.3 SYNTAX text )",
        "( 2..4 SUP name )",
        "( 2.5.4.3 SUP name X-Y )",
        "( 2.5.4.3 SUP name X-Y ( 'a' )",
        "( 2.5.4.3 DESC '" + "x" * 40_000 + "' )",
        "(" * 30_000,
    ],
)
def test_wrong_descriptions_are_refused(wrong: str) -> None:
    with pytest.raises(InvalidDescription) as caught:
        parse_attribute(wrong)
    assert len(str(caught.value)) < 400


def test_classes_have_one_kind() -> None:
    with pytest.raises(InvalidDescription, match="several"):
        parse_class("( 1.2 ABSTRACT AUXILIARY )")


# --- putting together


def test_attributes_inherit() -> None:
    cn = SCHEMA.find_attribute("CommonName")
    assert cn is not None
    assert cn is SCHEMA.find_attribute("2.5.4.3")
    assert cn.name == "cn"
    assert cn.equality is not None
    assert cn.equality.name == "caseIgnoreMatch"
    assert cn.substrings is not None
    assert cn.syntax.oid == TEXT
    country = SCHEMA.describe("c").type
    assert country.syntax.description == "Country String"
    assert country.equality is cn.equality
    assert cn.lineage == ("2.5.4.3", "2.5.4.41")


def test_classes_inherit() -> None:
    person = SCHEMA.find_class("inetorgperson")
    assert person is not None
    assert {"2.5.4.3", "2.5.4.4", "2.5.4.0"} <= person.must
    assert SCHEMA.describe("telephoneNumber").type.oid in person.may
    assert [SCHEMA.find_class(each).name for each in person.lineage] == [  # type: ignore[union-attr]  # all are there
        "inetOrgPerson",
        "organizationalPerson",
        "person",
        "top",
    ]


@pytest.mark.parametrize(
    ("attributes", "classes", "problem"),
    [
        (["( 1.2 NAME 'a' SUP nosuch )"], [], "does not exist"),
        (["( 1.2 NAME 'a' SUP b )", "( 1.3 NAME 'b' SUP a )"], [], "in turn"),
        (["( 1.2 NAME 'a' SYNTAX 1.2.3 )"], [], "syntax"),
        ([f"( 1.2 NAME 'a' EQUALITY nosuchMatch SYNTAX {TEXT} )"], [], "equality rule"),
        ([f"( 1.2 NAME 'a' EQUALITY caseIgnoreOrderingMatch SYNTAX {TEXT} )"], [], "equality rule"),
        ([f"( 1.2 NAME 'CN' SYNTAX {TEXT} )"], [], "two attribute"),
        ([f"( 2.5.4.3 NAME 'x' SYNTAX {TEXT} )"], [], "two attribute"),
        ([], ["( 1.2 NAME 'k' SUP nosuch )"], "does not exist"),
        ([], ["( 1.2 NAME 'k' SUP l )", "( 1.3 NAME 'l' SUP k )"], "in turn"),
        ([], ["( 1.2 NAME 'k' MUST nosuch )"], "unknown"),
    ],
)
def test_a_schema_that_does_not_fit_together_is_refused(
    attributes: list[str], classes: list[str], problem: str
) -> None:
    with pytest.raises(InvalidSchema, match=problem):
        SCHEMA.extended_with(map(parse_attribute, attributes), map(parse_class, classes))


def test_a_schema_can_be_extended() -> None:
    schema = SCHEMA.extended_with(
        [parse_attribute("( 1.2.3.1 NAME 'badge' SUP name SINGLE-VALUE )")],
        [parse_class("( 1.2.3.2 NAME 'wearer' SUP top AUXILIARY MUST badge )")],
    )
    check_entry(schema, {"objectClass": [b"device", b"wearer"], "cn": [b"x"], "badge": [b"7"]})
    assert SCHEMA.find_attribute("badge") is None
    assert str(schema.attributes[-1]) in schema.subschema()["attributeTypes"]


def test_descriptions_with_options() -> None:
    german = SCHEMA.describe("description;LANG-de;x-1")
    assert german.name == "description;lang-de;x-1"
    assert german == SCHEMA.describe("2.5.4.13;x-1;lang-de")
    assert SCHEMA.describe("description").covers(german)
    assert SCHEMA.describe("description;x-1").covers(german)
    assert not german.covers(SCHEMA.describe("description"))
    assert SCHEMA.describe("name").covers(SCHEMA.describe("cn;lang-fr"))
    assert not SCHEMA.describe("cn").covers(SCHEMA.describe("name"))
    for wrong in ("nosuch", "cn;", "cn;a_b", "", "cn" + ";x" * 17, "cn;é"):
        with pytest.raises(DirectoryError) as caught:
            SCHEMA.describe(wrong)
        assert caught.value.result == ResultCode.UNDEFINED_ATTRIBUTE_TYPE


def test_spellings_are_remembered_within_a_bound() -> None:
    for each in range(10_000):
        SCHEMA.describe(f"cn;x-{each}")
    assert SCHEMA.describe("cn;x-1").name == "cn;x-1"


# --- entries

ENTRY: dict[str, list[bytes]] = {
    "objectClass": [b"top", b"inetOrgPerson", b"posixAccount"],
    "cn": [b"Ada", b"Ada Lovelace"],
    "sn": [b"Lovelace"],
    "uid": [b"ada"],
    "uidNumber": [b"1000"],
    "gidNumber": [b"1000"],
    "homeDirectory": [b"/home/ada"],
    "description;lang-de": [b"Mathematikerin"],
    "entryUUID": [b"597ae2f6-16a6-1027-98f4-d28b5365dc14"],
}


def test_an_entry_that_keeps_to_the_schema() -> None:
    check_entry(SCHEMA, ENTRY, rdn=parse_rdn("userid=ADA+cn=ada  lovelace"))


@pytest.mark.parametrize(
    ("change", "rdn", "result", "says"),
    [
        ({"nosuch": [b"x"]}, "uid=ada", ResultCode.UNDEFINED_ATTRIBUTE_TYPE, "nosuch"),
        ({"commonName": [b"x"]}, "uid=ada", ResultCode.ATTRIBUTE_OR_VALUE_EXISTS, "two spellings"),
        ({"cn": [b"Ada", b" ada "]}, "uid=ada", ResultCode.ATTRIBUTE_OR_VALUE_EXISTS, "twice"),
        ({"mail": []}, "uid=ada", ResultCode.CONSTRAINT_VIOLATION, "no value"),
        ({"uidNumber": [b"1", b"2"]}, "uid=ada", ResultCode.CONSTRAINT_VIOLATION, "one value only"),
        ({"uidNumber": [b"x"]}, "uid=ada", ResultCode.INVALID_ATTRIBUTE_SYNTAX, "integer"),
        ({"mail": ["é".encode()]}, "uid=ada", ResultCode.INVALID_ATTRIBUTE_SYNTAX, "ASCII"),
        ({"host": [b"x"]}, "uid=ada", ResultCode.OBJECT_CLASS_VIOLATION, "host"),
        ({"sn": None}, "uid=ada", ResultCode.OBJECT_CLASS_VIOLATION, "sn"),
        ({"objectClass": None}, "uid=ada", ResultCode.OBJECT_CLASS_VIOLATION, "no objectClass"),
        ({"objectClass": [b"nosuch"]}, "uid=ada", ResultCode.OBJECT_CLASS_VIOLATION, "nosuch"),
        (
            {"objectClass": [b"top", b"posixAccount"]},
            "uid=ada",
            ResultCode.OBJECT_CLASS_VIOLATION,
            "no structural",
        ),
        ({"objectClass": [b"person", b"device"]}, "uid=ada", ResultCode.OBJECT_CLASS_VIOLATION, "descend"),
        ({}, "uid=bob", ResultCode.NAMING_VIOLATION, "uid=bob"),
        ({}, "mail=x", ResultCode.NAMING_VIOLATION, "mail=x"),
        ({}, "nosuch=x", ResultCode.UNDEFINED_ATTRIBUTE_TYPE, "nosuch"),
        ({"jpegPhoto": [b"\xff\xd8"]}, "jpegPhoto=#0402ffd8", ResultCode.NAMING_VIOLATION, "no equality"),
    ],
)
def test_what_is_wrong_is_said(
    change: dict[str, list[bytes] | None], rdn: str, result: ResultCode, says: str
) -> None:
    entry = {name: values for name, values in {**ENTRY, **change}.items() if values is not None}
    found = list(violations(SCHEMA, entry, rdn=parse_rdn(rdn)))
    assert any(each.result == result and says in each.diagnostic for each in found), found
    with pytest.raises(DirectoryError) as caught:
        check_entry(SCHEMA, entry, rdn=parse_rdn(rdn))
    assert caught.value.diagnostic == found[0].diagnostic


def test_what_the_server_sets_is_refused_to_clients() -> None:
    check_writable(SCHEMA, ["cn", "description;lang-de", "objectClass"])
    for each in ("createTimestamp", "entryUUID", "2.5.18.4", "lastModifiedCSN"):
        with pytest.raises(DirectoryError, match="server alone") as caught:
            check_writable(SCHEMA, ["cn", each])
        assert caught.value.result == ResultCode.CONSTRAINT_VIOLATION


def test_keys_of_long_values_are_short_and_differ() -> None:
    photo = SCHEMA.describe("jpegPhoto").type
    keys = {photo.key(b"x" * size, SCHEMA) for size in range(240, 300)}
    assert len(keys) == 60
    assert max(map(len, keys)) <= KEY_BYTES_MAX + 1
    long = photo.key(b"x" * 1000, SCHEMA)
    assert photo.key(long, SCHEMA) != long  # nobody can write the cut key of another value
    name = SCHEMA.describe("cn").type
    assert name.key(b"A  " * 1000, SCHEMA) == name.key(b"a " * 1000, SCHEMA)
    assert name.assertion_key(b"A" * 1000, SCHEMA) == name.key(b"a" * 1000, SCHEMA)
    with pytest.raises(NotComparable):
        name.assertion_key(b"\xff", SCHEMA)


def test_an_extensible_object_may_have_anything() -> None:
    check_entry(SCHEMA, {"objectClass": [b"device", b"extensibleObject"], "cn": [b"x"], "host": [b"h"]})


def test_a_subtype_satisfies_what_must_be_there() -> None:
    schema = SCHEMA.extended_with(
        classes=[parse_class("( 1.2.3 NAME 'named' SUP top STRUCTURAL MUST name MAY cn )")]
    )
    check_entry(schema, {"objectClass": [b"named"], "cn": [b"x"]})


def test_the_structural_class() -> None:
    classes, unknown = classes_of(SCHEMA, [b"person", b"INETORGPERSON", b"posixAccount", b"nosuch", b"\xff"])
    assert unknown == ["nosuch", "\ufffd"]
    found = structural_class(classes)
    assert found is not None
    assert found.name == "inetOrgPerson"


def test_what_every_directory_begins_with() -> None:
    """The attributes and classes that clients ask for by name."""
    assert [each for each in ATTRIBUTES.split() if SCHEMA.find_attribute(each) is None] == []
    assert [each for each in CLASSES.split() if SCHEMA.find_class(each) is None] == []


ATTRIBUTES = """
objectClass entryUUID entryDN createTimestamp modifyTimestamp creatorsName modifiersName
subschemaSubentry hasSubordinates numSubordinates structuralObjectClass namingContexts
supportedControl supportedExtension supportedFeatures supportedLDAPVersion supportedSASLMechanisms
vendorName vendorVersion lastModifiedCSN attributeTypes objectClasses matchingRules ldapSyntaxes dc
o ou cn sn uid mail member uniqueMember memberUid userPassword jpegPhoto telephoneNumber
userCertificate labeledURI ref aliasedObjectName
"""
CLASSES = """
top person organizationalPerson inetOrgPerson organization organizationalUnit dcObject domain
groupOfNames groupOfUniqueNames posixAccount posixGroup shadowAccount account simpleSecurityObject
alias referral extensibleObject subschema locality country device applicationProcess
organizationalRole
"""


def test_a_schema_of_nothing() -> None:
    empty = Schema((), ())
    assert empty.find("cn") is None
    assert empty.naming_key("CN", b"\xff") == ("cn", b"\xff\xff")
