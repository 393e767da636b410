"""A running host takes what it can, says what waits, and is not disturbed by a file that cannot be used."""

import os
from pathlib import Path

from holdfast.model.ids import SECOND
from holdfast.node.host_config import HostConfig
from holdfast.settings import file as settings_file
from holdfast.settings.in_force import Following, InForce, digest_of_applied, read_in_force


class Taker:
    """A host that remembers what it was given."""

    def __init__(self, domain: Path) -> None:
        self.domain = domain
        self.host = domain / "host"
        self.host.mkdir()
        self.taken: list[HostConfig] = []
        started = settings_file.read_applied(domain, {}).insist()
        self.following = Following(domain, self.host, started, self.taken.append, {})

    def give(self, text: str) -> None:
        (self.domain / settings_file.APPLIED).write_text(text)
        self.following.take()

    @property
    def in_force(self) -> InForce:
        found = read_in_force(self.host)
        assert found is not None
        return found


def test_a_host_says_what_it_started_with(tmp_path: Path) -> None:
    taker = Taker(tmp_path)
    assert taker.in_force.pid == os.getpid()
    assert taker.in_force.applied == digest_of_applied(tmp_path)
    assert taker.in_force.at_restart == ()
    assert taker.taken == []


def test_a_change_is_taken_and_what_cannot_be_waits(tmp_path: Path) -> None:
    taker = Taker(tmp_path)
    taker.give('[leases]\nlease = "3 s"\n[connections]\nconnections_max = 9\n')
    (config,) = taker.taken
    assert config.leases.lease_ns == 3 * SECOND
    assert config.connections == HostConfig().connections
    assert taker.in_force.values["leases.lease"] == 3 * SECOND
    assert taker.in_force.values["connections.connections_max"] == 1024
    assert taker.in_force.at_restart == ("connections.connections_max",)
    assert taker.in_force.sources["leases.lease"] == "file"
    assert taker.in_force.applied == digest_of_applied(tmp_path)


def test_what_is_taken_back_waits_no_more(tmp_path: Path) -> None:
    taker = Taker(tmp_path)
    taker.give("[connections]\nconnections_max = 9\n")
    taker.give("")
    assert taker.in_force.at_restart == ()


def test_a_file_that_cannot_be_used_changes_nothing(tmp_path: Path) -> None:
    taker = Taker(tmp_path)
    before = taker.in_force
    taker.give('[leases]\nlease = "3"\n')
    assert taker.taken == []
    assert taker.in_force == before


def test_a_record_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    assert read_in_force(tmp_path) is None
    (tmp_path / "settings.json").write_text("{")
    assert read_in_force(tmp_path) is None
