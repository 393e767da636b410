"""The directory of a domain and its description."""

from pathlib import Path

import msgspec
import pytest

from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import HostId
from holdfast.node.layout import Description, Layout

DESCRIPTION = Description(
    domain="d1",
    hosts=(HostId("host1"), HostId("host2")),
    agent_address="127.0.0.1:1",
    authority_address="127.0.0.1:2",
)


def test_a_description_is_read_as_it_was_written(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "domain")
    assert not layout.exists
    layout.write(DESCRIPTION)
    assert layout.exists
    assert layout.read() == DESCRIPTION


def test_a_directory_without_a_domain_says_how_to_start_one(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="holdfast up --dir"):
        Layout(tmp_path).read()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"domain": 1}', b'{"domain": "d", "hosts": "x"}'])
def test_a_spoilt_description_is_named_and_left_alone(tmp_path: Path, content: bytes) -> None:
    layout = Layout(tmp_path)
    layout.description_file.write_bytes(content)
    with pytest.raises(InvalidRequest, match=r"domain\.json"):
        layout.read()
    assert layout.description_file.read_bytes() == content


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"version": 2}, "version 2"),
        ({"hosts": ()}, "1 to 64 hosts"),
        ({"hosts": ("a", "a")}, "each once"),
        ({"hosts": ("../a",)}, r"'\.\./a' cannot be"),
        ({"agent_address": "nowhere"}, "host:port"),
        ({"authority_address": None}, "either an authority"),
        ({"etcd_endpoints": ("x:2379",)}, "no endpoint of an etcd"),
    ],
)
def test_a_description_that_cannot_be_used_is_refused_with_the_reason(
    tmp_path: Path, change: dict[str, object], complaint: str
) -> None:
    """Otherwise processes would crash over it one by one, or write outside the domain's directory."""
    layout = Layout(tmp_path)
    layout.write(msgspec.structs.replace(DESCRIPTION, **change))
    with pytest.raises(InvalidRequest, match=complaint):
        layout.read()


def test_prepare_makes_what_the_processes_expect(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    layout.prepare(DESCRIPTION)
    assert layout.host(HostId("host2")).is_dir()
    assert layout.authority.is_dir()
    assert layout.output("agent").parent.is_dir()


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"locations": {"host9": "rack1"}}, "no such host"),
        ({"locations": {"host1": "rack1//m1"}}, "a location is"),
        ({"locations": {"host1": "rack 1"}}, "a location is"),
        ({"roles": {"host1": ("cooking",)}}, "no role 'cooking'"),
        ({"roles": {"host1": ()}}, "at least one role"),
        ({"locations": {"host1": "rack2"}, "location": "rack1", "certs": "/c"}, "certificates are for rack1"),
    ],
)
def test_what_is_said_of_single_hosts_is_checked(change: dict[str, object], complaint: str) -> None:
    found = msgspec.structs.replace(DESCRIPTION, **change).problems()
    assert len(found) == 1
    assert complaint in found[0]


def test_a_host_is_where_it_says_or_where_its_machine_is() -> None:
    host1, host2 = DESCRIPTION.hosts
    placed = msgspec.structs.replace(DESCRIPTION, location="rack1").with_host(
        host2, location="rack2/m2", roles=("groups", "search")
    )
    assert placed.problems() == []
    assert (placed.location_of(host1), placed.location_of(host2)) == ("rack1", "rack2/m2")
    assert (placed.roles_of(host1), placed.roles_of(host2)) == (("groups",), ("groups", "search"))
    back = placed.with_host(host2, location="", roles=("groups",))
    assert (back.locations, back.roles) == ({}, {})
    left = placed.without_host(host2)
    assert (left.hosts, left.locations, left.roles) == ((host1,), {}, {})
