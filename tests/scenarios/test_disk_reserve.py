"""A disk that fills up ends no host: operations are refused in time, and queries are answered (D5)."""

import pytest
from called_domain import CalledDomain
from telling import listed, primary, told
from transcript import HOSTS

LEFT_BYTES = 100 << 10
"""Less than the reserve of these hosts."""


def begun(style: str = "warm_passive") -> CalledDomain:
    domain = CalledDomain()
    told(domain, f"groups {style}", "call primary 1 append one", "run 300ms")
    return domain


def fill(domain: CalledDomain, *hosts: str) -> None:
    for host in hosts:
        disk = domain.world.nodes[host].disk
        disk.bytes_max = disk.used() + LEFT_BYTES
    told(domain, "run 400ms")


def free(domain: CalledDomain, *hosts: str) -> None:
    for host in hosts:
        domain.world.nodes[host].disk.bytes_max = None
    told(domain, "run 400ms")


@pytest.mark.parametrize("style", ["cold_passive", "warm_passive", "active"])
def test_while_all_disks_are_nearly_full_queries_are_answered_and_nothing_is_changed(style: str) -> None:
    domain = begun(style)
    fill(domain, *HOSTS)
    assert told(domain, "call primary 2 append two")[-1].endswith("turned away: overloaded")
    assert told(domain, "call primary 3 read")[-1].endswith("one")
    assert told(domain, "call primary 1 append one")[-1].endswith("1"), "a repetition is answered"
    free(domain, *HOSTS)
    assert told(domain, "call primary 2 append two")[-1].endswith("2")
    assert listed(domain) == ["a", "b", "c"]


def test_a_backup_that_is_short_of_space_is_dropped_and_comes_back() -> None:
    """The others are enough, so nobody waits for its disk."""
    domain = begun()
    backup = next(host for host in HOSTS if host != primary(domain))
    fill(domain, backup)
    told(domain, "call primary 2 append two", "run 500ms")
    assert backup not in listed(domain)
    assert told(domain, "call primary 3 append three")[-1].endswith("3")
    free(domain, backup)
    told(domain, "run 4000ms")
    assert listed(domain) == ["a", "b", "c"]


def test_a_backup_that_cannot_be_spared_stops_operations_until_it_has_space() -> None:
    domain = begun()
    first, second = (host for host in HOSTS if host != primary(domain))
    told(domain, f"kill {first}", "run 1500ms")
    fill(domain, second)
    told(domain, "call primary 2 append two", "run 300ms")
    assert told(domain, "call primary 3 append three")[-1].endswith("turned away: overloaded")
    assert told(domain, "call primary 4 read")[-1].endswith("one two")
    free(domain, second)
    assert told(domain, "call primary 3 append three")[-1].endswith("3")


def test_a_primary_that_is_short_of_space_hands_over_to_a_member_that_is_not() -> None:
    domain = begun()
    first = primary(domain)
    fill(domain, first)
    told(domain, "run 1500ms")
    assert primary(domain) != first
    assert told(domain, "call primary 2 append two")[-1].endswith("2")
