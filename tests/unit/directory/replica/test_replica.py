"""One replica: what clients do to it, what it commits together, and what other masters make of it."""

import random
import sys
from types import FrameType

import msgspec
import pytest
from directory_replica import (
    ADMIN,
    SUFFIX,
    Master,
    add,
    delete,
    derived_rows,
    modify,
    person,
    rename,
    stored_rows,
)

from holdfast.clock.vector import Vector
from holdfast.directory.dn import Dn
from holdfast.directory.filters.text import parse_filter
from holdfast.directory.operations import Change, Scope
from holdfast.directory.purging import Purging
from holdfast.directory.replica.passwords import ROUNDS, hashed
from holdfast.directory.replica.ready import HIDES, OPEN, Ready, decoded_ready, parts_of
from holdfast.directory.replica.searching import Question
from holdfast.directory.replica.shown import Shown, encoded_shown
from holdfast.directory.resolving import NeedsInitialisation
from holdfast.directory.results import DirectoryError, ResultCode
from holdfast.directory.syntaxes import SYNTAXES

PEOPLE = f"ou=people,{SUFFIX}"
NAME_FAULT = SYNTAXES["1.3.6.1.4.1.1466.115.121.1.12"].fault_in


@pytest.fixture
def master() -> Master:
    found = Master()
    found.populate()
    return found


def refused(master: Master, request: Change) -> ResultCode:
    before = master.replica.dump()
    with pytest.raises(DirectoryError) as error:
        master.replica.execute(request, ADMIN, lambda csn: None)
    assert master.replica.dump() == before
    assert master.replica.pending == 0
    assert master.generator.status().in_flight == 0
    return error.value.result


def test_an_entry_is_added_changed_and_removed(master: Master) -> None:
    """Each operation is one update, in the changelog and in the vector with the data."""
    csns = [
        master.do(person("ada", mail="ada@example.com")),
        master.do(modify(f"uid=ada,{PEOPLE}", ("add", "mail", "countess@example.com"))),
        master.do(rename(f"uid=ada,{PEOPLE}", "uid=lovelace")),
    ]
    (entry,) = master.search("(mail=COUNTESS@example.com)")
    assert entry.dn == f"uid=lovelace,{PEOPLE}"
    assert entry.attributes["uid"] == (b"lovelace",)
    assert sorted(entry.attributes["mail"]) == [b"ada@example.com", b"countess@example.com"]
    operational = entry.operational()
    assert operational["creatorsName"] == (ADMIN.encode(),)
    assert operational["lastModifiedCSN"] == (csns[-1].text().encode(),)
    csns.append(master.do(delete(f"uid=lovelace,{PEOPLE}")))
    assert master.dns(base=PEOPLE) == [PEOPLE]
    with master.replica.updates_since(Vector.of("g")) as reader:
        assert [each.csn for each in reader][-4:] == csns
    assert master.replica.vector.newest() == csns[-1]
    assert [is_own for _, is_own in master.told.committed] == [True] * 6


