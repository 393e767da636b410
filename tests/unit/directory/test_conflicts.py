"""Every conflict shows both sides, and a change that has seen both resolves it."""

import random

import pytest
from directory_replica import SUFFIX as SUFFIX_DN
from directory_replica import Master as ReplicaMaster
from directory_replica import modify, person
from directory_steps import History
from directory_world import ANN, GROUPS, PEOPLE, SUFFIX, Issued, Master, base, built, entry_id, name, value

from holdfast.directory.conflicts import Conflict, Disputes, Kind, conflicts, is_shared
from holdfast.directory.entry import EntryState, decoded_entry, encoded_entry, is_surely_of, placed_entry
from holdfast.directory.issuing import settle
from holdfast.directory.primitives import (
    ROOT,
    AddEntry,
    AddValue,
    Primitive,
    RemoveAttribute,
    RemoveEntry,
)
from holdfast.directory.resolving import resolve
from holdfast.directory.seen import NOTHING, Seen
from holdfast.directory.tree import Facts
from holdfast.model.csn import Csn
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import ReplicaId

NEW, OTHER = entry_id(10), entry_id(11)


def concurrent(first, second) -> Master:
    """A third master that has heard of both; the second has the greater CSN."""
    a, b = Master(1), Master(2)
    begun = a.issue(base)
    b.take(begun)
    return built([begun, a.issue(first), b.issue(second)])


def only(master: Master) -> Conflict:
    [conflict] = master.conflicts()
    return conflict


def settled(master: Master, conflict: Conflict, *, keep: bool) -> Master:
    csn = Csn(max(master.known).timestamp + 1, 0, master.replica)
    changes = settle(master.state, master.tree, conflict, csn, keep=keep)
    other = built(master.known.values())
    other.take(Issued(csn, tuple(changes), frozenset(master.known)))
    return other


def title(text: str):
    return lambda ask: ask.replace(ANN, "title", [value(text)], is_single=True)


def test_two_single_values() -> None:
    master = concurrent(title("one"), title("two"))
    conflict = only(master)
    assert conflict.kind is Kind.VALUE
    assert (conflict.kept.value, conflict.lost.value) == (value("two"), value("one"))
    assert conflict.id.endswith(f"-value-{conflict.lost.csn}")
    for keep, expected in ((True, b"two"), (False, b"one")):
        after = settled(master, conflict, keep=keep)
        assert not after.conflicts()
        assert after.view().entries[ANN][1]["title"] == (expected,)


def test_a_value_removed_and_added() -> None:
    """Replaced by itself at one master while the other removes the attribute."""
    master = concurrent(
        lambda ask: ask.remove_attribute(ANN, "mail"), lambda ask: ask.replace(ANN, "mail", [value("x")])
    )
    conflict = only(master)
    assert conflict.lost.change == "remove-attribute"
    assert conflict.kept.value == value("x")
    assert settled(master, conflict, keep=True).view().entries[ANN][1]["mail"] == (b"x",)
    assert "mail" not in settled(master, conflict, keep=False).view().entries[ANN][1]


def test_values_that_a_younger_removal_did_not_know() -> None:
    master = concurrent(
        lambda ask: ask.add_value(ANN, "mail", value("z")), lambda ask: ask.remove_attribute(ANN, "mail")
    )
    conflict = only(master)
    assert (conflict.kept.change, conflict.lost.value) == ("remove-attribute", value("z"))
    assert "mail" not in settled(master, conflict, keep=True).view().entries[ANN][1]
    assert settled(master, conflict, keep=False).view().entries[ANN][1]["mail"] == (b"z",)


def test_the_same_wish_twice_is_no_conflict() -> None:
    same = [
        lambda ask: ask.add_value(ANN, "mail", value("Z")),
        lambda ask: ask.remove_value(ANN, "mail", value("x")),
        lambda ask: ask.rename(ANN, name("anna")),
        lambda ask: ask.move(ANN, GROUPS),
        lambda ask: ask.remove_entry(ANN),
        lambda ask: ask.remove_attribute(ANN, "mail"),
    ]
    for ask in same:
        assert not concurrent(ask, ask).conflicts()


def test_two_names_and_two_parents() -> None:
    master = concurrent(lambda ask: ask.rename(ANN, name("anna")), lambda ask: ask.rename(ANN, name("hanna")))
    conflict = only(master)
    assert conflict.kind is Kind.RENAME
    assert settled(master, conflict, keep=False).tree.name(ANN) == "cn=anna"
    assert not settled(master, conflict, keep=True).conflicts()
    master = concurrent(lambda ask: ask.move(ANN, GROUPS), lambda ask: ask.move(ANN, SUFFIX))
    conflict = only(master)
    assert conflict.kind is Kind.MOVE
    after = settled(master, conflict, keep=False)
    assert after.tree.parent(ANN) == GROUPS
    assert not after.conflicts()


@pytest.mark.parametrize("is_delete_younger", [True, False])
def test_a_removed_entry_stays_removed_and_what_was_lost_is_told(is_delete_younger: bool) -> None:
    asked = [title("chief"), lambda ask: ask.remove_entry(ANN)]
    master = concurrent(*(asked if is_delete_younger else asked[::-1]))
    conflict = only(master)
    assert ANN not in master.view().entries
    assert conflict.kind is Kind.REMOVED
    assert conflict.lost.value == value("chief")
    assert not settled(master, conflict, keep=True).conflicts()
    with pytest.raises(InvalidRequest, match="add a new one"):
        settled(master, conflict, keep=False)


