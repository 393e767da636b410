"""What a host knows of its domain: which hosts are there, and since when others are gone."""

from types import SimpleNamespace
from typing import Any, cast

from holdfast.admin.snapshot import DomainSnapshot
from holdfast.authority.sessions import Session
from holdfast.model.ids import SECOND, HostId, Incarnation, Nonce

A, B, C = HostId("a"), HostId("b"), HostId("c")


def session(host: HostId) -> Session:
    return Session(host=host, incarnation=Incarnation(1), address="127.0.0.1:1", nonce=Nonce("n"))


def test_a_host_that_was_added_later_is_missed_like_any_other_until_it_is_removed() -> None:
    """The host is not in the description that this process was started with; still, its members are
    considered lost only after it has been gone as long as any other host may be."""
    clock, removed = SimpleNamespace(time=SECOND), list[HostId]()
    directory: Any = SimpleNamespace(sessions={A: session(A), C: session(C)})
    snapshot = DomainSnapshot(
        directory,
        (A, B),
        cast(Any, SimpleNamespace(now=lambda: clock.time)),
        loss_ns=10 * SECOND,
        removed=lambda: tuple(removed),
    )
    assert [(each.host, each.is_alive) for each in snapshot.look()] == [(A, True), (B, False), (C, True)]
    directory.sessions = {A: session(A)}
    assert [each.host for each in snapshot.look() if not each.is_alive] == [B, C]
    clock.time += 10 * SECOND
    assert snapshot.lost() == (B, C)
    removed.append(C)
    assert [each.host for each in snapshot.look()] == [A, B]
