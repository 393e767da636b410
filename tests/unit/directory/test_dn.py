"""Distinguished names: read, written, compared."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.directory.dn import (
    AVAS_MAX,
    DN_CHARS_MAX,
    RDNS_MAX,
    ROOT,
    Ava,
    Dn,
    InvalidDn,
    is_below,
    parse_rdn,
)
from holdfast.directory.results import ResultCode
from holdfast.directory.schema import standard_schema

SCHEMA = standard_schema()

avas = st.builds(
    Ava,
    st.sampled_from(["cn", "OU", "2.5.4.3", "x-y"]),
    st.binary(max_size=8) | st.text(max_size=8).map(str.encode),
)
rdns = st.lists(avas, min_size=1, max_size=3, unique_by=lambda ava: ava.attribute.lower()).map(tuple)
names = st.lists(rdns, max_size=4).map(tuple).map(Dn)


def key(text: str) -> bytes:
    return Dn.parse(text).key(SCHEMA)


@pytest.mark.parametrize(
    ("text", "rdns"),
    [
        # The examples of RFC 4514, section 4.
        (
            "UID=jsmith,DC=example,DC=net",
            ((Ava("UID", b"jsmith"),), (Ava("DC", b"example"),), (Ava("DC", b"net"),)),
        ),
        (
            "OU=Sales+CN=J.  Smith,DC=net",
            ((Ava("OU", b"Sales"), Ava("CN", b"J.  Smith")), (Ava("DC", b"net"),)),
        ),
        (
            r"CN=James \"Jim\" Smith\, III,DC=net",
            ((Ava("CN", b'James "Jim" Smith, III'),), (Ava("DC", b"net"),)),
        ),
        (r"CN=Before\0dAfter,DC=net", ((Ava("CN", b"Before\rAfter"),), (Ava("DC", b"net"),))),
        ("1.3.6.1.4.1.1466.0=#04024869", ((Ava("1.3.6.1.4.1.1466.0", b"Hi"),),)),
        (r"CN=Lu\C4\8Di\C4\87", ((Ava("CN", "Lučić".encode()),),)),
        # What clients write besides.
        (" cn = a b , dc = c ", ((Ava("cn", b"a b"),), (Ava("dc", b"c"),))),
        (r"cn=\ a\ ,dc=c", ((Ava("cn", b" a "),), (Ava("dc", b"c"),))),
        (r"cn=a\\ ,dc=c", ((Ava("cn", b"a\\"),), (Ava("dc", b"c"),))),
        ("cn=,dc=c", ((Ava("cn", b""),), (Ava("dc", b"c"),))),
        ("cn=a=b#c,dc=c", ((Ava("cn", b"a=b#c"),), (Ava("dc", b"c"),))),
        ("cn=#0C0161 + ou=x", ((Ava("cn", b"a"), Ava("ou", b"x")),)),
        ("", ()),
        ("  ", ()),
    ],
)
def test_names_are_read_as_the_standard_says(text: str, rdns: tuple[tuple[Ava, ...], ...]) -> None:
    assert Dn.parse(text) == Dn(rdns)


@given(names)
def test_every_name_is_read_back(name: Dn) -> None:
    assert Dn.parse(str(name)) == name


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (b" #x", r"\ #x"),
        (b"#x ", r"\#x\ "),
        (b" ", r"\ "),
        (b'a,b+c"d\\e<f>g;h', r"a\,b\+c\"d\\e\<f\>g\;h"),
        (b"\x00\n", r"\00\0a"),
        (b"\xff", "#0401ff"),
        ("é".encode(), "é"),
    ],
)
def test_values_are_escaped_where_they_must_be(value: bytes, written: str) -> None:
    assert str(Ava("cn", value)) == f"cn={written}"
    assert Dn.parse(f"cn={written}").rdn == (Ava("cn", value),)


@pytest.mark.parametrize(
    "wrong",
    [
        "cn",
        "=x",
        "cn=a,",
        ",cn=a",
        "cn=a,,dc=b",
        "1.=x",
        "cn x=y",
        "c_n=x",
        "cn=a;dc=b",
        'cn="a"',
        "cn=<a>",
        "cn=a\x00",
        r"cn=a\x",
        "cn=a\\",
        r"cn=\4",
        "cn=#",
        "cn=#0",
        "cn=#04",
        "cn=#0402ab",
        "cn=#0401abcd",
        "cn=#3000",
        "cn=#zz",
        "cn=a+",
        "cn=a+cn=b",
        "cn=a+CN=b",
        "cn=\ud800",
        "cn=\\41\ud800",
        "+",
        "cn=a+,dc=b",
        "#",
        "cn=#04820001",
    ],
)
def test_what_is_no_name_is_refused_with_one_line(wrong: str) -> None:
    with pytest.raises(InvalidDn) as caught:
        Dn.parse(wrong)
    assert caught.value.result == ResultCode.INVALID_DN_SYNTAX
    assert str(caught.value).isprintable()


def test_names_beyond_the_bounds_are_refused() -> None:
    assert len(Dn.parse(",".join(["cn=x"] * RDNS_MAX))) == RDNS_MAX
    for long in (
        "cn=" + "x" * DN_CHARS_MAX,
        ",".join(["cn=x"] * (RDNS_MAX + 1)),
        ",".join([r"cn=\41"] * (RDNS_MAX + 1)),
        "+".join(f"a{each}=x" for each in range(AVAS_MAX + 1)),
    ):
        with pytest.raises(InvalidDn) as caught:
            Dn.parse(long)
        assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (
            "UID=JSmith,DC=Example,DC=NET",
            "userid=jsmith , domainComponent=example, 0.9.2342.19200300.100.1.25=net",
        ),
        ("cn=J.  Smith+ou=Sales,dc=x", "OU=sales+CN= j. smith ,DC=X"),
        (r"cn=Stra\C3\9Fe", "cn=STRASSE"),
        ("cn=#04024869", "cn=hi"),
        ("nosuch=A B", "NoSuch=a  b"),
        ("", " "),
    ],
)
def test_equal_names_have_equal_keys(left: str, right: str) -> None:
    assert key(left) == key(right)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("cn=a,dc=b", "cn=a"),
        ("cn=a+ou=b", "cn=b+ou=a"),
        ("cn=a+ou=b", r"cn=a\+ou=b"),
        ("cn=ab", "cn=a b"),
        ("homeDirectory=/Home", "homeDirectory=/home"),
        (r"cn=a\,dc=b", "cn=a,dc=b"),
        ("userPassword=#040100", "userPassword=#04020203"),
        # Values that hold what parts the RDNs of a key, and the attributes of an RDN.
        ("cn=a,userPassword=x", r"userPassword=x\002.5.4.3=a"),
        ("cn=a+userPassword=x", r"userPassword=x\012.5.4.3=a"),
        ("userPassword=#0401ff", "userPassword=#0402ff00"),
    ],
)
def test_different_names_have_different_keys(left: str, right: str) -> None:
    assert key(left) != key(right)


def test_a_subtree_is_a_range_of_keys() -> None:
    suffix = key("dc=example,dc=com")
    assert is_below(key("cn=a,ou=b,dc=EXAMPLE,dc=com"), suffix)
    assert is_below(suffix, suffix)
    assert not is_below(key("dc=example2,dc=com"), suffix)
    assert not is_below(key("dc=com"), suffix)
    assert is_below(suffix, ROOT.key(SCHEMA))


@given(names, rdns)
def test_a_childs_key_begins_with_its_parents(name: Dn, rdn: tuple[Ava, ...]) -> None:
    child = name.child(rdn)
    assert child.parent == name
    assert child.rdn == rdn
    assert child.key(SCHEMA).startswith(name.key(SCHEMA))
    assert child.key(SCHEMA) != name.key(SCHEMA)


def test_one_rdn_is_one() -> None:
    assert parse_rdn("cn=a+sn=b") == (Ava("cn", b"a"), Ava("sn", b"b"))
    for wrong in ("", "cn=a,dc=b"):
        with pytest.raises(InvalidDn, match="one RDN"):
            parse_rdn(wrong)
