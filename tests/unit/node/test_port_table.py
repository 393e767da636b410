"""Fixed ports: no two processes of a machine share one, and each host keeps its own."""

import pytest

from holdfast.model.ids import HostId
from holdfast.node.layout import HOSTS_MAX, Description
from holdfast.node.port_table import ANY, BASE_MIN, PORT_MAX, host_ports, slots, why_not

HOSTS = tuple(HostId(f"host{n}") for n in range(1, HOSTS_MAX + 1))
DOMAIN = Description(
    domain="d", hosts=HOSTS[:3], agent_address="127.0.0.1:5", authority_address="127.0.0.1:6"
)


def test_no_two_processes_share_a_port() -> None:
    ports = [host_ports(7400, slot) for slot in range(HOSTS_MAX)]
    used = [7400, 7401, *(port for each in ports for port in (each.native, each.heartbeats, each.http))]
    assert len(set(used)) == len(used)
    assert (ports[0].native, ports[1].http) == (7410, 7422)


def test_a_host_keeps_its_slot_when_others_come_and_go() -> None:
    first, second, third, fourth = HOSTS[:4]
    known = slots({}, (first, second, third))
    assert known == {first: 0, second: 1, third: 2}
    known = slots(known, (first, third))
    assert known == {first: 0, third: 2}
    assert slots(known, (first, third, fourth)) == {first: 0, third: 2, fourth: 1}


@pytest.mark.parametrize("base", [-1, 1, BASE_MIN - 1, PORT_MAX - 9, PORT_MAX + 1])
def test_a_base_that_leaves_no_room_is_refused(base: int) -> None:
    assert str(base) in why_not(base, HOSTS_MAX)
    assert DOMAIN.with_ports(base).problems()


@pytest.mark.parametrize("base", [0, BASE_MIN, PORT_MAX - 10 - 10 * HOSTS_MAX])
def test_a_base_that_leaves_room_is_taken(base: int) -> None:
    assert why_not(base, HOSTS_MAX) == ""
    highest = host_ports(base, HOSTS_MAX - 1).http
    assert highest <= PORT_MAX


def test_a_domain_on_one_machine_has_all_its_ports_fixed() -> None:
    fixed = DOMAIN.with_ports(7400)
    assert (fixed.agent_address, fixed.authority_address) == ("127.0.0.1:7400", "127.0.0.1:7401")
    assert fixed.ports_of(HOSTS[2]) == host_ports(7400, 2)
    assert fixed.with_ports(0).ports_of(HOSTS[2]) == ANY
    assert DOMAIN.ports_of(HOSTS[0]) == ANY
