"""Debian's ldap-utils against the door."""

import pytest
from ldap_door import ADMIN, PASSWORD, PEOPLE, SUFFIX, Door

from holdfast.ldap.controls import ACKNOWLEDGE

ADA = f"uid=ada,{PEOPLE}"


def dns(output: str) -> list[str]:
    return [line.removeprefix("dn: ") for line in output.splitlines() if line.startswith("dn: ")]


def found(door: Door, *arguments: str) -> list[str]:
    return dns(door.run("ldapsearch", "-x", "-LLL", "-o", "ldif-wrap=no", "-b", SUFFIX, *arguments))


@pytest.mark.covers("CSN-94", "CSN-97", "CSN-103", "CSN-105")
def test_the_example_tree_answers(door: Door) -> None:
    """ldapadd has loaded the source's tree; each name is one entry, with all its attributes and values."""
    names = found(door)
    assert sorted(names) == sorted(
        [
            SUFFIX,
            f"cn=admin,{SUFFIX}",
            f"cn=engineers,{SUFFIX}",
            PEOPLE,
            ADA,
            f"uid=bob,{PEOPLE}",
            f"ou=servers,{SUFFIX}",
            f"cn=mail,ou=servers,{SUFFIX}",
        ]
    )
    assert names.index(SUFFIX) < names.index(PEOPLE) < names.index(ADA)
    assert found(door, "-b", ADA, "-s", "base") == [ADA]
    assert found(door, "-b", PEOPLE, "-s", "one") == [ADA, f"uid=bob,{PEOPLE}"]
    assert found(door, "-b", PEOPLE, "-s", "children") == [ADA, f"uid=bob,{PEOPLE}"]
    shown = door.run("ldapsearch", "-x", "-LLL", "-b", SUFFIX, "(uid=ada)")
    assert "telephoneNumber: 555-1212" in shown
    assert "userPassword" not in shown
    group = door.run("ldapsearch", "-x", "-LLL", "-b", SUFFIX, "(cn=engineers)", "member")
    assert group.count("member: ") == 2
    again = f"dn: UID=Ada, {PEOPLE}\nobjectClass: inetOrgPerson\nuid: ada\ncn: Another\nsn: A\n"
    door.as_admin("ldapadd", given=again, ok=(68,))
    assert found(door, "(cn=Another)") == [], "a name is one entry's, however it is spelled"


@pytest.mark.parametrize(
    ("filter_", "names"),
    [
        ("(&(objectClass=person)(!(uid=bob)))", [ADA]),
        ("(|(sn=love*)(mail=*@nowhere))", [ADA]),
        ("(cn=*LOVE*)", [ADA]),
        ("(&(uid=ada)(createTimestamp>=20200101000000Z))", [ADA]),
        ("(&(uid=ada)(createTimestamp<=20200101000000Z))", []),
        ("(sn>=N)", []),
        ("(telephoneNumber=5551212)", [ADA]),
        ("(cn:caseExactMatch:=Ada Lovelace)", [ADA]),
        ("(cn:caseExactMatch:=ada lovelace)", []),
        ("(ou:dn:=servers)", [f"ou=servers,{SUFFIX}", f"cn=mail,ou=servers,{SUFFIX}"]),
        ("(member=uid=ADA,ou=People,dc=example,dc=com)", [f"cn=engineers,{SUFFIX}"]),
        ("(nonsense=x)", []),
        ("(!(nonsense=x))", []),
        ("(userPassword=*)", []),
        ("(&)", None),
    ],
)
def test_filters(door: Door, filter_: str, names: list[str] | None) -> None:
    """Filters of RFC 4515 find what they say; what is secret cannot be searched for."""
    assert found(door, filter_) == (found(door) if names is None else names)


