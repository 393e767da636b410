"""Entries as text: what is written is read back as it was, and looks as the source says."""

import random

import pytest
from directory_replica import SUFFIX, Master, delete, modify, person, rename
from directory_steps import History

from holdfast.directory.entry import EntryState, decoded_entry
from holdfast.directory.interchange.entry_text import entry2str, has_state, str2entry
from holdfast.directory.ldif import EntryRecord, InvalidLdif, read_ldif
from holdfast.directory.primitives import ROOT
from holdfast.directory.replica.maps import ENTRIES
from holdfast.directory.schema import standard_schema
from holdfast.model.csn import parse

SCHEMA = standard_schema()


def record_of(text: bytes) -> EntryRecord:
    (record,) = read_ldif([text])
    assert isinstance(record, EntryRecord)
    return record


def again(entry: EntryState) -> EntryState:
    return str2entry(record_of(entry2str(entry, "cn=it", SCHEMA)), SCHEMA)


def test_what_many_masters_made_of_an_entry_is_read_back(rounds) -> None:
    """Histories with every kind of change, conflict and purge: heads, superseded changes, tombstones. Names
    and keys there are those of another schema than the reader's."""
    seen = 0
    for seed in range(rounds(short=20, long=1000)):
        rng = random.Random(seed)
        history = History()
        history.run(
            [
                (rng.randrange(3), rng.randrange(history.verbs), rng.randrange(8), rng.randrange(8))
                for _ in range(80)
            ]
        )
        for master in history.masters:
            for entry in master.state.entries.values():
                assert again(entry) == entry
                seen += 1
    assert seen > 100


def states(master: Master) -> dict[str, EntryState]:
    with master.store.read() as reader:
        found = [decoded_entry(bytes(row)) for _, row in reader.rows(ENTRIES)]
    return {each.name.winner.wish.text: each for each in found if each.name.winner is not None}


def test_binary_values_and_other_options_are_kept() -> None:
    master = Master()
    master.populate()
    master.do(person("ada", telephoneNumber="555-1212", description="x"))
    ada = f"uid=ada,ou=people,{SUFFIX}"
    master.do(modify(ada, ("add", "cn;lang-de", "Ada von Lovelace"), ("delete", "description", [])))
    master.do(modify(ada, ("add", "description", [" leading", "ends \n", "\N{SNOWMAN}", "d1"])))
    master.do(modify(ada, ("delete", "description", "d1"), ("add", "employeeNumber", "7")))
    master.do(modify(ada, ("replace", "employeeNumber", "8")))
    master.do(rename(ada, "uid=countess"))
    master.do(person("bob"))
    master.do(delete(f"uid=bob,ou=people,{SUFFIX}"))
    for entry in states(master).values():
        assert again(entry) == entry
    assert states(master)["uid=bob"].removal is not None


def test_the_text_is_the_source_s() -> None:
    """In its order: the name, dncsn, lastModifiedCSN, values with their CSNs, deleted attributes."""
    master = Master()
    master.populate()
    added = master.do(person("ada", telephoneNumber=["555-1212", "555-1213"], description="gone"))
    ada = f"uid=ada,ou=people,{SUFFIX}"
    removed = master.do(modify(ada, ("delete", "telephoneNumber", "555-1213"), ("delete", "description", [])))
    entry = states(master)["uid=ada"]
    lines = entry2str(entry, ada, SCHEMA).replace(b"\n ", b"").decode().splitlines()
    assert lines[0] == f"dn: {ada}"
    assert lines[1] == f"dncsn: {added}"
    assert lines[2] == f"lastModifiedCSN: {entry.modified}"
    update, delete_ = entry.attributes["telephonenumber"].values.values()
    kept = [each for each in (update, delete_) if each.winner is not None and each.winner.wish.is_present]
    gone = [each for each in (update, delete_) if each.winner is not None and not each.winner.wish.is_present]
    assert f"telephoneNumber;vucsn-{kept[0].heads[0].csn}: 555-1212" in lines
    assert f"telephoneNumber;vdcsn-{gone[0].heads[0].csn}: 555-1213" in lines
    (deleted,) = [each for each in lines if each.startswith("deletedAttribute: ")]
    assert deleted == f"deletedAttribute: description,adcsn-{entry.attributes['description'].removed}"
    assert removed.operation.text() in deleted
    assert all(";v" in each for each in lines[3 : lines.index(deleted)])


def test_the_source_s_own_lines_are_read() -> None:
    """With the space that it prints, without an id or a parent, and values as old as the entry."""
    csn, later = "03626325e0001a1a1", "03626325f0001a1a1"
    record = record_of(
        b"dn: cn=it,dc=example,dc=com\n"
        b"dncsn: " + csn.encode() + b"\n"
        b"cn: it\n"
        b"telephonenumber; vucsn-" + later.encode() + b": 555-1212\n"
        b"telephonenumber;vdcsn-" + later.encode() + b": 555-1213\n"
        b"deletedAttribute: description,adcsn-" + csn.encode() + b"\n"
    )
    assert has_state(record)
    entry = str2entry(record, SCHEMA, new_id=lambda: ROOT, parent_of=lambda dn: ROOT)
    assert (entry.added, entry.modified) == (parse(csn), parse(later))
    assert [each.content for each in entry.values()["telephonenumber"]] == [b"555-1212"]
    assert entry.attributes["description"].removed == parse(csn)
    assert entry.name.heads[0].wish.text == "cn=it"
    wishes = [slot.heads[0] for slot in entry.attributes["telephonenumber"].values.values()]
    assert [(each.csn, each.wish.is_present) for each in wishes] == [
        (parse(later), True),
        (parse(later), False),
    ]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"dncsn: 5", "not a CSN"),
        (b"dncsn: 03626325e0001a1a1\nentryUUID: 5", "no entryUUID"),
        (b"dncsn: 03626325e0001a1a1", "one entryUUID is expected"),
        (b"dncsn: 03626325e0001a1a1\ncn;vucsn-zz: a", "not a CSN"),
        (b"dncsn: 03626325e0001a1a1\nnosuch: a", "no attribute 'nosuch' in the schema"),
        (b"dncsn: 03626325e0001a1a1\ndncsn: 03626325e0001a1a1", "there 2 times"),
        (b"dncsn: 03626325e0001a1a1\ndeletedAttribute: cn", "attribute,adcsn-CSN"),
        (b"dncsn: 03626325e0001a1a1\nparentCSN: 03626325e0001a1a1", "entryUUID of the parent"),
        (b"dncsn: 03626325e0001a1a1\nsupersededCSN: cn 5", "not a CSN"),
    ],
)
def test_a_wrong_line_is_refused_with_its_record(line: bytes, said: str) -> None:
    uuid = b"" if b"entryUUID" in line or said.startswith("one entryUUID") else b"\nentryUUID: " + b"0" * 8
    uuid = uuid and uuid + b"-0000-4000-8000-000000000001"
    parent = (
        b""
        if b"parentCSN" in line
        else b"\nparentCSN: 03626325e0001a1a1 00000000-0000-0000-0000-000000000000"
    )
    record = record_of(b"\n\ndn: cn=it,dc=example,dc=com\n" + line + uuid + parent + b"\n")
    with pytest.raises(InvalidLdif, match=said) as caught:
        str2entry(record, SCHEMA)
    assert caught.value.line == 3
