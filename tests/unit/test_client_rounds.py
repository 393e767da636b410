"""Whom a client turns to next: no round of failures is its last."""

from holdfast.calling.addresses import Addresses
from holdfast.model.ids import Epoch, GroupId, HostId
from holdfast.model.reference import MemberAddress, Reference

A, B = HostId("a"), HostId("b")
REFERENCE = Reference(
    GroupId(1), "ledger", Epoch(1), A, (MemberAddress(A, "127.0.0.1:1"), MemberAddress(B, "127.0.0.1:2"))
)


def test_a_round_ends_when_its_last_host_hangs_up() -> None:
    """One host turned the call away, the other went silent and is gone: the first is asked again."""
    addresses = Addresses(REFERENCE)
    addresses.on_connected(A)
    addresses.on_connected(B)
    assert not addresses.on_failed(A)
    assert addresses.target() == B
    addresses.on_disconnected(B)
    assert addresses.target() == A
