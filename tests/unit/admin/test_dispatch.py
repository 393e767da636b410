"""Who may give which order to a host."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.admin.dispatch import AdminDispatch
from holdfast.admin.fault_injection import PartitionFilter
from holdfast.model.admin.groups import Order, OrderRefused, RecoverGroup
from holdfast.model.admin.hosts import Deafen, Deafened, DrainHost
from holdfast.model.ids import Epoch, HostId
from holdfast.net import Role

A, B, C = HostId("a"), HostId("b"), HostId("c")


def admin_dispatch(partition: PartitionFilter, *, allows_chaos: bool = True) -> AdminDispatch:
    """The dispatch of host a. The orders below need nothing else of it, or are refused before they would."""
    host: Any = SimpleNamespace(me=SimpleNamespace(host=A), recovery=None, directory=None, domain="d")
    nothing: Any = None
    return AdminDispatch(
        host, nothing, nothing, nothing, partition, nothing, nothing, (A, B, C), allows_chaos=allows_chaos
    )


def told(order: Order, by: Role = Role.ADMIN, *, allows_chaos: bool = True) -> object:
    return asyncio.run(admin_dispatch(PartitionFilter(), allows_chaos=allows_chaos).do(order, by))


def test_a_host_is_deaf_to_whom_it_was_told_until_it_is_told_otherwise() -> None:
    partition = PartitionFilter()
    host = admin_dispatch(partition)
    for order, deaf_to in (
        (Deafen(hosts=(C,)), (C,)),
        (Deafen(hosts=(B, C)), (B, C)),
        (Deafen(hosts=(C,), is_deaf=False), (B,)),
        (Deafen(hosts=(A, B, C), is_deaf=False), ()),
    ):
        assert asyncio.run(host.do(order, Role.ADMIN)) == Deafened(host=A, deaf_to=deaf_to)
        assert partition.to == deaf_to


def test_a_domain_without_chaos_cannot_be_cut() -> None:
    answer = told(Deafen(hosts=(B,)), allows_chaos=False)
    assert isinstance(answer, OrderRefused)
    assert answer.is_final
    assert "without chaos" in answer.text


@pytest.mark.parametrize(
    "order",
    [
        Deafen(hosts=(B,)),
        RecoverGroup(name="g", source=B, epoch=Epoch(1)),
        DrainHost(host=B),
    ],
    ids=["deafen", "recover", "drain"],
)
@pytest.mark.parametrize("role", [Role.CLIENT, Role.HOST, Role.AGENT])
def test_what_breaks_or_moves_groups_is_for_admins(order: Order, role: Role) -> None:
    answer = told(order, role)
    assert isinstance(answer, OrderRefused)
    assert answer.is_final
    assert f"not for a {role.value}" in answer.text
