"""What members tell each other beside the sequence: bounded, and only within an epoch (W1)."""

from typing import Any

import msgspec
import pytest
from sequence_follower import GROUP, Follower

from holdfast.authority.groups import GroupRecord, Placement
from holdfast.authority.recipe import Seen
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import Epoch, HostId, Incarnation, Nonce, Revision, StoreId
from holdfast.node.links import decode_sequence
from holdfast.sequence.messages import PEER_BYTES_MAX, PeerMessage
from holdfast.sequence.peer_messages import TOLD_BYTES_MAX, TOLD_NS, Peer, PeerMessages
from holdfast.sequence.role import Role

A = HostId("a")


class Member:
    """Host b's member in epoch 1, with what it hears."""

    def __init__(self, role: Role = Role.BACKUP) -> None:
        self.follower = Follower(1)
        self.on = self.follower.on
        self.heard: list[tuple[HostId, PeerMessage]] = []
        around: Any = self.follower.around
        around.on_peer_message = lambda peer, message: self.heard.append((peer, message))
        around.hears = lambda host: host == A
        self.now_ns = 0
        around.now = lambda: self.now_ns
        self.messages = PeerMessages(self.on, lambda: role)

    @property
    def sent(self) -> list[Any]:
        return self.follower.around.sent


def said(epoch: int, body: bytes = b"word") -> PeerMessage:
    return PeerMessage(GROUP, Epoch(epoch), Incarnation(4), "part", body)


@pytest.mark.parametrize(("epoch", "is_heeded"), [(0, False), (1, True), (2, False)])
def test_only_what_was_said_in_the_present_epoch_is_heeded(epoch: int, is_heeded: bool) -> None:
    """A member speaks for what it holds, and may hold something else in the next epoch."""
    member = Member()
    member.messages.on_message(A, said(epoch))
    assert member.heard == ([(A, said(epoch))] if is_heeded else [])


@pytest.mark.parametrize("role", [Role.WAITING, Role.HALTED])
def test_a_member_that_does_not_know_its_view_neither_speaks_nor_listens(role: Role) -> None:
    member = Member(role)
    member.messages.on_message(A, said(1))
    assert not member.messages.tell(A, "part", b"word")
    assert (member.heard, member.sent) == ([], [])


def test_what_is_told_names_the_group_the_epoch_and_the_process_and_comes_through_the_wire() -> None:
    member = Member()
    assert member.messages.tell(A, "part", b"word")
    (message,) = member.sent
    assert message == PeerMessage(GROUP, Epoch(1), Incarnation(1), "part", b"word")
    assert decode_sequence(msgspec.msgpack.encode(message)) == message


def test_nobody_tells_himself_anything() -> None:
    member = Member()
    assert not member.messages.tell(HostId("b"), "part", b"word")
    assert member.sent == []


@pytest.mark.parametrize(("part", "size"), [("part", PEER_BYTES_MAX + 1), ("", 1), ("p" * 65, 1)])
def test_what_is_too_long_is_refused_by_who_says_it_and_by_who_reads_it(part: str, size: int) -> None:
    member = Member()
    with pytest.raises(InvalidRequest, match="at most 1048576 bytes"):
        member.messages.tell(A, part, bytes(size))
    assert member.sent == []
    if part:
        message = PeerMessage(GROUP, Epoch(1), Incarnation(1), part, bytes(size))
        with pytest.raises(msgspec.ValidationError):
            decode_sequence(msgspec.msgpack.encode(message))


def test_a_flood_is_cut_off_before_it_holds_up_the_sequence() -> None:
    """And another host is told as before, and so is this one after a while."""
    member = Member()
    member.now_ns = TOLD_NS
    most = TOLD_BYTES_MAX // PEER_BYTES_MAX
    told = [member.messages.tell(A, "part", bytes(PEER_BYTES_MAX)) for _ in range(most + 3)]
    assert told == [True] * most + [False] * 3
    assert member.messages.tell(HostId("c"), "part", b"word")
    member.now_ns += TOLD_NS
    assert member.messages.tell(A, "part", b"word")


def test_peers_are_the_listed_and_those_that_the_record_wants() -> None:
    """Each with whether it is heard, which is what decides who may still be asked."""
    member = Member()
    record = GroupRecord(
        group=GROUP,
        class_name="c",
        style="active",
        members=tuple(Placement(host=HostId(name), store=StoreId("")) for name in "abc"),
        nonce=Nonce("n"),
    )
    assert member.messages.peers() == ()
    member.on.standing.learn_record(Seen("groups/1", record, Revision(2)))
    assert member.messages.peers() == (Peer(A, False, True), Peer(HostId("c"), False, False))