def test_what_people_resolve() -> None:
    master = concurrent(
        lambda ask: ask.add_entry(NEW, PEOPLE, name("bob")),
        lambda ask: ask.add_entry(OTHER, PEOPLE, name("bob")),
    )
    conflict = only(master)
    assert (conflict.kind, conflict.entry, conflict.kept.entry) == (Kind.NAME, OTHER, NEW)
    with pytest.raises(InvalidRequest, match="rename"):
        settled(master, conflict, keep=True)
    master = concurrent(lambda ask: ask.remove_entry(ANN), lambda ask: ask.add_entry(NEW, ANN, name("phone")))
    conflict = only(master)
    assert (conflict.kind, conflict.entry, conflict.kept.entry) == (Kind.GLUE, ANN, NEW)
    master = concurrent(lambda ask: ask.move(PEOPLE, GROUPS), lambda ask: ask.move(GROUPS, PEOPLE))
    conflict = only(master)
    assert (conflict.kind, conflict.entry) == (Kind.CYCLE, GROUPS)
    assert (conflict.kept.parent, conflict.lost.parent) == (SUFFIX, PEOPLE)


def test_a_value_of_the_name_stays_although_it_was_removed() -> None:
    a, b = Master(1), Master(2)
    begun = a.issue(base)
    b.take(begun)
    added = a.issue(lambda ask: ask.add_value(ANN, "cn", value("anna")))
    b.take(added)
    issued = [
        a.issue(lambda ask: ask.rename(ANN, name("anna"))),
        b.issue(lambda ask: ask.remove_value(ANN, "cn", value("anna")), later=5),
    ]
    master = built([begun, added, *issued])
    assert master.view().entries[ANN][1]["cn"] == (b"ann", b"anna")
    conflict = only(master)
    assert (conflict.kept.change, conflict.lost.change) == ("add-value", "remove-value")
    with pytest.raises(InvalidRequest, match="part of the entry's name"):
        settled(master, conflict, keep=False)


def test_only_disputed_entries_are_looked_at(rounds) -> None:
    """Whatever many masters did: looking at the entries that are kept as disputed finds what looking at all
    of them finds."""
    found = 0
    for seed in range(rounds(short=20, long=1000)):
        rng = random.Random(seed)
        history = History()
        history.run(
            [
                (rng.randrange(3), rng.randrange(history.verbs), rng.randrange(8), rng.randrange(8))
                for _ in range(80)
            ]
        )
        for each in history.masters:
            disputes = Disputes()
            for entry in each.state.entries.values():
                disputes.update(entry)
            expected = list(conflicts(each.state, each.tree))
            assert list(conflicts(each.state, each.tree, disputes)) == expected
            found += len(expected)
    assert found > 100


def test_a_replica_keeps_its_disputes_up_to_date() -> None:
    """A conflict that arrives is listed at once, also after a restart, and goes when it is resolved."""
    first = ReplicaMaster(1)
    first.populate()
    first.do(person("ada"))
    second = ReplicaMaster(2, first.world)
    first.send_to(second)
    ada = f"uid=ada,ou=people,{SUFFIX_DN}"
    first.do(modify(ada, ("replace", "displayName", "one")))
    second.do(modify(ada, ("replace", "displayName", "two")))
    assert second.replica.conflicts() == []
    first.send_to(second)
    (conflict,) = second.replica.conflicts()
    second.restart()
    assert second.replica.conflicts() == [conflict]
    second.replica.settle(conflict, lambda csn: None, keep=True)
    second.store.commit()
    assert second.replica.conflicts() == []


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("number", [1, 0x7F, 0x80, 0xFF, 0x100, 0x2FB])
def test_what_is_surely_of_one_master_is_shared_by_none(seed: int, number: int) -> None:
    """A store that is opened is looked through for entries that several masters have changed, by their bytes:
    none may be passed over, and most of the others are."""
    rng = random.Random(seed)
    replicas = [ReplicaId(number), ReplicaId(rng.choice((2, 0x90, 0x94, 0x300, 0x9494)))]
    now = Csn(0x6AFE7D3D, 0, replicas[0])
    surely = 0
    for at in range(60):
        entry = EntryState(entry_id(at + 1))
        writers = replicas[: 1 + (at % 4 == 0)]
        for step in range(12):
            is_misleading = at % 3 == 0
            sequence = rng.choice((step, 0x94 if is_misleading else 0x95, 0x1234))
            csn = Csn(now.timestamp + 1 + step, sequence, rng.choice(writers), rng.randrange(3))
            seen = Seen.of([csn]) if rng.random() < 0.3 else NOTHING
            text = rng.choice(("plain", "\u2014" if is_misleading else "\u201c", f"{step}"))
            if step == 0:
                change: Primitive = AddEntry(csn=csn, entry=entry.id, parent=ROOT, name=name("x"))
            elif rng.random() < 0.7:
                change = AddValue(csn=csn, entry=entry.id, seen=seen, attribute="mail", value=value(text))
            elif rng.random() < 0.9:
                change = RemoveAttribute(csn=csn, entry=entry.id, seen=seen, attribute="mail")
            else:
                change = RemoveEntry(csn=csn, entry=entry.id, seen=seen)
            entry = resolve(entry, change)
        row = encoded_entry(entry)
        assert encoded_entry(decoded_entry(row)) == row
        if is_surely_of(entry.modified.replica, row):
            surely += 1
            assert not is_shared(entry)
        placed = placed_entry(row)
        assert Facts.of(placed) == Facts.of(entry)
    assert surely >= 10
