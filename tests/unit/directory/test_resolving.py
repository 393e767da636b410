"""What becomes of changes that did not know of each other: the same everywhere, and nothing silently lost."""

from contextlib import suppress
from itertools import permutations, product

import pytest
from directory_naive import Naive
from directory_world import (
    ANN,
    GROUPS,
    PEOPLE,
    SUFFIX,
    Issued,
    Master,
    base,
    built,
    entry_id,
    name,
    unaccounted,
    value,
)

from holdfast.directory.issuing import Operation
from holdfast.model.csn import Csn
from holdfast.model.errors import InvalidRequest

NEW, OTHER = entry_id(10), entry_id(11)


def readd(ask: Operation) -> None:
    ask.remove_entry(ANN)
    ask.add_entry(entry_id(12), PEOPLE, name("ann"))


OPERATIONS = {
    "add bob": lambda ask: ask.add_entry(NEW, PEOPLE, name("bob")),
    "add another bob": lambda ask: ask.add_entry(OTHER, PEOPLE, name("Bob")),
    "add below ann": lambda ask: ask.add_entry(entry_id(13), ANN, name("phone")),
    "add below groups": lambda ask: ask.add_entry(entry_id(14), GROUPS, name("admins")),
    "delete ann": lambda ask: ask.remove_entry(ANN),
    "delete and add ann": readd,
    "delete groups": lambda ask: ask.remove_entry(GROUPS),
    "rename ann to bob": lambda ask: ask.rename(ANN, name("bob"), remove_old=True),
    "rename ann to carl": lambda ask: ask.rename(ANN, name("carl")),
    "move ann to groups": lambda ask: ask.move(ANN, GROUPS),
    "move ann to suffix": lambda ask: ask.move(ANN, SUFFIX),
    "move groups below people": lambda ask: ask.move(GROUPS, PEOPLE),
    "move people below groups": lambda ask: ask.move(PEOPLE, GROUPS),
    "move groups below ann": lambda ask: ask.move(GROUPS, ANN),
    "add value z": lambda ask: ask.add_value(ANN, "mail", value("z")),
    "add value Z": lambda ask: ask.add_value(ANN, "mail", value("Z")),
    "remove value x": lambda ask: ask.remove_value(ANN, "mail", value("x")),
    "remove mail": lambda ask: ask.remove_attribute(ANN, "mail"),
    "replace mail by x": lambda ask: ask.replace(ANN, "mail", [value("x")]),
    "replace mail by z": lambda ask: ask.replace(ANN, "mail", [value("z")]),
    "set title": lambda ask: ask.add_value(ANN, "title", value("chief"), is_single=True),
    "set title again": lambda ask: ask.replace(ANN, "title", [value("clerk")], is_single=True),
    "remove title": lambda ask: ask.remove_attribute(ANN, "title"),
    "add cn carl": lambda ask: ask.add_value(ANN, "cn", value("carl")),
    "remove cn bob": lambda ask: ask.remove_value(ANN, "cn", value("bob")),
}
TRIPLES = [
    ("add bob", "add another bob", "rename ann to bob"),
    ("delete ann", "add below ann", "rename ann to bob"),
    ("delete groups", "move ann to groups", "move groups below people"),
    ("move groups below people", "move people below groups", "move ann to groups"),
    ("move groups below ann", "move people below groups", "delete groups"),
    ("move ann to groups", "move groups below ann", "delete ann"),
    ("remove mail", "replace mail by x", "add value z"),
    ("replace mail by z", "replace mail by x", "remove value x"),
    ("set title", "set title again", "remove title"),
    ("delete and add ann", "rename ann to carl", "add below ann"),
    ("delete groups", "add below groups", "move groups below people"),
    ("rename ann to bob", "remove cn bob", "rename ann to carl"),
    ("delete ann", "delete and add ann", "set title"),
]


def started(masters: int = 3) -> list[Master]:
    made = [Master(number) for number in range(1, masters + 1)]
    first = made[0].issue(base)
    for other in made[1:]:
        other.take(first)
    return made


def judge(masters: list[Master], issued: list[Issued]) -> None:
    """Every order ends in one state, which is the naive judge's, and in which nothing is silently lost."""
    first = masters[0].known[min(masters[0].known)]
    changes = [change for each in (first, *issued) for change in each.changes]
    expected = Naive(changes).view()
    dumps = {}
    for order in permutations(issued):
        master = built((first, *order, order[0]))
        assert master.view() == expected, order
        dumps[master.state.dump()] = order
        purged = built((first, *order))
        purged.purge(Csn(1_000, 0, master.replica), 3)
        assert purged.view() == expected, "purging changed what is seen"
        dumps[b"purged" + purged.state.dump()] = order
    assert len(dumps) == 2, "the order of arrival decided"
    assert not unaccounted(changes, expected)


@pytest.mark.parametrize("first", OPERATIONS)
def test_every_pair_comes_to_one_outcome(first: str) -> None:
    """All pairs, at two masters at once, in both orders of their CSNs."""
    names = list(OPERATIONS)
    for second in names[names.index(first) :]:
        for later in (0, 1):
            a, b, _ = started()
            issued = [a.issue(OPERATIONS[first], later=later), b.issue(OPERATIONS[second], later=1 - later)]
            judge([a], issued)


@pytest.mark.parametrize("triple", TRIPLES, ids=" | ".join)
def test_chosen_triples_come_to_one_outcome(triple: tuple[str, str, str]) -> None:
    """Three masters at once, in every order of their CSNs and of arrival."""
    for laters in permutations(range(3)):
        masters = started()
        issued = [
            master.issue(OPERATIONS[what], later=later)
            for master, what, later in zip(masters, triple, laters, strict=True)
        ]
        judge(masters, issued)


def test_what_one_master_does_after_the_other_is_no_conflict() -> None:
    """A change that knew of the other replaces it: nobody's wish is lost then."""
    for first, second in product(OPERATIONS, repeat=2):
        a, b, _ = started()
        before = a.issue(OPERATIONS[first])
        b.take(before)
        with suppress(InvalidRequest):  # the first may have removed what the second is about
            after = b.issue(OPERATIONS[second])
            changes = [*a.known[min(a.known)].changes, *before.changes, *after.changes]
            assert b.view() == Naive(changes).view()
            assert all(kind in ("name", "glue", "cycle") for kind, *_ in b.view().losses)
