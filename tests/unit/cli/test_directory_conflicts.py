"""`holdfast directory conflicts`, `csn` and `check`, on what two masters did at once."""

import json
from pathlib import Path

import pytest
from directory_pair import ADA, PEOPLE, Files, exchange, pair

from holdfast.cli.directory.changelog import dump, restore
from holdfast.cli.directory.check import check
from holdfast.cli.directory.conflicts import list_, resolve, show
from holdfast.cli.explain import explain
from holdfast.cli.where import Where
from holdfast.directory.operations import (
    AddRequest,
    Attribute,
    Change,
    DeleteRequest,
    Modification,
    ModificationKind,
    ModifyDnRequest,
    ModifyRequest,
)
from holdfast.model.csn import parse
from holdfast.model.errors import InvalidRequest


def replaced(dn: str, attribute: str, *values: bytes) -> ModifyRequest:
    return ModifyRequest(dn, (Modification(ModificationKind.REPLACE, attribute, values),))


def person(uid: str, below: str = PEOPLE, **more: bytes) -> AddRequest:
    attributes = {"cn": uid.encode(), "sn": uid.encode(), **more}
    return AddRequest(
        f"uid={uid},{below}",
        (
            Attribute("objectClass", (b"inetOrgPerson",)),
            *(Attribute(name, (value,)) for name, value in attributes.items()),
        ),
    )


@pytest.fixture
def two(tmp_path: Path) -> tuple[Files, Files]:
    return pair(tmp_path)


def listed(files: Files, capsys: pytest.CaptureFixture[str]) -> list[dict[str, str]]:
    capsys.readouterr()
    list_(dir=files.directory, output="json")
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.covers("CSN-63", "CSN-67", "CSN-73", "CSN-74", "CSN-75", "CSN-80")
def test_a_conflict_is_listed_alike_and_resolved(
    two: tuple[Files, Files], capsys: pytest.CaptureFixture[str]
) -> None:
    """Both masters set one single value. The younger CSN wins at both, whatever came first there; both list
    both sides; taking what lost is a change that ends the conflict everywhere."""
    first, second = two
    (older,) = first.do(replaced(ADA, "displayName", b"by the first"))
    (younger,) = second.do(replaced(ADA, "displayName", b"by the second"), after=older)
    assert older < younger
    exchange(first, second)
    assert first.state() == second.state()
    assert first.view(ADA).attributes["displayName"] == (b"by the second",)
    conflict, *others = listed(first, capsys)
    assert not others
    assert listed(second, capsys) == [conflict]
    assert (conflict["kind"], conflict["attribute"], conflict["dn"]) == ("value", "displayname", ADA)
    assert "'by the first'" in conflict["lost"]
    assert older.text() in conflict["lost"]
    assert "'by the second'" in conflict["kept"]
    assert younger.text() in conflict["kept"]
    show(conflict["id"], dir=first.directory)
    assert "take what lost instead" in capsys.readouterr().out
    assert resolve(conflict["id"], "lost", dir=first.directory) == 0
    assert listed(first, capsys) == []
    exchange(first, second)
    assert listed(second, capsys) == []
    assert second.view(ADA).attributes["displayName"] == (b"by the first",)
    assert first.state() == second.state()


@pytest.mark.covers("CSN-52", "CSN-56", "CSN-63")
def test_a_changelog_has_others_changes_under_their_csns(two: tuple[Files, Files], tmp_path: Path) -> None:
    first, second = two
    csns = first.do(replaced(ADA, "sn", b"King"), ModifyDnRequest(ADA, "uid=countess", True))
    own = second.do(replaced(PEOPLE, "description", b"between"), after=csns[0])
    first.tell(second)
    dump(tmp_path / "passed on", dir=second.directory)
    text = (tmp_path / "passed on").read_text()
    assert all(f"dn: csn={each}," in text for each in csns)
    found = [
        parse(line.removeprefix("dn: csn=").partition(",")[0])
        for line in text.splitlines()
        if line.startswith("dn: csn=")
    ]
    assert found == sorted(found)
    assert {each.operation for each in found} == {*csns, *own}
    assert all(each.replica == 1 for each in csns)


@pytest.mark.covers("CSN-79")
def test_a_change_follows_its_entry_whatever_it_is_called(two: tuple[Files, Files]) -> None:
    """One master renames an entry, the other changes it under its old name, and a third entry takes that
    name: the change is the first's."""
    first, second = two
    first.do(ModifyDnRequest(ADA, "uid=countess", True), person("ada"))
    second.do(replaced(ADA, "description", b"the analyst"))
    exchange(first, second)
    assert first.state() == second.state()
    assert first.view(f"uid=countess,{PEOPLE}").attributes["description"] == (b"the analyst",)
    assert "description" not in first.view(ADA).attributes