@pytest.mark.parametrize(
    ("request_", "result"),
    [
        (add(f"uid=x,ou=nowhere,{SUFFIX}", "account", uid="x"), ResultCode.NO_SUCH_OBJECT),
        (add(f"uid=ada,{PEOPLE}", "account", uid="ada"), ResultCode.ENTRY_ALREADY_EXISTS),
        (add(f"uid=x,{PEOPLE}", "inetOrgPerson", uid="x"), ResultCode.OBJECT_CLASS_VIOLATION),
        (add(f"dc=x,{SUFFIX}", "domain", dc="y"), ResultCode.CONSTRAINT_VIOLATION),
        (add(f"modifyTimestamp=x,{SUFFIX}", "domain", dc="y"), ResultCode.NAMING_VIOLATION),
        (add("dc=other", "domain", dc="other"), ResultCode.NO_SUCH_OBJECT),
        (add("no name", "domain"), ResultCode.INVALID_DN_SYNTAX),
        (add(f"uid=x,{PEOPLE}", "account", uid="x", entryUUID="x"), ResultCode.CONSTRAINT_VIOLATION),
        (add(f"uid=x,{PEOPLE}", "account", uid="x", nonsense="x"), ResultCode.UNDEFINED_ATTRIBUTE_TYPE),
        (person("x", userPassword="in clear"), ResultCode.CONSTRAINT_VIOLATION),
        (modify(f"uid=ada,{PEOPLE}", ("add", "userPassword", "clear")), ResultCode.CONSTRAINT_VIOLATION),
        (delete(f"uid=nobody,{PEOPLE}"), ResultCode.NO_SUCH_OBJECT),
        (delete(PEOPLE), ResultCode.NOT_ALLOWED_ON_NON_LEAF),
        (modify(f"uid=ada,{PEOPLE}", ("add", "sn", "ada")), ResultCode.ATTRIBUTE_OR_VALUE_EXISTS),
        (modify(f"uid=ada,{PEOPLE}", ("delete", "mail", [])), ResultCode.NO_SUCH_ATTRIBUTE),
        (modify(f"uid=ada,{PEOPLE}", ("delete", "sn", "x")), ResultCode.NO_SUCH_ATTRIBUTE),
        (modify(f"uid=ada,{PEOPLE}", ("delete", "sn", [])), ResultCode.OBJECT_CLASS_VIOLATION),
        (modify(f"uid=ada,{PEOPLE}", ("replace", "uid", "x")), ResultCode.NOT_ALLOWED_ON_RDN),
        (modify(f"uid=ada,{PEOPLE}", ("delete", "uid", "ada")), ResultCode.NOT_ALLOWED_ON_RDN),
        (modify(f"uid=ada,{PEOPLE}", ("increment", "sn", "1")), ResultCode.CONSTRAINT_VIOLATION),
        (modify(f"uid=ada,{PEOPLE}", ("replace", "modifyTimestamp", "x")), ResultCode.CONSTRAINT_VIOLATION),
        (
            modify(f"uid=ada,{PEOPLE}", ("add", "objectClass", "organizationalUnit"), ("add", "ou", "x")),
            ResultCode.OBJECT_CLASS_VIOLATION,
        ),
        (rename(PEOPLE, "ou=people", f"uid=ada,{PEOPLE}"), ResultCode.UNWILLING_TO_PERFORM),
        (rename(SUFFIX, "dc=other"), ResultCode.UNWILLING_TO_PERFORM),
        (rename(f"uid=ada,{PEOPLE}", "uid=bob"), ResultCode.ENTRY_ALREADY_EXISTS),
        (rename(f"uid=ada,{PEOPLE}", "uid=ada", f"ou=nowhere,{SUFFIX}"), ResultCode.NO_SUCH_OBJECT),
        (rename(f"uid=ada,{PEOPLE}", "dc=x"), ResultCode.OBJECT_CLASS_VIOLATION),
        (rename(f"uid=ada,{PEOPLE}", "userPassword=clear"), ResultCode.NAMING_VIOLATION),
        (rename(f"uid=ada,{PEOPLE}", "uid=ada+2.5.4.35=clear"), ResultCode.NAMING_VIOLATION),
    ],
)
def test_what_may_not_be_is_refused_and_changes_nothing(
    master: Master, request_: Change, result: ResultCode
) -> None:
    """Every refusal has its result code, and leaves neither a change nor a CSN under way."""
    master.do(person("ada"))
    master.do(person("bob"))
    assert refused(master, request_) == result


def test_modifications_take_effect_in_order_or_not_at_all(master: Master) -> None:
    """Later steps see earlier ones, and the schema judges what is left."""
    master.do(person("ada", mail=["a@x", "b@x"], employeeNumber="7"))
    dn = f"uid=ada,{PEOPLE}"
    master.do(
        modify(
            dn,
            ("delete", "mail", "A@X"),
            ("add", "mail", "c@x"),
            ("replace", "sn", "Lovelace"),
            ("replace", "description", []),
            ("add", "description", "first"),
            ("delete", "description", "first"),
        )
    )
    (entry,) = master.search("(uid=ada)")
    assert sorted(entry.attributes["mail"]) == [b"b@x", b"c@x"]
    assert entry.attributes["sn"] == (b"Lovelace",)
    assert "description" not in entry.attributes
    assert refused(master, modify(dn, ("add", "mail", "d@x"), ("add", "sn", "lovelace"))) == (
        ResultCode.ATTRIBUTE_OR_VALUE_EXISTS
    )


