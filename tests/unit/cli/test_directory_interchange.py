"""`holdfast directory import`, `export` and `changelog`: what leaves one directory as text makes another."""

import json
from pathlib import Path

import pytest
from directory_pair import ADA, PEOPLE, SUFFIX, TREE, Files, pair

from holdfast.cli.directory.changelog import dump, restore
from holdfast.cli.directory.commands import init
from holdfast.cli.directory.interchange import export, import_
from holdfast.clock.errors import DifferentGeneration
from holdfast.directory.dn import Dn
from holdfast.directory.entry import decoded_entry
from holdfast.directory.interchange.entry_text import str2entry
from holdfast.directory.ldif import EntryRecord, InvalidLdif, read_ldif
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
from holdfast.directory.reading import reading
from holdfast.directory.replica.changelog import vector_in
from holdfast.directory.replica.maps import ENTRIES
from holdfast.directory.replica.passwords import verified
from holdfast.model.csn import Csn, parse
from holdfast.model.errors import InvalidRequest


def written(file: Path, text: str) -> Path:
    file.write_text(text)
    return file


def changed(directory: Path, *changes: Change, replica: int = 1) -> list[Csn]:
    return Files(directory, replica).do(*changes)


def dumped(directory: Path, replica: int = 1) -> tuple[bytes, str]:
    return Files(directory, replica).state()


def replaced(dn: str, attribute: str, *values: bytes) -> ModifyRequest:
    return ModifyRequest(dn, (Modification(ModificationKind.REPLACE, attribute, values),))


CHANGES: list[Change] = [
    replaced(ADA, "telephoneNumber", b"555-1213", b"555-1214"),
    ModifyRequest(ADA, (Modification(ModificationKind.DELETE, "telephoneNumber", (b"555-1213",)),)),
    ModifyRequest(ADA, (Modification(ModificationKind.DELETE, "jpegPhoto"),)),
    ModifyRequest(ADA, (Modification(ModificationKind.ADD, "cn;lang-de", (b"Ada",)),)),
    replaced(ADA, "audio", bytes(range(256)), b" begins", b"ends ", b":colon", b"<file", b"two\nlines"),
    AddRequest(
        f"uid=bob,{PEOPLE}",
        (
            Attribute("objectClass", (b"inetOrgPerson",)),
            Attribute("cn", (b"Bob",)),
            Attribute("sn", (b"Noyce",)),
        ),
    ),
    ModifyDnRequest(ADA, "uid=countess", True),
    DeleteRequest(f"uid=bob,{PEOPLE}"),
]


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    directory = tmp_path / "d"
    assert import_(written(tmp_path / "tree.ldif", TREE), dir=directory, output="json") == 0
    changed(directory, *CHANGES)
    return directory


def lines(file: Path) -> list[str]:
    return file.read_bytes().replace(b"\n ", b"").decode().splitlines()


