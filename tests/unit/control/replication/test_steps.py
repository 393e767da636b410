"""Tests that planned steps apply only to exactly the record that they were planned for (T1)."""

from dataclasses import dataclass

import pytest

from holdfast.authority.groups import read_group
from holdfast.authority.placement import remove_member
from holdfast.authority.recipe import Seen
from holdfast.authority.views import View, read_view
from holdfast.control.replication.planner import Action, Forget, Place, Remove, Tune
from holdfast.control.replication.spec import GroupFact
from holdfast.control.replication.steps import take_steps
from holdfast.model.ids import GroupId, HostId
from recipe_bench import Bench, Treatment

A, B, C, D, E = map(HostId, "abcde")
WHY = "for a reason"


@dataclass(frozen=True)
class Domain:
    """One group on a, b and c."""

    bench: Bench
    group: GroupId

    def fact(self) -> GroupFact:
        """The group as it is now."""
        record, view = self.bench.run(read_group(self.group)), self.bench.run(read_view(self.group))
        assert isinstance(record, Seen)
        assert isinstance(view, Seen)
        assert isinstance(view.value, View)
        return GroupFact(record.value, view.value, record.modified)

    def take(
        self, planned_for: GroupFact, *actions: Action, treat: Treatment | None = None
    ) -> tuple[Action, ...]:
        recipe = take_steps(planned_for, actions, self.bench.nonce, lambda _, host: f'{{"at":"{host}"}}')
        return self.bench.run(recipe, treat)

    def remove(self, host: HostId) -> None:
        """A person removes a member."""
        done = self.bench.run(remove_member(self.group, host, nonce=self.bench.nonce()))
        assert isinstance(done, Seen)


@pytest.fixture
def domain(bench: Bench) -> Domain:
    return Domain(bench, bench.group_on((A, B, C)))


def test_all_steps_of_one_plan_are_taken_one_from_the_other(domain: Domain) -> None:
    group = domain.group
    steps = (Tune(group, HostId(""), WHY, '{"x":1}'), Place(group, D, WHY), Place(group, E, WHY))
    assert domain.take(domain.fact(), *steps) == steps
    record = domain.fact().record
    assert (record.placed_on, record.tuned) == ((A, B, C, D, E), '{"x":1}')
    entry = record.placement(E)
    assert entry is not None
    assert entry.criteria == '{"at":"e"}'


def test_what_was_planned_for_another_record_is_not_done(domain: Domain) -> None:
    """The plan removes a, which b and c can do without. Before its turn comes, a person removes b."""
    planned_for = domain.fact()
    domain.remove(B)
    assert domain.take(planned_for, Remove(domain.group, A, WHY)) == ()
    assert domain.fact().record.placed_on == (A, C)


def test_a_change_in_between_ends_the_steps(domain: Domain) -> None:
    """This also holds for a change between two steps: the following ones were planned without it."""
    group, planned_for = domain.group, domain.fact()
    steps = (Remove(group, A, WHY), Place(group, D, WHY))
    taken = domain.take(planned_for, *steps, treat=domain.bench.race(lambda: domain.remove(B)))
    assert taken == ()
    assert domain.fact().record.placed_on == (A, C)


def test_a_host_is_not_forgotten_in_a_later_stay(domain: Domain) -> None:
    """The host's entry was planned to go. The host has stayed since, and is leaving once more."""
    domain.remove(C)
    planned_for = domain.fact()
    domain.take(planned_for, Place(domain.group, C, "it is still listed, and is asked back"))
    domain.remove(C)
    assert domain.take(planned_for, Forget(domain.group, C, WHY)) == ()
    assert domain.fact().record.placement(C) is not None
