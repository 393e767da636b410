"""Which master a person means, and what is said where there is none."""

from pathlib import Path

import pytest
from directory_pair import SUFFIX, filled

from holdfast.cli.directory.explaining import explained
from holdfast.cli.directory.masters import Master, named, reachable, with_gone
from holdfast.directory.hosting.orders import LinkInfo, ReplicaInfo
from holdfast.model.errors import InvalidRequest, Unavailable
from holdfast.model.ids import HostId, ReplicaId


def master(host: str, replica: int | None, address: str = "127.0.0.1:1") -> Master:
    info = None
    if replica is not None:
        info = ReplicaInfo(host=HostId(host), state="serving", replica=ReplicaId(replica))
    return Master(HostId(host), is_alive=True, address=address, info=info)


MASTERS = [master("host1", 4), master("host2", 1), master("4", 9), master("gone", None, "")]


def test_a_master_is_named_by_its_host_or_by_its_replica() -> None:
    assert named(MASTERS, "host2").host == "host2"
    assert named(MASTERS, "1").host == "host2"
    assert named(MASTERS, "4").host == "4"  # a host's own name goes before a replica's number
    with pytest.raises(InvalidRequest, match=r"there is no master '7'; there are: host1 \(4\), .* gone"):
        named(MASTERS, "7")


def test_one_that_cannot_be_asked_is_told_apart() -> None:
    assert reachable(MASTERS[0]) == "127.0.0.1:1"
    with pytest.raises(Unavailable, match="gone cannot be asked"):
        reachable(MASTERS[3])


def test_a_master_that_is_gone_is_known_by_the_others() -> None:
    """It has no session that would say what it is for, and people look for it."""
    links = (LinkInfo(peer=HostId("host1"), state="down"), LinkInfo(peer=HostId("host3"), state="open"))
    info = ReplicaInfo(host=HostId("host2"), state="serving", links=links)
    found = with_gone([Master(HostId("host2"), is_alive=True, info=info), master("host3", 3)])
    assert [(each.host, each.is_alive) for each in found] == [
        ("host1", False),
        ("host2", True),
        ("host3", True),
    ]


def test_a_suffix_is_explained_of_every_host_that_has_it(tmp_path: Path) -> None:
    """`explain` is given the directory of a domain, as all commands are, and finds the hosts' files there."""
    for host in ("host1", "host2"):
        (tmp_path / "hosts" / host / "services").mkdir(parents=True)
        filled(tmp_path / "hosts" / host / "services" / "directory")
    (tmp_path / "hosts" / "host3" / "services" / "directory").mkdir(parents=True)  # still has nothing
    lines = explained(tmp_path, SUFFIX.upper())
    assert [each.split(", in ")[0] for each in lines if each.startswith(SUFFIX)] == [
        f"{SUFFIX}: the replica of {host}" for host in ("host1", "host2")
    ]
    assert len([each for each in lines if "the changelog has" in each]) == 2
    with pytest.raises(InvalidRequest, match="o=elsewhere"):
        explained(tmp_path, "o=elsewhere")
