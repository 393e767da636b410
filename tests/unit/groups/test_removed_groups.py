"""Tests a host and the notes of removed groups: what it forgets, when, and how it reports that."""

from collections.abc import Callable

import pytest

from holdfast.authority import keys
from holdfast.authority.contract import Changed, Events, Get, Got, WatchEvent
from holdfast.authority.groups import GroupRecord
from holdfast.authority.placement import add_member
from holdfast.authority.recipe import Removed, answering, read_all
from holdfast.authority.removal import Ended, remove_group
from holdfast.groups.leaving import RemovedGroups
from holdfast.model.ids import GroupId, HostId, Revision
from recipe_bench import Bench, BenchHost

A, B, C = map(HostId, "abc")


class House(BenchHost):
    """Host c of a domain."""

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self.known: set[GroupId] = set()
        """The groups whose records this host has heard of."""
        self.forgotten: list[tuple[GroupRecord, Callable[[], None]]] = []
        self.hear: Callable[[WatchEvent], None]
        self.forgetting = RemovedGroups(
            C,
            self._watch,
            self.recipes,
            self.timers,
            bench.nonce,
            is_known=self.known.__contains__,
            forget=lambda record, then: self.forgotten.append((record, then)),
        )

    def _watch(self, prefix: str, revision: Revision, then: Callable[[WatchEvent], None]) -> None:
        self.hear = then

    def noted(self, host: HostId = C) -> list[GroupId]:
        listed = self.bench.run(answering(read_all)(keys.ended_on(host), Ended))
        return [seen.value.record.group for seen in listed.items]

    def remove(self, group: GroupId) -> None:
        assert self.bench.run(remove_group(group, nonce=self.bench.nonce())) == Removed()


@pytest.fixture
def house(bench: Bench) -> House:
    return House(bench)


def test_a_removal_leaves_a_note_to_each_host_of_the_record(house: House) -> None:
    """Hosts that are not listed get a note too, because a learner holds data as well."""
    group = house.bench.group_on((A, B, C), listed=(A,))
    house.remove(group)
    assert [house.noted(host) for host in (A, B, C)] == [[group]] * 3


def test_a_host_that_is_placed_while_the_group_is_removed_finds_a_note(bench: Bench) -> None:
    """The removal was based on a record without that host, so it is decided again."""
    house = House(bench)
    group = bench.group_on((A, B), listed=(A,))
    race = bench.race(lambda: bench.run(add_member(group, C, nonce=bench.nonce())))
    assert bench.run(remove_group(group, nonce=bench.nonce()), race) == Removed()
    assert house.noted() == [group]


def test_what_ended_while_the_host_was_away_is_forgotten_at_its_start_and_the_note_goes_then(
    house: House,
) -> None:
    group = house.bench.group_on((A, C), listed=(A,))
    house.remove(group)
    house.forgetting.start()
    ((record, done),) = house.forgotten
    assert (record.group, record.placement(C) is not None) == (group, True)
    assert house.noted() == [group]
    done()
    assert house.noted() == []
    assert house.noted(A) == [group]


def test_a_list_without_a_record_and_without_a_note_proves_nothing(house: House) -> None:
    """The authority was restored to a time before the group was created (A5)."""
    house.forgetting.start()
    house.forgetting.on_gone(GroupId(7))
    assert house.forgotten == []


def test_a_note_that_comes_before_the_end_of_the_record_waits_for_it(house: House) -> None:
    group = house.bench.group_on((A, C), listed=(A,))
    house.known.add(group)
    house.remove(group)
    house.forgetting.start()
    assert house.forgotten == []
    house.known.clear()
    house.forgetting.on_gone(group)
    assert [record.group for record, _ in house.forgotten] == [group]
    house.forgetting.on_gone(group)
    assert len(house.forgotten) == 1


def test_an_authority_that_does_not_answer_is_told_again(house: House) -> None:
    groups = [house.bench.group_on((A, C), listed=(A,)) for _ in range(3)]
    for group in groups:
        house.remove(group)
    house.forgetting.start()
    house.treat = house.bench.silence
    for _, done in house.forgotten:
        done()
    assert house.noted() == groups
    house.treat = house.bench.ask
    house.fire()
    assert house.noted() == []
    assert not house.is_waiting


def test_notes_to_a_host_whose_name_begins_alike_are_not_taken(house: House) -> None:
    other = HostId("c/d")
    group = house.bench.group_on((A, other), listed=(A,))
    house.remove(group)
    house.forgetting.start()
    assert house.forgotten == []


def test_what_ends_while_the_host_lives_is_forgotten_when_the_note_comes(house: House) -> None:
    group = house.bench.group_on((A, C), listed=(A,))
    house.forgetting.start()
    house.remove(group)
    house.forgetting.on_gone(group)
    assert house.forgotten == []
    note = house.bench.ask(Get(keys.ended(C, group)))
    assert isinstance(note, Got)
    assert note.item is not None
    house.hear(Events(note.item.modified, (Changed(note.item.key, note.item),)))
    assert [record.group for record, _ in house.forgotten] == [group]
