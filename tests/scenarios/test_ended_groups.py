"""Every host that had a deleted group forgets it, whenever it learns of the deletion."""

import pytest
from called_domain import CalledDomain
from telling import told
from transcript import GROUP, HOSTS

from holdfast.authority.removal import Ended, remove_group
from holdfast.model.ids import Nonce
from holdfast.sim.scenarios.authority.server import AUTHORITY, values_at_authority

STYLES = ("cold_passive", "warm_passive", "active")


def begun(style: str) -> CalledDomain:
    domain = CalledDomain()
    told(domain, f"groups {style}", "call a 1 append x", "run 500ms")
    assert holders(domain) == ["a", "b", "c"]
    return domain


def remove(domain: CalledDomain) -> None:
    domain._housing("a").recipes.start(remove_group(GROUP, nonce=Nonce("the end")), lambda _: None)


def holders(domain: CalledDomain) -> list[str]:
    """Return the running hosts whose log still has something of the group."""
    cores = {name: domain.world.nodes[name].core for name in HOSTS}
    return [name for name, core in cores.items() if core is not None and GROUP in core._opened.log.groups()]


def noted(domain: CalledDomain) -> list[str]:
    return [note.host for note in values_at_authority(domain.world, "ended/", Ended)]


@pytest.mark.parametrize("style", STYLES)
def test_every_host_forgets_a_group_that_was_removed(style: str) -> None:
    domain = begun(style)
    remove(domain)
    told(domain, "run 1000ms")
    assert (holders(domain), noted(domain)) == ([], [])
    assert not any(GROUP in domain._housing(host).hosted for host in HOSTS)


@pytest.mark.parametrize("style", STYLES)
def test_a_host_that_was_away_forgets_the_group_when_it_returns(style: str) -> None:
    domain = begun(style)
    told(domain, "kill c")
    remove(domain)
    told(domain, "run 1000ms")
    assert noted(domain) == ["c"]
    told(domain, "start c", "run 2000ms")
    assert (holders(domain), noted(domain)) == ([], [])
    assert told(domain, "show h notes") == ["h notes: none"]


def test_a_note_stands_until_what_was_held_is_forgotten_for_good() -> None:
    """Otherwise a power cut would bring the group back, and nothing would ever remove it."""
    domain = begun("warm_passive")
    told(domain, "slow c")
    remove(domain)
    told(domain, "run 300ms")
    assert noted(domain) == ["c"]
    told(domain, "power c")
    domain.world.nodes["c"].disk.slow_factor = 1
    told(domain, "start c", "run 2000ms")
    assert (holders(domain), noted(domain)) == ([], [])


def test_a_host_that_cannot_reach_the_authority_forgets_the_group_when_it_can() -> None:
    domain = begun("active")
    told(domain, f"cut c | {AUTHORITY}")
    remove(domain)
    told(domain, "run 1000ms")
    assert (holders(domain), noted(domain)) == (["c"], ["c"])
    told(domain, "heal", "run 5000ms")
    assert (holders(domain), noted(domain)) == ([], [])