@pytest.mark.covers("CSN-93")
def test_ldif_without_csns_gets_fresh_ones(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each entry its own, from the generator; whoever administers it is told."""
    assert import_(written(tmp_path / "t", TREE), dir=tmp_path / "d", output="json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["entries"] == 4
    with reading(tmp_path / "d") as snapshot:
        states = [decoded_entry(bytes(row)) for _, row in snapshot.reader.rows(ENTRIES)]
        admin = snapshot.view(snapshot.find(Dn.parse(told["admin_dn"])))
        newest = vector_in(snapshot.reader)
    assert len({each.added for each in states}) == 4
    assert admin is not None
    assert verified(told["admin_password"].encode(), admin.attributes["userPassword"][0])
    assert newest is not None
    (later,) = changed(tmp_path / "d", replaced(ADA, "sn", b"King"))
    assert all(later > each.modified for each in states)
    assert not newest.covers(later)
    assert all(later > each for each in newest)


@pytest.mark.covers("CSN-81", "CSN-82", "CSN-83", "CSN-84", "CSN-85", "CSN-88")
def test_an_export_with_state_has_the_source_s_forms(tmp_path: Path) -> None:
    """Each form has the CSN of the very change that made it."""
    import_(written(tmp_path / "tree.ldif", TREE), dir=tmp_path / "d")
    csns = changed(tmp_path / "d", *CHANGES)
    assert export(tmp_path / "out", dir=tmp_path / "d", state=True) == 0
    text = lines(tmp_path / "out")
    begin = text.index(f"dn: uid=countess,{PEOPLE}")
    entry = text[begin : text.index("", begin)]
    words = [each.partition(":")[0] for each in entry]
    assert words[:3] == ["dn", "dncsn", "lastModifiedCSN"]
    csn = parse(entry[1].removeprefix("dncsn: "))
    assert csn < csns[0]
    assert parse(entry[2].removeprefix("lastModifiedCSN: ")).operation == csns[6]
    (first,) = [each for each in words if each.startswith("sn;")]
    assert parse(first.removeprefix("sn;vucsn-")).operation == csn.operation, "as old as the entry"
    (updated,) = [each for each in entry if each.endswith(": 555-1214")]
    assert parse(updated.partition(";vucsn-")[2].partition(":")[0]).operation == csns[0]
    (deleted,) = [each for each in entry if each.endswith(": 555-1213")]
    assert parse(deleted.partition(";vdcsn-")[2].partition(":")[0]).operation == csns[1]
    gone = [each for each in entry if each.startswith("deletedAttribute: ")]
    (photo,) = [each for each in gone if each.startswith("deletedAttribute: jpegphoto,adcsn-")]
    assert parse(photo.partition(",adcsn-")[2]).operation == csns[2]
    last_value = max(at for at, word in enumerate(words) if ";vucsn-" in word or ";vdcsn-" in word)
    assert 3 <= last_value < entry.index(gone[0])
    assert any(word.startswith("cn;lang-de;vucsn-") for word in words)


@pytest.mark.covers("CSN-82", "CSN-83", "CSN-87")
def test_a_space_after_the_semicolon_is_read_as_the_source_prints_it(filled: Path, tmp_path: Path) -> None:
    export(tmp_path / "out", dir=filled, state=True)
    text = (tmp_path / "out").read_bytes().replace(b"\n ", b"")
    spaced = text.replace(b";vucsn-", b"; vucsn-").replace(b";vdcsn-", b"; vdcsn-")
    assert spaced != text
    (tmp_path / "spaced").write_bytes(spaced)
    import_(tmp_path / "spaced", dir=tmp_path / "copy", replica_id=2)
    assert dumped(tmp_path / "copy", 2) == dumped(filled)


@pytest.mark.covers("CSN-86", "CSN-87", "CSN-89")
def test_what_is_written_is_what_is_stored(filled: Path, tmp_path: Path) -> None:
    """str2entry of every record of an export is the entry of the store, with every CSN in its place: text and
    store hold the same parts."""
    export(tmp_path / "out", dir=filled, state=True)
    records = [each for each in read_ldif([(tmp_path / "out").read_bytes()]) if isinstance(each, EntryRecord)]
    with reading(filled) as snapshot:
        stored = {bytes(key): decoded_entry(bytes(row)) for key, row in snapshot.reader.rows(ENTRIES)}
        read = {bytes(each.id): each for each in (str2entry(one, snapshot.schema) for one in records[1:])}
    assert read == stored
    assert sum(each.removal is not None for each in read.values()) == 1


@pytest.mark.covers("CSN-64", "CSN-89", "CSN-93")
def test_an_export_with_state_makes_an_equal_replica(filled: Path, tmp_path: Path) -> None:
    """To the byte, under another number; its next change is younger than all that it has."""
    export(tmp_path / "out", dir=filled, state=True)
    state, vector = dumped(filled)
    with pytest.raises(InvalidRequest, match="another number, such as --replica-id 2"):
        import_(tmp_path / "out", dir=tmp_path / "copy")
    assert import_(tmp_path / "out", dir=tmp_path / "copy", replica_id=2) == 0
    assert dumped(tmp_path / "copy", 2) == (state, vector)
    with pytest.raises(InvalidRequest, match="holds a directory already"):
        import_(tmp_path / "out", dir=tmp_path / "copy")
    text = (tmp_path / "out").read_text()
    ahead = parse(vector.split()[1])
    # An export of a master whose clock was half an hour ahead raises the generator above it.
    future = Csn(ahead.timestamp + 1800, 7, ahead.replica)
    moved = text.replace(f"replicaVector: {vector}", f"replicaVector: {vector.split()[0]} {future}")
    import_(written(tmp_path / "moved", moved), dir=tmp_path / "ahead", replica_id=2)
    (csn,) = changed(tmp_path / "ahead", replaced(PEOPLE, "description", b"x"), replica=2)
    assert csn > future


@pytest.mark.covers("CSN-90")
def test_an_export_without_state_has_no_csns(filled: Path, tmp_path: Path) -> None:
    """It loads elsewhere, with the same attributes."""
    export(tmp_path / "out", dir=filled)
    text = (tmp_path / "out").read_text()
    assert "csn" not in text.lower()
    assert "555-1213" not in text
    assert f"dn: uid=countess,{PEOPLE}" in text
    import_(tmp_path / "out", dir=tmp_path / "copy", replica_id=3)
    export(tmp_path / "again", dir=tmp_path / "copy")
    assert (tmp_path / "again").read_text() == text
    export(tmp_path / "state", dir=filled, state=True)
    assert "vucsn-0" in (tmp_path / "state").read_text()


@pytest.mark.covers("CSN-51", "CSN-59", "CSN-70", "CSN-71")
def test_the_changelog_is_text_and_back(filled: Path, tmp_path: Path) -> None:
    """A copy from before the changes, given the text of the changelog, is equal to the original."""
    base, original = tmp_path / "old", filled
    directory = tmp_path / "other"
    import_(written(tmp_path / "t", TREE), dir=directory)
    export(base, dir=directory, state=True)
    changes = changed(directory, *CHANGES)
    import_(base, dir=tmp_path / "copy", replica_id=2)
    assert dump(tmp_path / "log", dir=directory) == 0
    text = (tmp_path / "log").read_text()
    assert [each for each in changes if f"dn: csn={each}," not in text] == []
    assert restore(tmp_path / "log", dir=tmp_path / "copy") == 0
    assert dumped(tmp_path / "copy", 2) == dumped(directory)
    assert dump(tmp_path / "passed on", dir=tmp_path / "copy") == 0
    kept = (tmp_path / "passed on").read_text()
    assert [each for each in changes if f"dn: csn={each}," not in kept] == [], "others are told of them, too"
    restore(tmp_path / "log", dir=tmp_path / "copy")  # nothing is applied twice
    assert dumped(tmp_path / "copy", 2) == dumped(directory)
    with pytest.raises(DifferentGeneration, match="different data sets"):
        restore(tmp_path / "log", dir=original)


@pytest.mark.covers("CSN-58")
def test_who_lacks_what_the_changelog_has_no_more_is_told(tmp_path: Path) -> None:
    """A load is in no changelog: an older copy that is given later changes alone would have a gap."""
    first, second = pair(tmp_path)
    more = "\n".join(f"dn: ou={each},{SUFFIX}\nobjectClass: organizationalUnit\n" for each in "ab")
    import_(written(tmp_path / "more", more), dir=first.directory)
    first.do(*CHANGES)
    before = second.state()
    with pytest.raises(InvalidRequest, match="what lies between is lacking, and a full copy is needed"):
        first.tell(second)
    assert second.state() == before
    export(tmp_path / "whole", dir=first.directory, state=True)
    import_(tmp_path / "whole", dir=tmp_path / "third", replica_id=3)
    first.do(replaced(PEOPLE, "description", b"after the copy"))
    first.tell(Files(tmp_path / "third", 3))
    assert Files(tmp_path / "third", 3).state() == first.state()


def test_changes_are_carried_out_one_by_one(filled: Path, tmp_path: Path) -> None:
    """As a client's, into the changelog; what is refused names its line, and what came before stays."""
    text = f"""dn: {PEOPLE}
changetype: modify
replace: description
description: first

dn: uid=nobody,{PEOPLE}
changetype: delete
"""
    with pytest.raises(InvalidLdif, match=r"line 6: there is no such entry.*the 1 records before"):
        import_(written(tmp_path / "changes", text), dir=filled)
    with reading(filled) as snapshot:
        view = snapshot.view(snapshot.find(Dn.parse(PEOPLE)))
    assert view is not None
    assert view.attributes["description"] == (b"first",)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (
            "dn: uid=x,ou=none,dc=example,dc=com\nobjectClass: person\ncn: x\nsn: x\n",
            "parents stand before",
        ),
        (f"dn: {ADA}\nobjectClass: person\ncn: x\nsn: x\n", "already"),
        (f"dn: cn=x,{PEOPLE}\nobjectClass: nosuch\ncn: x\n", "no object class"),
        (f"dn: cn=x,{PEOPLE}\nobjectClass: person\ncn: x\nsn: x\nuserPassword: clear\n", "no hash"),
        (f"dn: cn=x,{PEOPLE}\nchangetype: delete\n", "a change among entries"),
        ("cn: x\n", "begins with dn:"),
    ],
)
def test_a_new_directory_is_whole_or_not_there(tmp_path: Path, wrong: str, said: str) -> None:
    """A wrong record is named by its line, and nothing is left in the way of the next try."""
    text = f"{TREE}\n\n{wrong}"
    at = text.count("\n", 0, text.rindex(wrong)) + 1
    with pytest.raises(InvalidLdif, match=said) as caught:
        import_(written(tmp_path / "t", text), dir=tmp_path / "d")
    assert caught.value.line == at
    assert sorted(each.name for each in tmp_path.iterdir()) == ["t"]