def test_integers_are_incremented(master: Master) -> None:
    """RFC 4525."""
    account = add(
        f"cn=ada,{PEOPLE}",
        "account",
        "posixAccount",
        cn="ada",
        uid="ada",
        uidNumber="41",
        gidNumber="9",
        homeDirectory="/",
    )
    master.do(account)
    master.do(modify(f"cn=ada,{PEOPLE}", ("increment", "uidNumber", "1"), ("increment", "gidNumber", "-10")))
    (entry,) = master.search("(uidNumber>=42)")
    assert entry.attributes["uidNumber"] == (b"42",)
    assert entry.attributes["gidNumber"] == (b"-1",)


def test_what_is_not_committed_is_not_shown(master: Master) -> None:
    """A client sees a change when it is on the disk, and the next change sees it at once."""
    done: list[object] = []
    master.replica.execute(person("ada"), ADMIN, done.append)
    master.replica.execute(modify(f"uid=ada,{PEOPLE}", ("add", "mail", "a@x")), ADMIN, done.append)
    assert master.dns("(uid=ada)") == []
    assert done == []
    master.store.commit(1)
    assert len(done) == 1
    assert master.dns("(mail=a@x)") == []
    master.store.commit()
    assert master.dns("(mail=a@x)") == [f"uid=ada,{PEOPLE}"]


def test_operations_that_are_committed_together_leave_no_row_behind(master: Master) -> None:
    """An operation undoes what one before it wrote, also while that is on its way to the disk."""
    dn = f"uid=ada,{PEOPLE}"
    for request in (
        person("ada", mail="a@x"),
        modify(dn, ("replace", "mail", "b@x")),
        rename(dn, "uid=eve"),
        person("bob"),
        delete(f"uid=bob,{PEOPLE}"),
    ):
        master.replica.execute(request, ADMIN, lambda csn: None)
    master.store.commit()
    assert stored_rows(master, decoded_ready) == derived_rows(master.replica)
    assert master.dns("(uid=*)") == [f"uid=eve,{PEOPLE}"]


def test_an_older_snapshot_stays_as_it_was(master: Master) -> None:
    """What is kept ready for newer ones is not shown to it (G8)."""
    master.do(person("ada"))
    dn = Dn.parse(f"uid=ada,{PEOPLE}")
    key = dn.key(master.replica.schema)
    older = master.replica.snapshot()
    entry = older.find(dn, key)
    master.do(modify(str(dn), ("replace", "sn", "new")))
    (newer,) = master.search("(uid=ada)")
    before = older.view(entry)
    assert before is not None
    assert (before.attributes["sn"], newer.attributes["sn"]) == ((b"ada",), (b"new",))
    master.do(rename(str(dn), "uid=eve"))
    master.do(person("ada"))
    (other,) = master.search("(uid=ada)", str(dn), Scope.BASE)
    assert other.id != entry
    assert older.find(dn, key) == entry
    older.close()
    master.do(delete(str(dn)))
    with pytest.raises(DirectoryError) as error:
        master.search("(uid=ada)", str(dn), Scope.BASE)
    assert error.value.result == ResultCode.NO_SUCH_OBJECT


@pytest.mark.parametrize("survivors", [0, 1, 2])
def test_a_power_cut_takes_back_whole_operations(master: Master, survivors: int) -> None:
    """Data, indexes, changelog and vector come back from the same moment, and CSNs go on above it (G1)."""
    first = master.do(person("ada"))
    csns = [first] + [
        master.replica.execute(person(each), ADMIN, lambda csn: None) for each in ("bob", "cyd", "dan")
    ]
    master.restart(survivors)
    names = ["ada", "bob", "cyd", "dan"][: survivors + 1]
    assert master.dns("(uid=*)") == [f"uid={each},{PEOPLE}" for each in names]
    assert master.replica.vector.newest() == csns[survivors]
    assert stored_rows(master, decoded_ready) == derived_rows(master.replica)
    with master.replica.updates_since(Vector.of("g")) as reader:
        assert list(reader)[-1].csn == csns[survivors]
    assert master.do(person("eve")) > max(csns)