@pytest.mark.covers("CSN-96", "CSN-98")
def test_changes(door: Door) -> None:
    """Add, modify, rename, move, compare and delete; each has a CSN, and the entry's id stays."""
    dn = f"uid=eve,{PEOPLE}"
    csns = []

    def look(name: str) -> str:
        shown = door.as_admin(
            "ldapsearch",
            "-LLL",
            "-b",
            name,
            "-s",
            "base",
            "(objectClass=*)",
            "*",
            "entryUUID",
            "lastModifiedCSN",
        )
        csns.append(next(line for line in shown.splitlines() if line.startswith("lastModifiedCSN: ")))
        return next(line for line in shown.splitlines() if line.startswith("entryUUID: "))

    door.as_admin("ldapadd", given=f"dn: {dn}\nobjectClass: inetOrgPerson\nuid: eve\ncn: Eve\nsn: E\n")
    entry = look(dn)
    door.as_admin(
        "ldapmodify",
        given=f"dn: {dn}\nchangetype: modify\nadd: mail\nmail: eve@x\n-\nreplace: sn\nsn: Evening\n-\n"
        "add: employeeNumber\nemployeeNumber: 7\n",
    )
    assert look(dn) == entry
    door.as_admin("ldapmodrdn", "-r", dn, "uid=ada", ok=(68,))
    door.as_admin("ldapmodrdn", dn, "uid=evelyn")
    assert look(f"uid=evelyn,{PEOPLE}") == entry
    assert found(door, "(uid=eve)") == [f"uid=evelyn,{PEOPLE}"], "the old name is kept as a value"
    door.as_admin("ldapmodrdn", "-r", f"uid=evelyn,{PEOPLE}", "uid=eva")
    assert found(door, "(uid=evelyn)") == [], "the old name goes if that is asked for"
    door.as_admin("ldapmodrdn", "-r", f"uid=eva,{PEOPLE}", "uid=evelyn")
    assert look(f"uid=evelyn,{PEOPLE}") == entry
    door.as_admin("ldapmodrdn", "-r", "-s", f"ou=servers,{SUFFIX}", f"uid=evelyn,{PEOPLE}", "uid=eve")
    moved = f"uid=eve,ou=servers,{SUFFIX}"
    assert look(moved) == entry
    assert csns == sorted(set(csns))
    assert "TRUE" in door.as_admin("ldapcompare", moved, "sn:EVENING", ok=(6,))
    assert "FALSE" in door.as_admin("ldapcompare", moved, "sn:morning", ok=(5,))
    door.as_admin("ldapdelete", moved)
    assert found(door, "(uid=eve)") == []
    assert "No such object" in door.as_admin("ldapdelete", moved, ok=(32,))


@pytest.mark.covers("CSN-104")
def test_the_schema_is_kept(door: Door) -> None:
    """What a client writes must be of known classes and attributes, with what they demand."""
    lacking = f"dn: uid=x,{PEOPLE}\nobjectClass: inetOrgPerson\nuid: x\ncn: x\n"
    assert "sn" in door.as_admin("ldapadd", given=lacking, ok=(65,))
    unknown = f"dn: {ADA}\nchangetype: modify\nadd: shoeSize\nshoeSize: 38\n"
    door.as_admin("ldapmodify", given=unknown, ok=(17,))
    syntax = f"dn: {ADA}\nchangetype: modify\nadd: seeAlso\nseeAlso: no name\n"
    door.as_admin("ldapmodify", given=syntax, ok=(21,))
    other = f"dn: {ADA}\nchangetype: modify\nadd: homeDirectory\nhomeDirectory: /\n"
    assert "homeDirectory" in door.as_admin("ldapmodify", given=other, ok=(65,)), "no class of hers has it"
    two = f"{lacking}sn: x\ndisplayName: a\ndisplayName: b\n"
    assert "one value" in door.as_admin("ldapadd", given=two, ok=(19,))
    own = f"dn: {ADA}\nchangetype: modify\nreplace: entryUUID\nentryUUID: x\n"
    door.as_admin("ldapmodify", given=own, ok=(19,))
    assert found(door, "-b", ADA, "(shoeSize=38)") == []


def test_pages_and_order(door: Door) -> None:
    """Pages go over one snapshot: what is added meanwhile is not among them, nothing is there twice."""
    people = "".join(
        f"dn: uid=p{i:02},{PEOPLE}\nobjectClass: inetOrgPerson\nuid: p{i:02}\ncn: p\nsn: {99 - i}\n\n"
        for i in range(25)
    )
    door.as_admin("ldapadd", given=people)
    names = found(door, "-E", "pr=7/noprompt", "(uid=p*)")
    assert sorted(names) == [f"uid=p{i:02},{PEOPLE}" for i in range(25)]
    assert found(door, "-E", "sss=sn", "(uid=p*)") == [f"uid=p{i:02},{PEOPLE}" for i in reversed(range(25))]
    both = found(door, "-E", "sss=-uid", "-E", "pr=4/noprompt", "(uid=p*)")
    assert both == [f"uid=p{i:02},{PEOPLE}" for i in reversed(range(25))]
    assert len(dns(door.run("ldapsearch", "-x", "-LLL", "-z", "3", "-b", SUFFIX, "(uid=p*)", ok=(4,)))) == 3