def test_entries_are_added_to_data_whole_or_not_at_all(filled: Path, tmp_path: Path) -> None:
    """One wrong entry after thousands that are in transactions of their own: nothing of them stays, nor what
    a load left behind whose process was killed; without the wrong one all are there."""
    right = "".join(
        f"dn: uid=p{number},{PEOPLE}\nobjectClass: inetOrgPerson\ncn: p\nsn: p\n\n" for number in range(2_100)
    )
    before = dumped(filled)
    with pytest.raises(InvalidLdif, match="there already"):
        import_(
            written(
                tmp_path / "more.ldif",
                f"{right}dn: uid=p7,{PEOPLE}\nobjectClass: inetOrgPerson\ncn: p\nsn: p\n",
            ),
            dir=filled,
        )
    assert not (filled / "loading").exists()
    assert dumped(filled) == before
    (filled / "loading").mkdir()
    assert dumped(filled) == before
    assert not (filled / "loading").exists()
    assert import_(written(tmp_path / "more.ldif", right), dir=filled, output="json") == 0
    assert Files(filled, 1).view(f"uid=p2099,{PEOPLE}").attributes["cn"] == (b"p",)
    assert dumped(filled) != before


def test_passwords_are_hashed_if_that_is_asked_for(tmp_path: Path) -> None:
    text = f"{TREE}userPassword: analytical\n"
    import_(written(tmp_path / "t", text), dir=tmp_path / "d", hash_passwords=True)
    with reading(tmp_path / "d") as snapshot:
        view = snapshot.view(snapshot.find(Dn.parse(ADA)))
    assert view is not None
    assert verified(b"analytical", view.attributes["userPassword"][0])


