"""Old state goes, and nothing that anyone can see goes with it."""

from collections.abc import Callable

import pytest
from directory_world import ANN, GROUPS, PEOPLE, Master, base, built, entry_id, name, value

from holdfast.clock.vector import Vector
from holdfast.directory.issuing import Operation
from holdfast.directory.purging import has_nothing_old, purge, purged_entry
from holdfast.directory.resolving import NeedsInitialisation, horizon_of
from holdfast.model.csn import ZERO, Csn
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import ReplicaId

CHILD, LATE = entry_id(10), entry_id(11)


def masters(count: int = 3) -> list[Master]:
    made = [Master(number) for number in range(1, count + 1)]
    first = made[0].issue(base)
    for other in made[1:]:
        other.take(first)
    return made


def sync(made: list[Master]) -> None:
    for each in made:
        for other in made:
            for csn in sorted(other.known):
                if csn not in each.known:
                    each.take(other.known[csn])


def test_state_of_what_all_know_goes() -> None:
    """A thousand replaced and removed values leave no more than the last ones."""
    a, *_ = masters()
    a.purge(max(a.known), 3)
    before = len(a.state.dump())
    for number in range(300):
        a.issue(lambda ask, number=number: ask.add_value(ANN, "mail", value(f"m{number}")))
        a.issue(lambda ask, number=number: ask.remove_value(ANN, "mail", value(f"m{number}")))
        a.issue(lambda ask, number=number: ask.replace(ANN, "title", [value(f"t{number}")], is_single=True))
    a.issue(lambda ask: ask.remove_entry(GROUPS))
    assert len(a.state.dump()) > before + 300 * 10
    seen = a.view()
    a.purge(max(a.known), 3)
    assert a.view() == seen
    assert GROUPS not in a.state.entries
    assert len(a.state.dump()) < before


def test_one_hot_value_takes_no_room_even_before_purging() -> None:
    a, *_ = masters()
    sizes = []
    for number in range(100):
        a.issue(lambda ask, number=number: ask.replace(ANN, "title", [value(f"{number:04}")], is_single=True))
        sizes.append(len(a.state.dump()))
    assert sizes[-1] == sizes[1]


def test_conflicts_survive_and_go_when_they_are_resolved() -> None:
    a, b, c = masters()
    a.issue(lambda ask: ask.replace(ANN, "title", [value("one")], is_single=True))
    b.issue(lambda ask: ask.replace(ANN, "title", [value("two")], is_single=True), later=1)
    a.issue(lambda ask: ask.remove_attribute(ANN, "mail"))
    b.issue(lambda ask: ask.add_value(ANN, "mail", value("z")))
    a.issue(lambda ask: ask.rename(ANN, name("anna")))
    c.issue(lambda ask: ask.rename(ANN, name("hanna")))
    sync([a, b, c])
    seen = a.view()
    assert {kind for kind, *_ in seen.losses} == {"value", "rename"}
    a.purge(max(a.known), 3)
    b.purge(max(b.known), 3)
    assert a.view() == b.view() == seen
    assert a.state.dump() == b.state.dump()


def test_a_tombstone_stays_while_someone_may_still_add_below_it() -> None:
    """A moves the last child away from glue that B still sees, and adds below."""
    a, b, c = masters()
    a.issue(lambda ask: ask.remove_entry(GROUPS))
    c.issue(lambda ask: ask.add_entry(CHILD, GROUPS, name("child")))
    sync([a, b, c])
    known_to_all = max(a.known)
    a.issue(lambda ask: ask.move(CHILD, PEOPLE))
    late = b.issue(lambda ask: ask.add_entry(LATE, GROUPS, name("late")))
    a.purge(known_to_all, 3)
    assert not a.tree.is_visible(GROUPS)
    a.take(late)
    assert a.tree.path(LATE) == ("cn=late", "ou=groups", "dc=top")
    sync([a, b, c])
    for each in (a, b, c):
        each.purge(max(a.known), 3)
    assert a.state.dump() == b.state.dump() == c.state.dump()


def test_a_change_that_comes_again_after_purging_changes_nothing() -> None:
    a, *_ = masters()
    added = a.issue(lambda ask: ask.add_value(ANN, "mail", value("z")))
    a.issue(lambda ask: ask.remove_value(ANN, "mail", value("z")))
    a.purge(max(a.known), 3)
    dump = a.state.dump()
    a.take(added)
    assert a.state.dump() == dump


def test_a_change_older_than_purged_state_that_never_came_is_refused() -> None:
    """Of a replica that the vector does not have: nobody knew of it, and dropping it would be silent."""
    a, *_ = masters()
    stranger = built(a.known.values(), number=7)
    early = stranger.issue(lambda ask: ask.add_value(ANN, "mail", value("z")))
    a.issue(lambda ask: ask.add_value(ANN, "mail", value("w")), later=5)
    a.purge(max(a.known), 3)
    with pytest.raises(NeedsInitialisation, match="initialise"):
        a.take(early)


def test_purging_does_not_go_back() -> None:
    a, *_ = masters()
    a.issue(lambda ask: ask.add_value(ANN, "mail", value("z")))
    a.purge(max(a.known), 3)
    with pytest.raises(InvalidRequest, match="already"):
        purge(a.state, Vector.of("g", [Csn(1, 0, ReplicaId(1))]))


def test_the_horizon_is_that_of_the_slowest_and_has_its_whole_operation() -> None:
    vector = Vector.of("g", [Csn(9, 0, ReplicaId(1)), Csn(4, 2, ReplicaId(2))])
    assert horizon_of(vector) == Csn(4, 2, ReplicaId(2), 0xFFFF)
    assert horizon_of(None) == horizon_of(Vector.of("g")) == ZERO


def test_a_quick_look_spares_only_what_purging_leaves_as_it_is() -> None:
    """Entries that were added and never changed are not worked through; whatever the quick look passes over
    would have come out equal."""
    a, b, _ = masters()
    spared = []

    def look(number: int) -> None:
        horizon = horizon_of(Vector.of("g", [max(a.known)]))
        for entry in a.state.entries.values():
            if has_nothing_old(entry):
                assert purged_entry(entry, horizon) == entry
                spared.append((number, entry.id))

    look(0)
    assert (0, ANN) in spared
    steps: list[Callable[[Operation], None]] = [
        lambda ask: ask.add_value(ANN, "mail", value("m")),
        lambda ask: ask.remove_value(ANN, "mail", value("m")),
        lambda ask: ask.replace(ANN, "title", [value("t")], is_single=True),
        lambda ask: ask.rename(GROUPS, name("ou=teams"), remove_old=True),
        lambda ask: ask.remove_attribute(ANN, "title"),
        lambda ask: ask.remove_entry(GROUPS),
    ]
    for number, step in enumerate(steps, 1):
        a.issue(step)
        look(number)
    sync([a, b])
    assert (1, ANN) in spared
    assert (2, ANN) not in spared
    assert (4, GROUPS) not in spared
    assert (6, PEOPLE) in spared