@pytest.mark.covers("CSN-99", "CSN-106")
def test_who_may_what(door: Door) -> None:
    """Whoever has bound is who they say; administrators write, persons change their own password."""
    assert "anonymous" in door.run("ldapwhoami", "-x")
    assert ADMIN in door.as_admin("ldapwhoami")
    assert "Invalid credentials" in door.run("ldapwhoami", "-x", "-D", ADMIN, "-w", "wrong", ok=(49,))
    assert "Invalid credentials" in door.run("ldapwhoami", "-x", "-D", "uid=no,dc=x", "-w", "wrong", ok=(49,))
    bob = f"uid=bob,{PEOPLE}"
    as_bob = ("-x", "-D", bob, "-w", "silicon")
    own = f"dn: {bob}\nchangetype: modify\nreplace: sn\nsn: X\n"
    door.run("ldapmodify", *as_bob, given=own, ok=(50,))
    door.run("ldapmodify", "-x", given=own, ok=(50,))
    door.run("ldapdelete", *as_bob, ADA, ok=(50,))
    door.run("ldappasswd", *as_bob, "-s", "germanium", ADA, ok=(1,))
    door.run("ldappasswd", *as_bob, "-a", "wrong", "-s", "germanium", ok=(1,))
    door.run("ldappasswd", *as_bob, "-a", "silicon", "-s", "germanium")
    door.run("ldapwhoami", *as_bob, ok=(49,))
    assert bob in door.run("ldapwhoami", "-x", "-D", bob, "-w", "germanium")
    made = door.as_admin("ldappasswd", bob)
    assert bob in door.run("ldapwhoami", "-x", "-D", bob, "-w", made.split()[-1])
    hashes = door.as_admin("ldapsearch", "-LLL", "-b", bob, "userPassword")
    assert "userPassword:: " in hashes
    # A group may administer, and a subtree may be closed to strangers.
    door.as_admin(
        "ldapmodify",
        given=f"dn: ou=servers,{SUFFIX}\nchangetype: modify\nadd: administrator\n"
        f"administrator: cn=engineers,{SUFFIX}\n-\nadd: anonymousRead\nanonymousRead: FALSE\n",
    )
    assert found(door, "(cn=mail)") == []
    assert found(door, "-D", ADA, "-w", "analytical", "(cn=mail)") == [f"cn=mail,ou=servers,{SUFFIX}"]
    unit = f"dn: cn=web,ou=servers,{SUFFIX}\nobjectClass: applicationProcess\ncn: web\n"
    door.run("ldapadd", "-x", "-D", ADA, "-w", "analytical", given=unit)
    door.run("ldapadd", "-x", "-D", ADA, "-w", "analytical", given=unit.replace(",ou=servers", ""), ok=(50,))
    door.as_admin("ldapdelete", f"cn=web,ou=servers,{SUFFIX}")
    door.as_admin(
        "ldapmodify",
        given=f"dn: ou=servers,{SUFFIX}\nchangetype: modify\n"
        "delete: administrator\n-\ndelete: anonymousRead\n",
    )


@pytest.mark.covers("CSN-102")
def test_tls_and_external(door: Door) -> None:
    """StartTLS and LDAPS; a client certificate that is trusted is as good as a password."""
    assert "anonymous" in door.run("ldapwhoami", "-x", "-ZZ")
    assert "anonymous" in door.run("ldapwhoami", "-x", "-H", f"ldaps://{door.secure}")
    assert "1.3.6.1.4.1.1466.20037" in door.run(
        "ldapsearch", "-x", "-b", "", "-s", "base", "supportedExtension"
    )
    files = door.certificates
    certificate = {"LDAPTLS_CERT": str(files.client), "LDAPTLS_KEY": str(files.client_key)}
    assert f"dn:{ADA}" in door.run("ldapwhoami", "-Q", "-Y", "EXTERNAL", "-ZZ", **certificate)
    door.run("ldapwhoami", "-Q", "-Y", "EXTERNAL", "-ZZ", ok=(250,))
    wrong = {"LDAPTLS_CACERT": str(files.client)}
    assert "anonymous" not in door.run("ldapwhoami", "-x", "-ZZ", ok=(1, 255), **wrong)


