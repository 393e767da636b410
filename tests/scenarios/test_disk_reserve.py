"""A disk that fills up ends no host: operations are refused in time, and queries are answered (D5)."""

import pytest
from called_domain import CalledDomain
from telling import listed, primary, told
from transcript import HOSTS

from holdfast.groups.disk_space import DiskSpace
from holdfast.sim.scenarios.groups.space_faults import SPACE
from holdfast.sim.scenarios.sequence.startup import LOG

LEFT_BYTES = 100 << 10
"""Less than the reserve of these hosts."""


def begun(style: str = "warm_passive") -> CalledDomain:
    domain = CalledDomain()
    told(domain, f"groups {style}", "call primary 1 append one", "run 300ms")
    return domain


def fill(domain: CalledDomain, *hosts: str, left_bytes: int = LEFT_BYTES) -> None:
    for host in hosts:
        disk = domain.world.nodes[host].disk
        disk.bytes_max = disk.used() + left_bytes
    told(domain, "run 400ms")


def space_of(domain: CalledDomain, host: str) -> DiskSpace:
    found: DiskSpace = domain.world.nodes[host].core.groups.space
    return found


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


LONG = "x" * 9_000
"""An argument of calls that the class refuses: it is in the log, and not in the state."""
FILES = 4
"""How many files the log gets by them; a shorter one needs two."""
TWO_FILES = 2 * LOG.file_bytes
ENOUGH_BYTES = SPACE.reserve_bytes * SPACE.enough_percent // 100 + (20 << 10)


def with_a_long_log(style: str = "warm_passive") -> CalledDomain:
    """A domain whose hosts have hardly any state, and a log of several files."""
    domain = begun(style)
    number = 100
    while any(domain.world.nodes[host].disk.used() < FILES * LOG.file_bytes for host in HOSTS):
        number += 1
        assert told(domain, f"call primary {number} append {LONG} too-many")[-1].endswith("refused: bad_call")
    return domain


@pytest.mark.parametrize("style", ["cold_passive", "warm_passive", "active"])
def test_hosts_whose_own_logs_have_filled_their_disks_help_themselves(style: str) -> None:
    """D5. Nobody makes room: the groups make checkpoints, and the log before them goes."""
    domain = with_a_long_log(style)
    fill(domain, *HOSTS, left_bytes=ENOUGH_BYTES - TWO_FILES)
    told(domain, "run 5000ms")
    assert told(domain, "call primary 2 append two")[-1].endswith("2")
    assert listed(domain) == ["a", "b", "c"]
    for host in HOSTS:
        assert space_of(domain, host).why() == ""


def test_a_backup_whose_own_log_has_filled_its_disk_is_helped_by_the_primary() -> None:
    """D5. It cannot be spared, and makes checkpoints where the primary does, whose disk has space."""
    domain = with_a_long_log()
    first, second = (host for host in HOSTS if host != primary(domain))
    told(domain, f"kill {first}", "run 1500ms")
    fill(domain, second, left_bytes=ENOUGH_BYTES - TWO_FILES)
    told(domain, "call primary 2 append two", "run 500ms")
    assert told(domain, "call primary 3 append three")[-1].endswith("turned away: overloaded")
    told(domain, "run 1000ms")
    assert told(domain, "call primary 3 append three")[-1].endswith("3")


def test_a_host_that_cannot_help_itself_says_what_takes_the_space() -> None:
    """D5. Something else has filled the disk, and the log is as short as it can be."""
    domain = begun()
    fill(domain, *HOSTS)
    told(domain, "run 3000ms")
    said = space_of(domain, primary(domain)).why()
    assert "0.1 MB are free, and 0.2 MB are to be" in said
    assert "the host's log has 0.1 MB, the oldest file first for g (0.0 MB)" in said
