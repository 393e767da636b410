"""The visible tree: names, glue and cycles, as they follow from the entries' states."""

from directory_world import ANN, GROUPS, PEOPLE, SUFFIX, Issued, Master, base, built, entry_id, name

from holdfast.directory.primitives import RemoveEntry, uuid_text

BOB, OTHER, DEEP = entry_id(10), entry_id(11), entry_id(12)


def pair() -> tuple[Master, Master]:
    a, b = Master(1), Master(2)
    b.take(a.issue(base))
    return a, b


def meet(a: Master, b: Master) -> None:
    for each in sorted({**a.known, **b.known}):
        for master in (a, b):
            if each not in master.known:
                master.take((b if master is a else a).known[each])


def test_the_first_keeps_the_name_and_the_other_gets_it_when_it_goes() -> None:
    a, b = pair()
    b.issue(lambda ask: ask.add_entry(OTHER, PEOPLE, name("Bob")), later=1)
    a.issue(lambda ask: ask.add_entry(BOB, PEOPLE, name("bob")))
    meet(a, b)
    assert b.tree.path(BOB) == ("cn=bob", "ou=people", "dc=top")
    assert b.tree.path(OTHER)[0] == f"entryUUID={uuid_text(OTHER)}+cn=Bob"
    assert b.tree.claimants(PEOPLE, name("bob").key) == [BOB, OTHER]
    b.issue(lambda ask: ask.remove_entry(BOB))
    meet(a, b)
    for master in (a, b):
        assert master.tree.path(OTHER)[0] == "cn=Bob"
        assert master.tree.holder(PEOPLE, name("bob").key) == OTHER
        assert not master.tree.contested


def test_a_removed_parent_is_glue_as_long_as_it_has_a_live_child() -> None:
    """Also a chain of them; and a new entry of that name takes the name from it."""
    a, b = pair()
    a.issue(lambda ask: ask.remove_entry(ANN))
    b.issue(lambda ask: ask.add_entry(BOB, ANN, name("bob")))
    b.issue(lambda ask: ask.add_entry(DEEP, BOB, name("deep")))
    meet(a, b)
    assert a.tree.path(BOB) == ("cn=bob", "cn=ann", "ou=people", "dc=top")
    assert list(a.tree.glue) == [ANN]
    a.issue(lambda ask: ask.add_entry(OTHER, PEOPLE, name("ann")))
    assert a.tree.path(OTHER)[0] == "cn=ann"
    assert a.tree.name(ANN) == f"entryUUID={uuid_text(ANN)}+cn=ann"
    a.issue(lambda ask: ask.remove_entry(DEEP))
    a.issue(lambda ask: ask.remove_entry(BOB))
    meet(a, b)
    for master in (a, b):
        assert not master.tree.is_visible(ANN)
        assert not master.tree.glue


def test_the_younger_move_of_a_cycle_is_not_done() -> None:
    a, b = pair()
    a.issue(lambda ask: ask.move(PEOPLE, GROUPS))
    b.issue(lambda ask: ask.move(GROUPS, PEOPLE), later=1)
    meet(a, b)
    for master in (a, b):
        assert master.tree.path(PEOPLE) == ("ou=people", "ou=groups", "dc=top")
        assert list(master.tree.broken) == [GROUPS]
    a.issue(lambda ask: ask.move(PEOPLE, SUFFIX))
    assert a.tree.path(GROUPS) == ("ou=groups", "ou=people", "dc=top"), "the other move is done now"
    assert not a.tree.broken


def test_a_cycle_whose_way_back_is_gone_stands_at_the_root() -> None:
    a, b = pair()
    added = a.issue(lambda ask: ask.add_entry(BOB, SUFFIX, name("bob")))
    b.take(added)
    b.issue(lambda ask: ask.move(GROUPS, BOB))
    meet(a, b)
    a.issue(lambda ask: ask.move(PEOPLE, GROUPS))
    a.issue(lambda ask: ask.remove_entry(BOB))
    b.issue(lambda ask: ask.move(GROUPS, PEOPLE), later=5)
    meet(a, b)
    for master in (a, b):
        assert list(master.tree.broken) == [GROUPS]
        assert master.tree.path(PEOPLE) == ("ou=people", f"entryUUID={uuid_text(GROUPS)}+ou=groups")
    early = built(each for each in a.known.values() if not isinstance(each.changes[0], RemoveEntry))
    assert early.tree.path(GROUPS) == ("ou=groups", "cn=bob", "dc=top")


def test_a_child_may_arrive_before_its_parent() -> None:
    a, _ = pair()
    parent = a.issue(lambda ask: ask.add_entry(BOB, PEOPLE, name("bob")))
    child = a.issue(lambda ask: ask.add_entry(DEEP, BOB, name("deep")))
    first = a.known[min(a.known)]
    early = built([first, child])
    assert early.tree.path(DEEP) == ("cn=deep", f"entryUUID={uuid_text(BOB)}")
    early.take(parent)
    assert early.tree.path(DEEP) == ("cn=deep", "cn=bob", "ou=people", "dc=top")
    assert early.state.dump() == a.state.dump()


def test_what_is_forgotten_leaves_nothing_behind() -> None:
    a, _ = pair()
    issued: list[Issued] = [a.issue(lambda ask: ask.add_entry(BOB, PEOPLE, name("bob")))]
    issued.append(a.issue(lambda ask: ask.remove_entry(BOB)))
    a.purge(issued[-1].csn, 2)
    assert BOB not in a.state.entries
    assert not a.tree.is_visible(BOB)
    assert list(a.tree.children(PEOPLE)) == [ANN]