def test_a_failed_commit_is_the_end(master: Master) -> None:
    """Nothing is answered after it, and the owner hears of it once (D1)."""
    done: list[object] = []
    master.replica.execute(person("ada"), ADMIN, done.append)
    master.replica.execute(person("bob"), ADMIN, done.append)
    master.store.fail()
    assert done == []
    assert len(master.told.failed) == 1
    with pytest.raises(DirectoryError) as error:
        master.replica.execute(person("cyd"), ADMIN, done.append)
    assert error.value.result == ResultCode.UNAVAILABLE


def test_masters_that_exchange_updates_are_equal() -> None:
    """What one issued the other applies, under its CSN; what comes twice changes nothing."""
    one = Master(1)
    two = Master(2, one.world)
    one.populate()
    one.send_to(two)
    one.do(person("ada"))
    two.do(person("bob"))
    two.do(person("ada", description="another"))
    one.send_to(two)
    two.send_to(one)
    one.send_to(two)
    assert one.replica.dump() == two.replica.dump()
    assert one.replica.vector == two.replica.vector
    assert one.dns() == two.dns()
    assert len(one.dns("(uid=ada)")) == 2
    (loser,) = [each for each in one.search("(uid=ada)") if each.dn.startswith("entryUUID=")]
    assert one.search("(objectClass=*)", loser.dn, Scope.BASE)[0].id == loser.id
    assert len(one.replica.conflicts()) == 1
    assert one.dns("(conflict=*)") == one.dns("(conflict=name: another*)") == [loser.dn]
    with one.replica.updates_since(Vector.of("g")) as reader:
        assert list(reader.csns()) == [each.csn for each in reader]
        updates = list(reader)
    with two.replica.updates_since(Vector.of("g")) as reader:
        assert list(reader) == updates  # each keeps the other's, to pass them on
    told = len(two.told.committed)
    two.replica.apply("m1", updates, "again")
    two.store.commit()
    assert one.replica.dump() == two.replica.dump()
    assert two.told.applied[-1] == "again"
    assert len(two.told.committed) == told
    # The one that lost its name can be renamed under the name that it is shown with.
    one.do(rename(loser.dn, "uid=ada2"))
    assert one.replica.conflicts() == []
    assert stored_rows(one, decoded_ready) == derived_rows(one.replica)


def test_what_is_trimmed_is_not_sent() -> None:
    """Who lacks trimmed updates is told to be initialised; a replica's newest update always stays."""
    one = Master(1)
    one.populate()
    for each in ("ada", "bob", "cyd"):
        one.do(person(each))
    assert one.replica.trim(one.replica.vector, "trim") == 4
    one.store.commit()
    assert one.replica.trim(one.replica.vector, "trim") == 0
    one.store.commit()
    with pytest.raises(NeedsInitialisation):
        one.replica.updates_since(Vector.of("g"))
    with one.replica.updates_since(one.replica.trimmed) as reader:
        assert len(list(reader)) == 1
    one.restart()
    with pytest.raises(NeedsInitialisation):
        one.replica.updates_since(Vector.of("g"))


def test_a_heartbeat_moves_the_vector_and_changes_nothing(master: Master) -> None:
    before = master.replica.dump()
    csn = master.replica.heartbeat("beat")
    master.store.commit()
    assert master.replica.vector.newest() == csn
    assert master.told.applied == ["beat"]
    assert master.replica.dump() == before
    other = Master(2, master.world)
    master.send_to(other)
    other.replica.apply("m1", (), "mark", complete_to=[csn])
    other.store.commit()
    assert other.replica.vector == master.replica.vector


def test_purging_to_one_vector_leaves_equal_states() -> None:
    one = Master(1)
    two = Master(2, one.world)
    one.populate()
    for each in ("ada", "bob"):
        one.do(person(each, mail="a@x"))
    one.do(modify(f"uid=ada,{PEOPLE}", ("delete", "mail", [])))
    one.do(delete(f"uid=bob,{PEOPLE}"))
    one.send_to(two)
    two.do(modify(f"uid=ada,{PEOPLE}", ("add", "mail", "b@x")))
    two.send_to(one)
    dumps = []
    for each in (one, two):
        each.purge(one.replica.vector)
        dumps.append(each.replica.dump())
        each.restart()
        assert each.replica.dump() == dumps[-1]
        assert stored_rows(each, decoded_ready) == derived_rows(each.replica)
    assert dumps[0] == dumps[1]
    assert len(one.image.maps["entries"].rows) == 3


