"""What `holdfast config apply` says of the hosts that run."""

from holdfast.cli.config import in_force_on
from holdfast.model.ids import HostId
from holdfast.settings.in_force import InForce

A, B = HostId("a"), HostId("b")


def host(*at_restart: str) -> InForce:
    return InForce(pid=1, applied="", values={}, sources={}, at_restart=at_restart)


def test_what_waits_for_a_restart_is_not_in_force() -> None:
    """A host may have been started with the value that the others wait for."""
    running = {A: host("streams.window"), B: host()}
    assert in_force_on(["streams.window"], running) == [B]
    assert in_force_on(["streams.window", "leases.lease"], running) == [A, B]
    assert in_force_on(["leases.lease"], running) == [A, B]


def test_without_a_change_all_hosts_have_what_is_applied() -> None:
    assert in_force_on([], {A: host(), B: host("streams.window")}) == [A, B]
