"""The machines of a domain: who may join under which name, whoever is removed stays removed (V7)."""

import msgspec
import pytest

from holdfast.authority.machines import (
    MachineRecord,
    NotAdmitted,
    join_machine,
    list_machines,
    remove_machine,
)
from holdfast.authority.recipe import InDoubt, Listing, Removed, Seen
from holdfast.model.ids import HostId
from recipe_bench import Bench

M1 = MachineRecord(
    machine="m1",
    token="t1",
    agent="m1",
    agent_address="10.0.0.1:7400",
    hosts=(HostId("m1"),),
    location="r/m1",
)
M2 = msgspec.structs.replace(M1, machine="m2", token="t2", agent="m2", hosts=(HostId("m2"),))


def known(bench: Bench) -> dict[str, MachineRecord]:
    listing = bench.run(list_machines())
    assert isinstance(listing, Listing)
    return {seen.value.machine: seen.value for seen in listing.items}


def join(bench: Bench, record: MachineRecord) -> Seen[MachineRecord] | NotAdmitted:
    outcome = bench.run(join_machine(record, nonce=bench.nonce()))
    assert isinstance(outcome, Seen | NotAdmitted)
    return outcome


def test_a_machine_joins_once_and_says_later_where_it_is_now(bench: Bench) -> None:
    assert isinstance(join(bench, M1), Seen)
    before = known(bench)["m1"]
    assert isinstance(join(bench, M1), Seen)
    assert known(bench)["m1"] == before  # nothing is written that is known already
    moved = msgspec.structs.replace(M1, agent_address="10.0.0.9:7400")
    assert isinstance(join(bench, moved), Seen)
    assert known(bench)["m1"].agent_address == "10.0.0.9:7400"


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (msgspec.structs.replace(M1, token="t9"), "has a machine m1 at 10.0.0.1:7400 already"),
        (msgspec.structs.replace(M2, hosts=M1.hosts), "host m1 is on machine m1 already"),
    ],
)
def test_a_name_and_a_host_are_on_one_machine(bench: Bench, other: MachineRecord, why: str) -> None:
    join(bench, M1)
    refused = join(bench, other)
    assert isinstance(refused, NotAdmitted)
    assert why in refused.why
    assert list(known(bench)) == ["m1"]


def test_two_that_join_at_once_with_one_host_do_not_both_get_it(bench: Bench) -> None:
    """The guard makes the second look again."""
    second = msgspec.structs.replace(M2, hosts=M1.hosts)
    race = bench.race(lambda: join(bench, M1))
    outcome = bench.run(join_machine(second, nonce=bench.nonce()), race)
    assert isinstance(outcome, NotAdmitted)
    assert list(known(bench)) == ["m1"]


def test_a_removed_machine_does_not_come_back_but_its_name_may(bench: Bench) -> None:
    join(bench, M1)
    join(bench, M2)
    assert isinstance(bench.run(remove_machine("m1", nonce=bench.nonce())), Removed)
    refused = join(bench, M1)
    assert isinstance(refused, NotAdmitted)
    assert "m1 was removed" in refused.why
    heir = msgspec.structs.replace(M1, token="t9")
    assert isinstance(join(bench, heir), Seen)
    assert known(bench)["m1"].token == "t9"
    assert isinstance(join(bench, M1), NotAdmitted)  # still not


def test_a_joining_in_doubt_is_settled_by_joining_again(bench: Bench) -> None:
    nonce = bench.nonce()
    assert isinstance(bench.run(join_machine(M1, nonce=nonce), bench.lose_answer), InDoubt)
    assert isinstance(bench.run(join_machine(M1, nonce=nonce)), Seen)
    assert isinstance(bench.run(remove_machine("m1", nonce=bench.nonce()), bench.lose_answer), InDoubt)
    assert isinstance(bench.run(remove_machine("m1", nonce=bench.nonce())), Removed)