@pytest.mark.covers("CSN-41", "CSN-42", "CSN-44")
def test_the_generator_is_an_entry(door: Door) -> None:
    """Its state is text: system time, both offsets, the sequence number. It moves, and nobody writes it."""
    name = "cn=csnGenerator,cn=config"

    def state() -> dict[str, float]:
        shown = door.as_admin(
            "ldapsearch", "-LLL", "-o", "ldif-wrap=no", "-b", "cn=config", "(csnstate=*)", "csnstate"
        )
        assert dns(shown) == [name]
        line = next(line for line in shown.splitlines() if line.startswith("csnstate: "))
        *words, replica, suffix = line.removeprefix("csnstate: ").split()
        assert (replica, suffix) == ("replica=1", f"suffix={SUFFIX}")  # one value for each suffix
        return {key: float(value) for key, _, value in (each.partition("=") for each in words)}

    before = state()
    assert sorted(before) == ["local", "network", "sequence", "system"]
    door.as_admin(
        "ldapmodify", given=f"dn: {ADA}\nchangetype: modify\nreplace: description\ndescription: x\n"
    )
    after = state()
    assert (after["system"], after["sequence"]) > (before["system"], before["sequence"])
    change = f"dn: {name}\nchangetype: modify\nreplace: csnstate\ncsnstate: x\n"
    door.as_admin("ldapmodify", given=change, ok=(53,))
    door.run("ldapsearch", "-x", "-b", name, ok=(50,))


@pytest.mark.covers("CSN-90")
def test_strangers_see_no_csns(door: Door) -> None:
    """CSNs are for administrators."""
    assert "lastModifiedCSN" not in door.run(
        "ldapsearch", "-x", "-LLL", "-b", ADA, "(objectClass=*)", "*", "+"
    )
    assert "lastModifiedCSN: 0" in door.as_admin("ldapsearch", "-LLL", "-b", ADA, "(objectClass=*)", "+")


def test_controls(door: Door) -> None:
    """An unknown control is refused if it is critical; an assertion and reads before and after are heeded."""
    assert found(door, "-e", "1.2.3.4", "(uid=ada)") == [ADA]
    door.run("ldapsearch", "-x", "-b", SUFFIX, "-e", "!1.2.3.4", ok=(12,))
    change = f"dn: {ADA}\nchangetype: modify\nreplace: title\ntitle: Countess\n"
    door.as_admin("ldapmodify", "-e", "!assert=(sn=Byron)", given=change, ok=(122,))
    shown = door.as_admin("ldapmodify", "-e", "!preread=title", "-e", "!postread=title", given=change)
    assert shown.count("title: Countess") == 1
    referral = (
        f"dn: ou=elsewhere,{SUFFIX}\nobjectClass: referral\nobjectClass: extensibleObject\nou: elsewhere\n"
        "ref: ldap://localhost:1/ou=elsewhere\n"
    )
    door.as_admin("ldapadd", "-M", given=referral)
    assert "ldap://localhost:1/" in door.run("ldapsearch", "-x", "-LL", "-b", SUFFIX, "(ou=elsewhere)")
    assert found(door, "-M", "(ou=elsewhere)") == [f"ou=elsewhere,{SUFFIX}"]
    door.as_admin("ldapdelete", f"ou=elsewhere,{SUFFIX}", ok=(10,))
    door.as_admin("ldapdelete", "-M", f"ou=elsewhere,{SUFFIX}")


def test_what_was_answered_survives_kill_9(door: Door, tmp_path: object) -> None:
    """Changes that were acknowledged are there after kill -9, found by name, by index and by their CSN."""
    from ldap_door import start

    for number in range(3):
        dn = f"uid=k{number},{PEOPLE}"
        door.as_admin(
            "ldapadd", given=f"dn: {dn}\nobjectClass: inetOrgPerson\nuid: k{number}\ncn: k\nsn: k\n"
        )
        before = door.as_admin("ldapsearch", "-LLL", "-b", SUFFIX, "(objectClass=*)", "*", "+")
        door.kill()
        again = start(door.directory, door.certificates)
        door.process, door.address, door.secure = again.process, again.address, again.secure
        after = door.as_admin("ldapsearch", "-LLL", "-b", SUFFIX, "(objectClass=*)", "*", "+")
        assert after == before
        assert found(door, f"(uid=k{number})") == [dn]
        assert found(door, "-b", dn, "-s", "base") == [dn]
    assert PASSWORD not in before


