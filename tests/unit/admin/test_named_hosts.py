"""Which hosts can be named for a group (W2)."""

import pytest

from holdfast.admin.named_hosts import check_named
from holdfast.authority.sessions import Session
from holdfast.control.desired.state import DomainState
from holdfast.control.replication.spec import GroupSpec
from holdfast.model.errors import HoldfastError, InvalidRequest, Unavailable
from holdfast.model.ids import HostId, Incarnation, Nonce

A, B, C, D, E = map(HostId, "abcde")


def session(host: HostId, *roles: str) -> Session:
    return Session(host=host, incarnation=Incarnation(1), address=f"{host}:1", nonce=Nonce("n"), roles=roles)


SESSIONS = {each: session(each, "groups") for each in (A, B, C)} | {D: session(D, "search")}
STATE = DomainState(draining=(C,))


def test_hosts_that_live_and_are_for_groups_can_be_named() -> None:
    check_named(GroupSpec(), (A, B), 2, SESSIONS, STATE)
    check_named(GroupSpec(role=""), (A, D), 2, SESSIONS, STATE)


@pytest.mark.parametrize(
    ("hosts", "kind", "why"),
    [
        ((A,), InvalidRequest, "2 members must hold an operation"),
        ((A, C), InvalidRequest, "c is being emptied"),
        ((A, D), InvalidRequest, "d is for search, and takes no groups"),
        ((A, E), Unavailable, "there is no host 'e', or it does not live now; these live: a, b, c, d"),
        (tuple(HostId(f"h{each}") for each in range(99)), InvalidRequest, "99 hosts are named"),
    ],
)
def test_others_are_refused_with_the_reason(
    hosts: tuple[HostId, ...], kind: type[HoldfastError], why: str
) -> None:
    with pytest.raises(kind, match=why):
        check_named(GroupSpec(), hosts, 2, SESSIONS, STATE)