def test_entries_are_added_to_a_directory_that_is_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "d"
    init(dir=directory, suffix=[SUFFIX])
    with pytest.raises(InvalidLdif, match=r"line 3: .*already"):
        import_(written(tmp_path / "t", TREE), dir=directory)
    capsys.readouterr()
    import_(tmp_path / "t", dir=directory, skip_existing=True, output="json")
    told = json.loads(capsys.readouterr().out)
    assert (told["entries"], told["skipped"]) == (2, 1)


def test_what_cannot_be_is_refused(filled: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="holds no directory"):
        export(dir=tmp_path / "none")
    (tmp_path / "domain" / "hosts" / "host1" / "services" / "directory").mkdir(parents=True)
    with pytest.raises(InvalidRequest, match=r"is a domain; .*host1/services/directory: "):
        export(dir=tmp_path / "domain")
    (tmp_path / "there").touch()
    with pytest.raises(InvalidRequest, match="--overwrite"):
        export(tmp_path / "there", dir=filled)
    with pytest.raises(InvalidRequest, match="has everything"):
        export(tmp_path / "out", dir=filled, state=True, base=PEOPLE)
    with pytest.raises(InvalidLdif, match="no record"):
        import_(written(tmp_path / "empty", ""), dir=tmp_path / "e")
    with pytest.raises(InvalidRequest, match="--replica-id is for new files"):
        import_(written(tmp_path / "t", TREE), dir=filled, suffix=SUFFIX, replica_id=2)
