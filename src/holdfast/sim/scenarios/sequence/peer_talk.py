"""What the members of the scenario's groups tell each other beside the sequence, and the check of it (W1).

Whenever something is committed a member may ask another how far it is, and is answered, perhaps. Nothing
follows from the answers. Checked: a member heeds only what was said to it, as it was said, and only in the
epoch in which it was said.
"""

import random
from typing import Final

import msgspec
from msgspec import Struct

from holdfast.model.ids import Epoch, GroupId, HostId, Position
from holdfast.sequence.member import Member
from holdfast.sequence.messages import PeerMessage
from holdfast.sim.scenarios.sequence.observer import Book

PART: Final = "talk"
ASKS: Final = 0.15
"""How often a member asks, each time something is committed."""


class Said(Struct, frozen=True, array_like=True):
    """What one member says to another."""

    process: str
    number: int
    to: HostId
    epoch: Epoch
    is_answer: bool
    committed: Position


class PeerTalk:
    """What one member says and hears."""

    def __init__(self, group: GroupId, process: str, host: HostId, book: Book, rng: random.Random) -> None:
        self._group = group
        self._process = process
        self._host = host
        self._book = book
        self._rng = rng
        self._number = 0

    def maybe_ask(self, member: Member) -> None:
        peers = member.peer_messages.peers()
        if peers and not self._book.is_ending and self._rng.random() < ASKS:
            self._say(member, self._rng.choice(peers).host, is_answer=False)

    def on_peer_message(self, member: Member, peer: HostId, message: PeerMessage) -> None:
        world, said = self._book.world, msgspec.msgpack.decode(message.body, type=Said)
        heard = f"group {self._group}: {self._process} heeds what {said.process} said"
        if said.epoch != member.epoch or message.epoch != member.epoch:
            world.violation("W1", f"{heard} in epoch {said.epoch}, and is in {member.epoch}")
        elif (self._group, said) not in self._book.said or said.to != self._host:
            world.violation("W1", f"{heard} to {said.to}: {said}, which it never said to {self._host}")
        elif not said.is_answer:
            self._say(member, peer, is_answer=True)
        else:
            world.sometimes("a member was answered by another")

    def _say(self, member: Member, to: HostId, *, is_answer: bool) -> None:
        self._number += 1
        said = Said(self._process, self._number, to, member.epoch, is_answer, member.committed)
        self._book.said[self._group, said] = None
        member.peer_messages.tell(to, PART, msgspec.msgpack.encode(said))