@pytest.mark.parametrize("survivors", range(8))
def test_a_purge_that_is_cut_short_is_done_again(survivors: int) -> None:
    """Each slice is a transaction; the next start finishes what the power cut short."""
    one = Master(1, purge_slice=1)
    one.populate()
    for each in ("ada", "bob", "cyd", "dan", "eve"):
        one.do(person(each, mail="a@x"))
        one.do(modify(f"uid={each},{PEOPLE}", ("delete", "mail", [])))
    one.replica.purge(one.replica.vector, "purge")
    while one.replica.is_purging:
        one.replica.purge_on()
    purged = one.replica.dump()
    assert one.store.on_its_way == 1 + 5 + 1
    one.restart(survivors)
    assert one.replica.is_purging == (0 < survivors < 7)
    while one.replica.is_purging:
        one.replica.purge_on()
    if survivors:
        one.store.commit()
        assert one.replica.dump() == purged
        one.restart()
        assert one.replica.dump() == purged
    assert stored_rows(one, decoded_ready) == derived_rows(one.replica)


def test_changes_come_between_two_slices_of_a_purge() -> None:
    """On the disk or on their way there: none is lost, whoever asked for the purge hears when it is done, and
    what is left is what a purge at one go leaves."""
    one = Master(1, purge_slice=1)
    other = Master(2, one.world)
    one.populate()
    names = ("ada", "bob", "cyd", "dan")
    for each in names:
        one.do(person(each, mail="a@x"))
        one.do(modify(f"uid={each},{PEOPLE}", ("replace", "mail", "b@x")))
    one.do(delete(f"uid=dan,{PEOPLE}"))
    one.send_to(other)
    vector = one.replica.vector
    other.purge(vector)
    one.replica.purge(vector, "purge")
    for number in range(3):
        for each in names[:3]:
            change = modify(f"uid={each},{PEOPLE}", ("replace", "mail", f"{number}@x"))
            one.replica.execute(change, ADMIN, lambda csn: None)
            one.replica.purge_on()
        if number == 0:
            one.store.commit()
            assert one.replica.is_purging
            assert "purge" not in one.told.applied
    while one.replica.is_purging:
        one.replica.purge_on()
    one.store.commit()
    assert "purge" in one.told.applied
    assert {view.attributes["mail"] for view in one.search("(uid=*)")} == {(b"2@x",)}
    one.send_to(other)
    for each_master in (one, other):
        each_master.purge(one.replica.vector)
    assert one.replica.dump() == other.replica.dump()


FILTERS = (
    "(objectClass=*)",
    "(objectClass=person)",
    "(uid=a)",
    "(uid=*)",
    "(mail=*)",
    "(cn=*erson*)",
    "(cn=pers*b)",
    "(sn>=b)",
    "(sn<=b)",
    "(|(uid=a)(mail=x@y))",
    "(&(objectClass=inetOrgPerson)(!(uid=b)))",
    "(name=a)",
    "(description;lang-de=*)",
    "(hasSubordinates=TRUE)",
    "(cn:caseExactMatch:=Person a)",
    "(ou:dn:=people)",
    "(&(uid=a)(nonsense=b))",
    "(modifiersName=cn=admin,dc=example,dc=com)",
)


