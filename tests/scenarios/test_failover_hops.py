"""How many messages follow each other between the proof of a death and the first answer (K1, K2).

Time in these domains is simulated: every message takes 20 ms and nothing else takes any, except a sync. So
the time of a failover is its number of messages, whatever else the machine does.
"""

import pytest
from called_domain import CalledDomain
from telling import primary, told

from holdfast.model.ids import MILLISECOND
from holdfast.sim.engine.options import NetworkOptions
from holdfast.sim.scenarios.authority.server import AUTHORITY
from holdfast.sim.scenarios.sequence import disk_damage

HOP_NS = 20 * MILLISECOND
SYNCS_NS = 8 * MILLISECOND
"""What the syncs on the way take together at most: of the authority, of the backup, and of the primary."""
AWAY_NS = 2000 * MILLISECOND


def apart(style: str) -> CalledDomain:
    """A domain whose hosts and authority are on different machines."""
    domain = CalledDomain()
    told(domain, f"groups {style}", "call primary 1 append one", "run 300ms")
    domain.world.network.weather(NetworkOptions(delay_min_ns=HOP_NS, delay_mean_ns=1))
    told(domain, "run 1000ms")
    return domain


def backups(domain: CalledDomain) -> list[str]:
    """The backups, in the order in which they claim the first group."""
    view = disk_damage.views(domain.world)[0]
    return [member.host for member in view.members if member.host != view.primary]


def hops_of(domain: CalledDomain, claimant: str, command: str) -> float:
    """Let the primary's agent prove its death, send *command* to the claimant when that knows, and return
    after how many messages it was answered."""
    began = domain.world.now
    answer = told(domain, f"prove {primary(domain)} 1", "run 25ms", f"call {claimant} {command}")[-1]
    assert "turned away" not in answer
    assert "no answer" not in answer
    took_ns = domain.world.now - began
    assert took_ns < AWAY_NS
    return (took_ns - SYNCS_NS) / HOP_NS


@pytest.mark.parametrize("style", ["warm_passive", "active"])
def test_a_call_that_was_executed_is_answered_after_claim_and_acceptance(style: str) -> None:
    """Four messages: the proof, the claim, its answer, which the other backup hears when the claimant does,
    and the acknowledgement of the tail that went ahead of it. The call waits at the claimant meanwhile, and
    its answer was recorded by the primary that died."""
    domain = apart(style)
    told(domain, f"call {primary(domain)} 2 append two", "run 200ms", f"kill {primary(domain)}")
    claimant, _ = backups(domain)
    assert hops_of(domain, claimant, "2 append two") < 4.5
    assert primary(domain) == claimant


@pytest.mark.parametrize("style", ["warm_passive", "active"])
def test_a_new_call_is_answered_a_round_trip_later(style: str) -> None:
    """Six messages: those four, and the call's own way to a backup and back. The reply is the seventh that
    its caller waits for."""
    domain = apart(style)
    told(domain, f"kill {primary(domain)}")
    claimant, _ = backups(domain)
    assert 5.0 < hops_of(domain, claimant, "2 append two") < 6.5


def take(domain: CalledDomain, hops: dict[tuple[str, str], float]) -> None:
    """From now on these links take so many times as long as others."""
    network = domain.world.network
    deliver_after = network._deliver_after

    def deliver(delay_ns: int, source: str, target: str, payload: object) -> None:
        deliver_after(round(delay_ns * hops.get((source, target), 1)), source, target, payload)

    network._deliver_after = deliver  # type: ignore[method-assign]  # links are alike but in these tests


def test_what_is_acknowledged_before_the_claimant_knows_that_it_has_won_counts() -> None:
    """The authority is near the other backup, or busy with the claimant: its answer is the last to come, and
    nothing is left to wait for then."""
    domain = apart("warm_passive")
    told(domain, f"call {primary(domain)} 2 append two", "run 200ms", f"kill {primary(domain)}")
    claimant, _ = backups(domain)
    take(domain, {(AUTHORITY, claimant): 3})
    assert hops_of(domain, claimant, "2 append two") < 5.5


def test_a_tail_that_comes_after_its_view_counts_at_once() -> None:
    """The other backup hears of the new view before what was sent ahead of it is there."""
    domain = apart("warm_passive")
    told(domain, f"call {primary(domain)} 2 append two", "run 200ms", f"kill {primary(domain)}")
    claimant, other = backups(domain)
    take(domain, {(AUTHORITY, other): 0.05, (claimant, other): 2})
    assert hops_of(domain, claimant, "2 append two") < 4.5


@pytest.mark.parametrize("style", ["warm_passive", "active"])
def test_a_backup_that_lacks_something_costs_no_round_trip_more(style: str) -> None:
    """Under load every backup got something else last of the primary that died. The new one sends it
    unasked. A new call takes a round trip of its own."""
    domain = apart(style)
    first = primary(domain)
    claimant, other = backups(domain)
    told(domain, f"cut {first} > {other}", f"leave {first} 2 append two", f"kill {first}", "heal")
    members = [domain.world.nodes[host].core.groups.hosted[1].member for host in (claimant, other)]
    assert members[0].tail > members[1].tail
    assert hops_of(domain, claimant, "2 append two") < 4.5
    assert told(domain, "call primary 3 append three")[-1].endswith("3")