def test_what_browsers_ask(door: Door) -> None:
    """Apache Directory Studio finds trees and schema by the root DSE, and draws by subordinates."""
    root = door.run("ldapsearch", "-x", "-LLL", "-b", "", "-s", "base", "(objectClass=*)", "+").splitlines()
    for line in (f"namingContexts: {SUFFIX}", "subschemaSubentry: cn=subschema", "supportedLDAPVersion: 3"):
        assert line in root
    assert any(line.startswith("vendorName: ") for line in root)
    shown = door.run(
        *("ldapsearch", "-x", "-LLL", "-b", SUFFIX, "-s", "one", "(|(ou=people)(cn=engineers))"),
        *("hasSubordinates", "numSubordinates", "structuralObjectClass"),
    )
    by_name = {part.splitlines()[0]: part for part in shown.split("\n\n") if part.strip()}
    assert "hasSubordinates: TRUE" in by_name[f"dn: {PEOPLE}"]
    assert "numSubordinates: 0" not in by_name[f"dn: {PEOPLE}"]
    assert "hasSubordinates: FALSE" in by_name[f"dn: cn=engineers,{SUFFIX}"]
    assert "numSubordinates: 0" in by_name[f"dn: cn=engineers,{SUFFIX}"]
    assert "structuralObjectClass: groupOfNames" in by_name[f"dn: cn=engineers,{SUFFIX}"]


CONTROLS = {
    "1.2.840.113556.1.4.319": ("ldapsearch", "-E", "!pr=2/noprompt", "(uid=ada)"),
    "1.2.840.113556.1.4.473": ("ldapsearch", "-E", "!sss=uid", "(uid=ada)"),
    "2.16.840.1.113730.3.4.2": ("ldapsearch", "-MM", "(uid=ada)"),
    "1.3.6.1.1.12": ("ldapmodify", "-e", "!assert=(uid=ada)"),
    "1.3.6.1.1.13.1": ("ldapmodify", "-e", "!preread=sn"),
    "1.3.6.1.1.13.2": ("ldapmodify", "-e", "!postread=sn"),
}
"""How ldap-utils ask for each control, as critical. They cannot give ours a value;
`test_directory_four.py` asks for it."""


def test_listed_controls_are_done(door: Door) -> None:
    """Each control in the root DSE is heeded when it is critical, and none is known that is not there."""
    shown = door.run(
        "ldapsearch", "-x", "-LLL", "-b", "", "-s", "base", "(objectClass=*)", "supportedControl"
    )
    prefix = "supportedControl: "
    listed = [line.removeprefix(prefix) for line in shown.splitlines() if line.startswith(prefix)]
    assert sorted(listed) == sorted([*CONTROLS, ACKNOWLEDGE])
    change = f"dn: {ADA}\nchangetype: modify\nreplace: description\ndescription: controlled\n"
    for program, *options in CONTROLS.values():
        if program == "ldapsearch":
            assert dns(door.as_admin(program, "-LLL", "-b", SUFFIX, *options)) == [ADA]
        else:
            door.as_admin(program, *options, given=change)


def test_increments_and_limits(door: Door) -> None:
    """What grows by a number grows in one step; a time limit is taken, and a size limit is kept."""
    dn = f"uid=counter,{PEOPLE}"
    door.as_admin(
        "ldapadd",
        given=f"dn: {dn}\nobjectClass: account\nobjectClass: posixAccount\nuid: counter\ncn: counter\n"
        "uidNumber: 1000\ngidNumber: 7\nhomeDirectory: /\n",
    )
    grow = (
        f"dn: {dn}\nchangetype: modify\nincrement: uidNumber\nuidNumber: 5\n-\n"
        "increment: gidNumber\ngidNumber: -2\n"
    )
    for _ in range(2):
        door.as_admin("ldapmodify", given=grow)
    shown = door.run("ldapsearch", "-x", "-LLL", "-b", dn, "(uidNumber>=1010)", "uidNumber", "gidNumber")
    assert "uidNumber: 1010" in shown
    assert "gidNumber: 3" in shown
    wrong = f"dn: {dn}\nchangetype: modify\nincrement: cn\ncn: 1\n"
    door.as_admin("ldapmodify", given=wrong, ok=(19,))
    assert dns(door.run("ldapsearch", "-x", "-LLL", "-l", "30", "-z", "5", "-b", dn)) == [dn]
    door.as_admin("ldapdelete", dn)