@pytest.mark.parametrize("seed", range(6))
def test_rows_follow_random_histories(seed: int) -> None:
    """Whatever masters do to few names, and in whatever order they hear of it, what is stored of names and
    indexes is what the state alone gives, and every search finds by index what it finds by looking."""
    rng = random.Random(seed)
    world = Master(1)
    masters = [world, Master(2, world.world)]
    world.populate()
    for each in ("a", "b"):
        world.do(add(f"ou={each},{PEOPLE}", "organizationalUnit", ou=each))
    world.send_to(masters[1])
    for _ in range(60):
        master = rng.choice(masters)
        try:
            master.do(random_change(rng, master))
        except DirectoryError:
            continue
        finally:
            master.store.commit()
        if rng.random() < 0.2:
            sender, receiver = rng.sample(masters, 2)
            sender.send_to(receiver)
        if rng.random() < 0.05:
            master.restart()
    for _ in range(2):
        masters[0].send_to(masters[1])
        masters[1].send_to(masters[0])
    assert masters[0].replica.dump() == masters[1].replica.dump()
    for master in masters:
        assert stored_rows(master, decoded_ready) == derived_rows(master.replica)
    for filter_ in FILTERS:
        assert masters[0].dns(filter_) == looked_up(masters[0], filter_) == masters[1].dns(filter_)


def looked_up(master: Master, filter_: str) -> list[str]:
    """What a search must find, by asking every entry."""
    everything = master.search()
    snapshot = master.replica.snapshot()
    question = Question(parse_filter(filter_), snapshot)
    found = sorted(each.dn for each in everything if question(each))
    snapshot.close()
    return found


def random_change(rng: random.Random, master: Master) -> Change:
    dns = master.dns()
    dn = rng.choice(dns)
    uid = rng.choice("abc")
    match rng.randrange(6):
        case 0 | 1:
            parent = rng.choice([each for each in dns if each.startswith("ou=")] or [PEOPLE])
            return add(f"uid={uid},{parent}", "inetOrgPerson", uid=uid, cn=f"Person {uid}", sn=uid)
        case 2:
            return delete(dn)
        case 3:
            return modify(dn, (rng.choice(("add", "replace", "delete")), "mail", rng.choice(("x@y", "z@y"))))
        case 4:
            return modify(dn, ("replace", "description;lang-de", rng.choice(([], "eins", ["zwei", "drei"]))))
        case _:
            superior = rng.choice([None, *dns])
            word = "ou" if dn.startswith("ou=") else "uid"
            return rename(dn, f"{word}={uid}", superior, keep_old=rng.random() < 0.3)


def test_what_others_made_of_an_entry_is_not_held_against_a_client() -> None:
    """Two masters at once take a class away and use it. Who then changes a value is not to blame; who adds an
    attribute, or changes the classes, is told what is wrong."""
    one = Master(1)
    two = Master(2, one.world)
    one.populate()
    dn = f"uid=a,ou=people,{SUFFIX}"
    account = (("add", "uidNumber", "1"), ("add", "gidNumber", "1"), ("add", "homeDirectory", "/"))
    one.do(person("a", description="old"))
    one.do(modify(dn, ("add", "objectClass", "posixAccount"), *account))
    one.send_to(two)
    gone = [("delete", each, []) for each in ("uidNumber", "gidNumber", "homeDirectory")]
    one.do(modify(dn, ("delete", "objectClass", "posixAccount"), *gone))
    two.do(modify(dn, ("add", "loginShell", "/bin/sh")))
    two.send_to(one)
    assert one.dns("(loginShell=/bin/sh)") == [dn]
    one.do(modify(dn, ("replace", "description", "new")))
    assert one.dns("(description=new)") == [dn]
    for wrong in (("add", "title", "x"), ("add", "objectClass", "pkiUser")):
        with pytest.raises(DirectoryError) as refused:
            one.do(modify(dn, wrong))
        assert refused.value.result is ResultCode.OBJECT_CLASS_VIOLATION
    one.do(modify(dn, ("delete", "loginShell", [])))
    one.do(modify(dn, ("add", "title", "x")))
    assert stored_rows(one, decoded_ready) == derived_rows(one.replica)


