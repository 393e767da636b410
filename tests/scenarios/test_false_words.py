"""A false proof of death, or a number that the authority never issued, is outlived (K7).

Nobody who speaks the truth sends what is sent here. Each time a host then stops and starts again, and every
group must take it back while the others go on living: what they were told falsely must not bind them for as
long as they live.
"""

from collections.abc import Callable

import pytest
from called_domain import CalledDomain
from telling import listed, primary, told
from transcript import GROUP, HOSTS, Domain

from holdfast.model.ids import Epoch, HostId, Incarnation, Opening, Position
from holdfast.sequence.messages import Beat, Compare, Died, Hello, Offer, Refused, Submit
from holdfast.sim.scenarios.sequence import disk_damage
from holdfast.storage.record import ORIGIN, Point

NEVER = 1_000_000
"""A number, of an epoch or a process, that is never issued in these runs."""
NOWHERE = Point(Position(NEVER), Epoch(NEVER), 1)


def begun() -> Domain:
    domain = Domain()
    told(domain, "group of 3", "append a op1")
    assert primary(domain) == "a"
    return domain


def say(domain: Domain, peer: str, *messages: object) -> None:
    """Let everybody else be told this in the name of *peer*."""
    for other in HOSTS:
        for message in messages:
            if other != peer:
                domain.world.network.send(peer, other, message)
    told(domain, "run 50ms")


def check_all_come_back(domain: Domain, *, restarted: str | None) -> None:
    """Start one host again; then all are in sync, an operation is acknowledged, and reads are answered."""
    if restarted is not None:
        told(domain, f"kill {restarted}", "run 100ms", f"start {restarted}")
    told(domain, "run 4000ms", "await all")
    assert listed(domain) == ["a", "b", "c"]
    assert not told(domain, "append primary op2")[-1].endswith("no answer")
    assert told(domain, "read primary")[-1].endswith("op1 op2")


def beat(domain: Domain) -> None:
    say(domain, "c", Beat(Incarnation(NEVER), NEVER, 0))


def hello(domain: Domain) -> None:
    (view,) = disk_damage.views(domain.world)
    own = next(each for each in view.members if each.host == "c")
    say(domain, "c", Hello(GROUP, view.epoch, own.store, Incarnation(NEVER), Opening(NEVER), (ORIGIN,)))


def hello_of_another_store(domain: Domain) -> None:
    (view,) = disk_damage.views(domain.world)
    own = next(each for each in view.members if each.host == "a")
    say(domain, "c", Hello(GROUP, view.epoch, own.store, Incarnation(NEVER), Opening(NEVER), (ORIGIN,)))


def submit(domain: Domain) -> None:
    say(
        domain,
        "c",
        Submit(GROUP, Epoch(NEVER), Incarnation(1), NOWHERE, (), Position(0), NOWHERE, False),
    )


def offer(domain: Domain) -> None:
    say(domain, "c", Offer(GROUP, Epoch(NEVER), NOWHERE, 10, 10, b"x" * 32))


def refused(domain: Domain) -> None:
    say(domain, "c", Refused(GROUP, Epoch(NEVER)))


def compare(domain: Domain) -> None:
    say(domain, "c", Compare(GROUP, Epoch(NEVER)))


FORGED = (beat, hello, hello_of_another_store, submit, offer, refused, compare)


@pytest.mark.parametrize("restarted", [None, "a", "c"])
@pytest.mark.parametrize("forge", FORGED)
def test_numbers_that_were_never_issued_are_outlived(
    forge: Callable[[Domain], None], restarted: str | None
) -> None:
    domain = begun()
    forge(domain)
    check_all_come_back(domain, restarted=restarted)


@pytest.mark.parametrize("forge", [hello, hello_of_another_store, beat])
def test_a_group_that_may_spare_nobody_goes_on(forge: Callable[[Domain], None]) -> None:
    """b is away, and the others are the fewest that may be listed, so that neither can be dropped (M1)."""
    domain = begun()
    told(domain, "kill b", "run 1000ms")
    assert listed(domain) == ["a", "c"]
    forge(domain)
    told(domain, "run 3000ms")
    assert not told(domain, "append primary op2")[-1].endswith("no answer")
    told(domain, "start b")
    check_all_come_back(domain, restarted="c")


@pytest.mark.parametrize("who", HOSTS)
@pytest.mark.parametrize("incarnation", [1, 2, NEVER])
@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_false_proof_of_death_is_outlived(who: str, incarnation: int, is_restarted: bool) -> None:
    """The process lives, is the next one, or is never started; the host's own agent is said to say it."""
    domain = begun()
    told(domain, f"prove {who} {incarnation}")
    check_all_come_back(domain, restarted=who if is_restarted else None)


@pytest.mark.parametrize("false", [2, NEVER])
def test_a_false_proof_hides_no_true_one(false: int) -> None:
    """The primary dies after a proof that was false; its true death still lets a backup claim at once."""
    domain = begun()
    told(domain, f"prove a {false}", "run 1000ms", "kill a")
    said = told(domain, "prove a 1", "run 50ms")
    assert any("claims: dead" in each for each in said)


def test_a_primary_that_is_said_to_be_dead_gets_its_host_back_into_the_group() -> None:
    """a lives, loses the group to whoever believed the proof, and follows it like any other."""
    domain = begun()
    told(domain, "prove a 1", "run 100ms")
    assert primary(domain) != "a"
    assert not told(domain, "append primary op2")[-1].endswith("no answer")
    told(domain, "run 2000ms")
    assert listed(domain) == ["a", "b", "c"]
    (view,) = disk_damage.views(domain.world)
    assert [each.incarnation for each in view.members if each.host == HostId("a")] == [1]


def may_read(domain: CalledDomain, host: str) -> bool:
    """Whether a query is answered without the authority, at the latest when what is missing was asked for."""
    member, node = domain._housing(host).hosted[GROUP].member, domain.world.nodes[host]
    node.run(node.life, member.may_read)
    told(domain, "run 100ms")
    return member.may_read()


def test_a_host_that_is_told_of_its_own_death_goes_on() -> None:
    """It knows better. It still claims like any other, and rests no read on leases for a while, because
    others may have been told the same and claim at once."""
    domain = CalledDomain()
    told(domain, "groups warm_passive", "call primary 1 append x", "run 300ms")
    first = primary(domain)
    assert may_read(domain, first)
    for host in HOSTS:
        domain.world.network.send(host, host, Died(HostId(host), Incarnation(1)))
    told(domain, "run 10ms")
    assert not may_read(domain, first)
    told(domain, "run 1000ms")
    assert may_read(domain, first)
    told(domain, f"kill {first}", "run 3000ms")
    assert primary(domain) != first
    assert told(domain, "call primary 2 append y")[-1].endswith("2")
