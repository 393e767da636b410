"""Old primaries that clients can reach and that cannot reach the authority: they answer no query with old
state (R1)."""

import pytest
from transcript import GROUP, Domain

from holdfast.authority.views import change_view
from holdfast.model.ids import HostId
from holdfast.sequence.lease_heartbeats import LeaseHeartbeats, Peer
from holdfast.sequence.messages import Beat
from holdfast.sim.scenarios.authority.server import AUTHORITY


def told(domain: Domain, *commands: str) -> list[str]:
    """Return what the last of *commands* shows."""
    said: list[str] = []
    for command in commands:
        said = domain.do(command)
    return said


@pytest.mark.parametrize("unheard", [0, 3])
def test_a_follower_that_has_not_heard_a_new_process_confirms_nothing_to_it(
    monkeypatch: pytest.MonkeyPatch, unheard: int
) -> None:
    """a restarts and claims its own group; c answers its records before a's first heartbeats, under the
    number of a's previous process. When c has claimed and is reached again, that number confirms no lease."""
    hear = LeaseHeartbeats._on_beat

    def hear_later(beats: LeaseHeartbeats, host: HostId, peer: Peer, beat: Beat) -> None:
        if host != "a" or beat.incarnation != 2 or beat.number > unheard:
            hear(beats, host, peer, beat)

    monkeypatch.setattr(LeaseHeartbeats, "_on_beat", hear_later)
    domain = Domain()
    told(
        domain, "group of 3", "append a op1", "run 20000ms", "kill a", "start a", "await service", "run 500ms"
    )
    assert told(domain, "read a") == ["a: op1"]
    told(domain, f"cut a | c client {AUTHORITY}", "run 700ms")
    assert told(domain, "append primary op2") == ["c: 2"]
    told(domain, "heal", f"cut {AUTHORITY} | a", "run 130ms")
    assert told(domain, "read a") == ["a: no answer"]
    assert told(domain, "read primary") == ["c: op1 op2"]


def test_the_death_of_one_that_claimed_late_frees_nobody_from_the_primary_before() -> None:
    """b claims while it is cut off, and dies; its claim is applied after c has told a, still primary, that c
    is in its epoch. c has proof that the process of b is gone, which says nothing about a."""
    domain = Domain()
    told(domain, "group of 3", "append a op1", "run 500ms", "cut a | b", f"cut b > {AUTHORITY}")
    told(domain, f"cut a | {AUTHORITY}", "run 600ms")
    claim = domain.world.nodes["b"].core.members[GROUP].standing.pending
    assert claim is not None
    told(domain, "kill b", "prove b 1", "heal", f"cut a | {AUTHORITY}", "start b", "run 500ms")
    told(domain, "read a")  # which makes a ask whether they are in its epoch
    core = domain.world.nodes["c"].core
    core._recipes.start(change_view(claim, identity=core._opened.identity), lambda _: None)
    told(domain, "run 20ms", "run 600ms")
    assert told(domain, "append primary op2")[0].endswith(": 2")
    assert told(domain, "read a") != ["a: op1"]
    assert not domain.world.nodes["a"].core.members[GROUP].may_read()