def test_a_value_that_was_there_is_not_looked_at_again() -> None:
    """A group has thousands: a member more costs as much as that one member, and a value that another master
    took, by whatever schema, is not held against who adds one beside it."""
    master = Master()
    master.populate()
    group = f"cn=all,{SUFFIX}"
    members = [f"uid=u{number},{SUFFIX}" for number in range(400)]
    master.do(add(group, "groupOfNames", cn="all", member=members[:-1]))
    looked_at: list[bytes] = []

    def looks(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code is NAME_FAULT.__code__:
            looked_at.append(frame.f_locals["value"])

    sys.setprofile(looks)
    try:
        master.do(modify(group, ("add", "member", members[-1])))
        master.do(modify(group, ("delete", "member", members[0])))
        master.do(modify(group, ("replace", "member", [*members[1:], f"uid=new,{SUFFIX}"])))
    finally:
        sys.setprofile(None)
    assert [each for each in looked_at if each.startswith(b"uid=")] == [
        members[-1].encode(),
        f"uid=new,{SUFFIX}".encode(),
    ]
    with pytest.raises(DirectoryError, match="no value of member"):
        master.do(modify(group, ("add", "member", "no name")))
    with pytest.raises(DirectoryError, match="no value of member"):
        master.do(modify(group, ("replace", "member", [members[1], "no name"])))


def test_what_was_purged_is_not_walked_over_again_at_the_next_start() -> None:
    """That takes as long as there are entries, and nobody is answered meanwhile; a purge that the power cut
    short is finished."""
    master = Master()
    master.populate()
    dn = f"uid=a,ou=people,{SUFFIX}"
    master.do(person("a", description="old"))
    master.do(modify(dn, ("replace", "description", "new")))
    vector = master.replica.vector
    walked: list[str] = []

    def looks(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code is Purging.__init__.__code__:
            walked.append(event)

    def ensured(survivors: int) -> bytes:
        master.restart(survivors)
        walked.clear()
        sys.setprofile(looks)
        try:
            master.replica.ensure_purged(vector)
        finally:
            sys.setprofile(None)
        master.store.commit()
        return master.replica.dump()

    master.replica.purge(vector, "cut short")
    done = ensured(0)
    assert walked == ["call"]
    assert ensured(9) == done
    assert walked == []


def test_a_store_of_the_format_before_is_read_and_becomes_one_of_this() -> None:
    """Its rows have no answers ready; an entry that changes gets them."""
    master = Master()
    master.populate()
    master.do(person("a", description="old"))
    maps = master.image.maps
    before = {key: decoded_ready(row) for key, row in maps["shown"].rows.items()}
    assert all(each.kind for each in before.values())
    for key, each in before.items():
        maps["shown"].set(key, encoded_shown(Shown(each.parent, each.name, each.key)))
    identity = {"format": 1, "suffix": SUFFIX, "generation": "g"}
    maps["replica"].set(b"identity", msgspec.msgpack.encode(identity))
    master.restart()
    assert msgspec.msgpack.decode(master.image.maps["replica"].rows[b"identity"])["format"] == 2
    assert [each.attributes["description"] for each in master.search("(uid=a)")] == [(b"old",)]
    master.do(modify(f"uid=a,{PEOPLE}", ("replace", "description", "new")))
    shown = [decoded_ready(row) for row in master.image.maps["shown"].rows.values()]
    assert [b"new" in each.attributes for each in shown if each.kind] == [True]


def test_no_answer_is_ready_of_what_is_special() -> None:
    """Of a password nothing is in a row that is sent as it is; of a large group a change would write all."""
    master = Master()
    master.populate()

    def row(uid: str) -> Ready:
        (entry,) = master.search(f"(uid={uid})")
        return decoded_ready(master.image.maps["shown"].rows[entry.id])

    master.do(person("a", description="x" * 300))
    assert set(parts_of(row("a").attributes)) == {b"cn", b"description", b"objectClass", b"sn", b"uid"}
    secret = hashed(b"secret", bytes(16), ROUNDS).decode()
    master.do(modify(f"uid=a,{PEOPLE}", ("add", "userPassword", secret)))
    assert row("a").kind == HIDES
    assert secret.encode() not in row("a").attributes
    master.do(modify(f"uid=a,{PEOPLE}", ("delete", "userPassword", [])))
    assert row("a").kind == OPEN
    master.do(modify(f"uid=a,{PEOPLE}", ("replace", "description", [f"{n:0100}" for n in range(100)])))
    assert row("a").kind == 0
    master.do(modify(f"uid=a,{PEOPLE}", ("replace", "description", "y")))
    assert row("a").kind == OPEN
    assert b"\x04\x01y" in parts_of(row("a").attributes)[b"description"]
