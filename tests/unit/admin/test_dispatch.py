"""Who may give which order to a host."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.admin.dispatch import AdminDispatch
from holdfast.admin.fault_injection import PartitionFilter
from holdfast.model.admin.groups import Order, OrderRefused, RecoverGroup
from holdfast.model.admin.hosts import Deafen, Deafened, DrainHost, HostEnds, RestartHost
from holdfast.model.ids import Epoch, HostId, Incarnation
from holdfast.net import Role

A, B, C = HostId("a"), HostId("b"), HostId("c")


def admin_dispatch(
    partition: PartitionFilter, *, allows_chaos: bool = True, stop: Callable[[], None] = lambda: None
) -> AdminDispatch:
    """The dispatch of host a. The orders below need nothing else of it, or are refused before they would."""
    me = SimpleNamespace(host=A, incarnation=4)
    host: Any = SimpleNamespace(me=me, recovery=None, catalog=None, domain="d")
    nothing: Any = None
    return AdminDispatch(
        *(host, nothing, nothing, nothing, partition, nothing, nothing, (A, B, C), nothing),
        allows_chaos=allows_chaos,
        stop=stop,
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
        RestartHost(host=A, incarnation=Incarnation(1)),
    ],
    ids=["deafen", "recover", "drain", "restart"],
)
@pytest.mark.parametrize("role", [Role.CLIENT, Role.HOST, Role.AGENT])
def test_what_breaks_or_moves_groups_is_for_admins(order: Order, role: Role) -> None:
    answer = told(order, role)
    assert isinstance(answer, OrderRefused)
    assert answer.is_final
    assert f"not for a {role.value}" in answer.text


def test_only_the_process_that_is_meant_ends() -> None:
    """The order may come twice: the next process must not end because of the first."""
    ended: list[str] = []
    host = admin_dispatch(PartitionFilter(), stop=lambda: ended.append("a"))
    for order in (
        RestartHost(host=A, incarnation=Incarnation(3)),
        RestartHost(host=B, incarnation=Incarnation(4)),
    ):
        asyncio.run(host.do(order, Role.ADMIN))
    assert ended == []
    answer = asyncio.run(host.do(RestartHost(host=A, incarnation=Incarnation(4)), Role.ADMIN))
    assert answer == HostEnds(host=A, incarnation=Incarnation(4))
    assert ended == ["a"]
