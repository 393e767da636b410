"""What the members of a group tell each other beside the sequence (W1).

An application on a sequence may need to ask another member something, or let it know something: who has a
message that is missing here, what a method came to there. None of that is ordered or kept. It may be lost,
late, or arrive twice, and it counts only while both members are in the same epoch. Whoever acts on it looks
again, at its own state, and orders what follows from it.

What is told travels on the links on which records and acknowledgements travel, and must not hold them up. So
its length is bounded, and how much of it one member sends to another within a while.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import MILLISECOND, Epoch, HostId
from holdfast.sequence.member_state import MemberState
from holdfast.sequence.messages import PART_CHARACTERS_MAX, PEER_BYTES_MAX, PeerMessage
from holdfast.sequence.ports import Me
from holdfast.sequence.role import Role

TOLD_BYTES_MAX: Final = 8 << 20
"""How many bytes one member tells another within TOLD_NS; more are not sent. A connection that has 64 MiB to
send is closed as too slow, and with it goes what the sequence sends."""
TOLD_NS: Final = 100 * MILLISECOND


class Peer(NamedTuple):
    """Another member of the group, as one member knows it."""

    host: HostId
    is_listed: bool
    """Whether the view names it as in sync."""
    is_heard: bool
    """Whether its host was heard within the time of a lease."""


class PeerMessages:
    """What one member tells the others, and hears of them. *role* returns the member's role."""

    def __init__(self, on: MemberState, role: Callable[[], Role]) -> None:
        self._on = on
        self._role = role
        self._told: dict[HostId, int] = {}
        """The bytes that each was told since *_since*."""
        self._since = 0

    @property
    def me(self) -> Me:
        return self._on.me

    @property
    def epoch(self) -> Epoch:
        """The epoch in which this member speaks and listens."""
        return self._on.epoch

    def peers(self) -> tuple[Peer, ...]:
        """The other members: those that the view lists, then those that the record wants and the view does
        not list. Empty while the view is not known."""
        on = self._on
        listed = [each.host for each in on.standing.listed]
        record = on.standing.record
        placed = record.value.placed_on if record is not None else ()
        others = [host for host in dict.fromkeys((*listed, *placed)) if host != on.me.host]
        return tuple(Peer(host, host in listed, on.ports.leases.hears(host)) for host in others)

    def tell(self, host: HostId, part: str, body: bytes) -> bool:
        """Tell the member on *host* something; *part* of its application gets it, perhaps. Returns whether it
        was sent: not to this member itself, not before this member knows its view, and not beyond a bound.
        Raises ``InvalidRequest`` if it is too long."""
        if len(body) > PEER_BYTES_MAX or not 0 < len(part) <= PART_CHARACTERS_MAX:
            raise InvalidRequest(
                f"a member tells another at most {PEER_BYTES_MAX} bytes, for a part whose name has 1 to "
                f"{PART_CHARACTERS_MAX} characters; not {len(body)} bytes for {part[:PART_CHARACTERS_MAX]!r}"
            )
        on = self._on
        if host == on.me.host or not self._is_speaking or not self._has_room(host, len(body)):
            return False
        on.send(host, PeerMessage(on.group, on.epoch, on.me.incarnation, part, body))
        return True

    def on_message(self, peer: HostId, message: PeerMessage) -> None:
        """Pass on what another member told, if it is in the epoch of this one."""
        if self._is_speaking and self._is_of_now(message):
            self._on.application.on_peer_message(peer, message)

    def _is_of_now(self, message: PeerMessage) -> bool:
        """Whether the message is of the present epoch: what was said in another one was said by a member, or
        to a member, that may have held something else since."""
        return message.epoch == self._on.epoch

    @property
    def _is_speaking(self) -> bool:
        return self._role() not in (Role.WAITING, Role.HALTED)

    def _has_room(self, host: HostId, size: int) -> bool:
        now = self._on.now
        if now - self._since >= TOLD_NS:
            self._since, self._told = now, {}
        told = self._told.get(host, 0) + size
        if told > TOLD_BYTES_MAX:
            return False
        self._told[host] = told
        return True