@pytest.mark.covers("CSN-78")
def test_what_breaks_the_schema_is_taken_and_marked(
    two: tuple[Files, Files], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two entries of one name, a class's attribute removed at one master while the other made its class
    demand it, an attribute that no schema has: all are taken, and the second of one name is marked."""
    first, second = two
    (older,) = first.do(person("eve", sn=b"First"))
    second.do(person("eve", sn=b"Second"), after=older)
    exchange(first, second)
    assert first.state() == second.state()
    names = [each for each in second.dns() if "uid=eve" in each]
    assert len(names) == 2
    (marked,) = [each for each in names if each.startswith("entryUUID=")]
    assert second.view(marked).attributes["sn"] == (b"Second",)
    (conflict,) = listed(second, capsys)
    assert (conflict["kind"], conflict["dn"]) == ("name", marked)
    (csn,) = first.do(replaced(f"uid=eve,{PEOPLE}", "description", b"x"))
    dump(tmp_path / "log", dir=first.directory)
    text = (tmp_path / "log").read_text()
    strange = text.replace("changeAttribute: description\n", "changeAttribute: nosuchattribute\n")
    assert strange != text
    (tmp_path / "log").write_text(strange)
    restore(tmp_path / "log", dir=second.directory)
    assert second.view(f"uid=eve,{PEOPLE}").attributes["nosuchattribute"] == (b"x",)
    assert csn.text() in second.state()[1]


PAIRS: dict[str, tuple[list[Change], list[Change], list[Change], dict[str, object]]] = {
    "add / add of one name": ([], [person("x", sn=b"1")], [person("x", sn=b"2")], {"kinds": ["name"]}),
    "delete of a parent / add below it": (
        [AddRequest(f"ou=a,{PEOPLE}", (Attribute("objectClass", (b"organizationalUnit",)),))],
        [DeleteRequest(f"ou=a,{PEOPLE}")],
        [person("x", f"ou=a,{PEOPLE}")],
        {"kinds": ["glue"], "there": [f"ou=a,{PEOPLE}", f"uid=x,ou=a,{PEOPLE}"]},
    ),
    "delete / younger modify": (
        [],
        [DeleteRequest(ADA)],
        [replaced(ADA, "sn", b"King")],
        {"kinds": ["removed"], "gone": [ADA]},
    ),
    "modify / younger delete": (
        [],
        [replaced(ADA, "sn", b"King")],
        [DeleteRequest(ADA)],
        {"kinds": ["removed"], "gone": [ADA]},
    ),
    "rename / rename": (
        [],
        [ModifyDnRequest(ADA, "uid=one", True)],
        [ModifyDnRequest(ADA, "uid=two", True)],
        {"kinds": ["rename"], "there": [f"uid=two,{PEOPLE}"], "gone": [f"uid=one,{PEOPLE}"]},
    ),
    "rename / delete": (
        [],
        [ModifyDnRequest(ADA, "uid=one", True)],
        [DeleteRequest(ADA)],
        {"kinds": ["removed"], "gone": [ADA, f"uid=one,{PEOPLE}"]},
    ),
    "moves below each other": (
        [
            AddRequest(f"ou=a,{PEOPLE}", (Attribute("objectClass", (b"organizationalUnit",)),)),
            AddRequest(f"ou=b,{PEOPLE}", (Attribute("objectClass", (b"organizationalUnit",)),)),
        ],
        [ModifyDnRequest(f"ou=a,{PEOPLE}", "ou=a", True, f"ou=b,{PEOPLE}")],
        [ModifyDnRequest(f"ou=b,{PEOPLE}", "ou=b", True, f"ou=a,{PEOPLE}")],
        {"kinds": ["cycle"], "there": [f"ou=b,{PEOPLE}", f"ou=a,ou=b,{PEOPLE}"]},
    ),
    "one single value / another": (
        [],
        [replaced(ADA, "displayName", b"1")],
        [replaced(ADA, "displayName", b"2")],
        {"kinds": ["value"], "values": {"displayName": (b"2",)}},
    ),
    "value removed / the same written": (
        [],
        [ModifyRequest(ADA, (Modification(ModificationKind.DELETE, "telephoneNumber", (b"555-1212",)),))],
        [replaced(ADA, "telephoneNumber", b"555-1212", b"555-2")],
        {"kinds": ["value"], "values": {"telephoneNumber": (b"555-1212", b"555-2")}},
    ),
    "value added / another added": (
        [],
        [ModifyRequest(ADA, (Modification(ModificationKind.ADD, "cn", (b"A",)),))],
        [ModifyRequest(ADA, (Modification(ModificationKind.ADD, "cn", (b"B",)),))],
        {"kinds": [], "values": {"cn": (b"A", b"B", b"Ada Lovelace")}},
    ),
    "value added / whole attribute removed": (
        [],
        [ModifyRequest(ADA, (Modification(ModificationKind.ADD, "telephoneNumber", (b"555-9",)),))],
        [ModifyRequest(ADA, (Modification(ModificationKind.DELETE, "telephoneNumber"),))],
        {"kinds": ["value"], "lacks": ["telephoneNumber"]},
    ),
    "value of a name removed / renamed to it": (
        [replaced(ADA, "uid", b"ada", b"lady")],
        [ModifyRequest(ADA, (Modification(ModificationKind.DELETE, "uid", (b"lady",)),))],
        [ModifyDnRequest(ADA, "uid=lady", False)],
        {"kinds": ["value"], "there": [f"uid=lady,{PEOPLE}"]},
    ),
}
"""Before, at the first master, at the second (younger), and what comes of it: the table of DESIGN.md."""


@pytest.mark.covers("CSN-75", "CSN-77")
@pytest.mark.parametrize("name", PAIRS)
def test_every_pair_has_an_outcome(
    two: tuple[Files, Files], capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """The same at both masters, whichever heard of which first."""
    first, second = two
    before, at_first, at_second, outcome = PAIRS[name]
    first.do(*before)
    first.tell(second)
    older = first.do(*at_first)
    second.do(*at_second, after=older[-1])
    exchange(first, second)
    assert first.state() == second.state()
    assert first.dns() == second.dns()
    found = [each["kind"] for each in listed(first, capsys)]
    assert sorted(set(found)) == outcome["kinds"]
    for each in outcome.get("there", ()):  # type: ignore[attr-defined]
        assert each in first.dns()
    for each in outcome.get("gone", ()):  # type: ignore[attr-defined]
        assert each not in first.dns()
    for attribute, values in outcome.get("values", {}).items():  # type: ignore[attr-defined]
        assert sorted(first.view(ADA).attributes[attribute]) == sorted(values)
    for attribute in outcome.get("lacks", ()):  # type: ignore[attr-defined]
        assert attribute not in first.view(ADA).attributes


def test_only_what_can_be_resolved_so_is(
    two: tuple[Files, Files], capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = two
    first.do(person("eve"))
    second.do(person("eve"))
    exchange(first, second)
    (conflict,) = listed(first, capsys)
    with pytest.raises(InvalidRequest, match="rename, move or delete one of the two"):
        resolve(conflict["id"], dir=first.directory)
    with pytest.raises(InvalidRequest, match="no conflict 'x'"):
        resolve("x", dir=first.directory)
    with pytest.raises(InvalidRequest, match="kept or what was lost"):
        resolve(conflict["id"], "both", dir=first.directory)
    with pytest.raises(InvalidRequest, match="--dir with its files, or --url"):
        resolve(conflict["id"])
    # An ordinary change resolves it: the name is given back.
    first.do(DeleteRequest(f"uid=eve,{PEOPLE}"))
    assert listed(first, capsys) == []
    assert [each for each in first.dns() if "eve" in each] == [f"uid=eve,{PEOPLE}"]


def test_check_tells_what_is_on_its_way_from_what_is_wrong(
    two: tuple[Files, Files], capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = two
    one, other = str(first.directory), str(second.directory)
    assert check(one, other) == 0
    assert "5 entries" not in capsys.readouterr().out.replace("4 entries", "")
    first.do(replaced(ADA, "sn", b"King"))
    assert check(one, other, wait=0.0, output="json") == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["different"], len(told["on_their_way"])) == ([], 1)
    first.tell(second)
    second.tell(first)
    assert check(one, other, wait=0.0) == 0


def test_a_suffix_is_explained(two: tuple[Files, Files], capsys: pytest.CaptureFixture[str]) -> None:
    first, second = two
    older = first.do(replaced(ADA, "displayName", b"1"))
    second.do(replaced(ADA, "displayName", b"2"), after=older[-1])
    exchange(first, second)
    capsys.readouterr()
    assert explain("dc=example,dc=com", at=Where(dir=second.directory), output="json") == 0
    says = "\n".join(json.loads(capsys.readouterr().out)["says"])
    assert "not being served" in says
    assert f"of replica 1 it has everything up to {older[-1]}" in says
    assert "1 conflicts are not resolved" in says
    assert "whoever lacks those takes a full copy" in says
    with pytest.raises(InvalidRequest, match="not dc=other"):
        explain("dc=other", at=Where(dir=second.directory))
