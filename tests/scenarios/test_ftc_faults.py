"""Faults, and how a domain handles them, by the checklist: detection, membership, logs in memory.

The domains are the simulated ones of :mod:`transcript`, so nothing here depends on the machine's speed.
"""

import pytest
from called_domain import CalledDomain
from telling import DETECTED, listed, primary, told
from transcript import GROUP, HOSTS, Domain

from holdfast.model.ids import MILLISECOND, Epoch, Position
from holdfast.sequence.member import Member
from holdfast.sequence.view_state import is_volatile

TRIES_MAX = 100
"""Each waits for a tenth of a second: ten seconds of the domain's time in total."""


def members(domain: Domain) -> dict[str, Member]:
    """Return the group's members, by the hosts that are running."""
    cores = {name: domain.world.nodes[name].core for name in HOSTS}
    return {name: core.members[GROUP] for name, core in cores.items() if core and GROUP in core.members}


def held(member: Member) -> list[bytes]:
    return [bytes(record.body) for record in member.read(Position(1), member.tail)]


# --- detection


FAULTS = {
    "its process ends": ("kill a", "start a"),
    "it hangs": ("pause a", "resume a"),
    "it is only cut off": ("cut a | b c authority", "heal"),
}
"""The fault that hits the primary, and how it ends."""


@pytest.mark.covers("FTC-21")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_detected_in_time_and_nobody_is_suspected_for_ever(fault: str) -> None:
    """Another member takes over without any proof of death; a wrong suspicion does no harm: nothing is lost
    or duplicated, and the suspected host is a member again."""
    befalls, ends = FAULTS[fault]
    domain = Domain()
    told(domain, "group of 3", "append a op1", befalls, DETECTED)
    successor = primary(domain)
    assert successor != "a"
    assert told(domain, f"append {successor} op2") == [f"{successor}: 2"]
    told(domain, ends, "await all")
    assert listed(domain) == [*HOSTS]
    assert told(domain, "append primary op3", "read primary") == [
        f"{successor}: 3",
        f"{successor}: op1 op2 op3",
    ]
    assert [held(each) for each in members(domain).values()] == [held(members(domain)["a"])] * len(HOSTS)


@pytest.mark.covers("FTC-21")
def test_members_that_all_suspect_each_other_do_not_go_on_doing_so() -> None:
    """Nobody hears anybody for a long time, and then everybody does."""
    domain = Domain()
    told(domain, "group of 3", "append a op1", "cut a | b c", "cut b | c", "run 5000ms", "heal", "await all")
    assert listed(domain) == [*HOSTS]
    assert told(domain, "append primary op2", "read primary")[-1].endswith(": op1 op2")


def test_a_primary_that_answers_no_heartbeat_is_replaced_and_its_successor_is_watched_too() -> None:
    """COLD_PASSIVE: the primary is replaced for its silence alone, without proof of death; the state comes
    from the log."""
    domain = CalledDomain()
    told(domain, "groups cold_passive", "call primary 1 append one")
    for number, token in ((2, "two"), (3, "three")):
        failed = primary(domain)
        seen = told(domain, f"pause {failed}", DETECTED)
        successor = primary(domain)
        assert f"{successor} claims: silent" in seen
        assert successor != failed
        answer = told(domain, f"call {successor} {number} append {token}")
        assert answer[-1] == f"{successor}: {token} {number}"
        assert failed not in listed(domain)
        told(domain, f"resume {failed}", "await all")
    assert told(domain, "show g tokens") == ["g tokens: one two three"]


# --- membership


class Watched(Domain):
    """A domain that is checked every millisecond: an epoch has one membership, whichever member is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.views: dict[Epoch, tuple[str, ...]] = {}

    def _run(self, time_ns: int) -> None:
        for _ in range(max(time_ns // MILLISECOND, 1)):
            super()._run(min(time_ns, MILLISECOND))
            for member in members(self).values():
                view = member.standing.view
                if view is not None:
                    found = (view.primary, *sorted(each.host for each in view.members))
                    assert self.views.setdefault(view.epoch, found) == found

    def call(self, token: str) -> None:
        """Call until answered. Then every host that the primary counts as a member is in the primary's epoch,
        and has what it has."""
        for _ in range(TRIES_MAX):
            (answer,) = (line for line in self.do(f"append primary {token}") if line[1:2] == ":")
            if answer.split()[-1].isdigit():
                break
        else:
            raise AssertionError(f"{token} is never answered")
        found = members(self)
        leader = next(each for each in found.values() if each.is_serving)
        for each in leader.standing.listed:
            assert found[each.host].epoch == leader.epoch, f"{each.host} is in another view"
            assert held(found[each.host]) == held(leader)


@pytest.mark.covers("FTC-10")
def test_every_call_finds_all_members_in_one_view() -> None:
    """This holds while members are lost, cut off and let in again, and the primary changes."""
    domain = Watched()
    told(domain, "group of 3")
    domain.call("op1")
    told(domain, "cut a | c")
    domain.call("op2")
    told(domain, "heal", "await all")
    domain.call("op3")
    told(domain, "kill b")
    domain.call("op4")
    told(domain, "start b", "await all")
    domain.call("op5")
    told(domain, f"kill {primary(domain)}", DETECTED)
    domain.call("op6")
    assert told(domain, "read primary")[-1].endswith(": op1 op2 op3 op4 op5 op6")
    assert len(domain.views) > 5, "it was put to the test"


# --- logs


@pytest.mark.covers("FTC-288")
def test_a_log_in_memory_is_at_every_member_before_its_calls_are_answered() -> None:
    """The stores are processes, with the same records in the same order. An operation that one of them lacks
    is not answered, and the death of the primary loses nothing."""
    domain = Domain()
    told(domain, "group of 3 in memory")
    for number in (1, 2, 3):
        assert told(domain, f"append a op{number}") == [f"a: {number}"]
        found = members(domain)
        assert len(held(found["a"])) >= number
        assert held(found["b"]) == held(found["c"]) == held(found["a"])
    assert all(is_volatile(each.standing.me.store) for each in found.values())
    assert told(domain, "cut a > c", "append a op4") == ["a: no answer"]
    told(domain, "heal", "await all", "append primary op4", "kill a", DETECTED)
    assert told(domain, "append primary op5", "read primary")[-1].endswith(": op1 op2 op3 op4 op5")
