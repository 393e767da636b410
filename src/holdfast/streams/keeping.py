"""What members keep of the messages that they have delivered, for others that may need them (LOSS-100, O3).

Where ranges carry only numbers (``retain="none"``), each member keeps a message until every listed one has
delivered it, within the bounds of its settings. One that takes a state needs everything that came after that
state, which may be seconds old before it is loaded. So while a listed member is without its object, or has
not come so far again, all members keep more, by ``suspended_bytes``: the one that takes the state what comes
meanwhile, and the others what it may have missed. *Without it:* B suspends itself; A keeps a quarter of a
second of messages and lets go of the rest; B's state takes a second; a datagram that B lost meanwhile is in
no member's memory, and B takes one state after the other, each of them captured by everybody.

Where that is not room enough either, the older half goes: the next state will be newer.
"""

from dataclasses import dataclass, field

from holdfast.model.ids import HostId
from holdfast.streams.config import StreamSettings
from holdfast.streams.holding import Holding
from holdfast.streams.ledger import Ledger
from holdfast.streams.peers import Marks, Peers, Status


@dataclass(slots=True)
class Keeping:
    """How one member keeps messages for others."""

    settings: StreamSettings
    holding: Holding
    peers: Peers
    _until: dict[HostId, Marks] = field(default_factory=dict)
    """For each member that takes a state: how far this one was when it last heard that."""
    _behind: Marks = field(default_factory=dict)
    """How far the others were when this member was last without its object."""
    _marks: Marks = field(default_factory=dict)
    """How far this member was when it last told the others."""
    _is_needed: bool = False
    """Whether more room is needed."""
    _is_renewed: bool = False
    """Whether its object is given up for a state that is no older."""

    @property
    def is_behind(self) -> bool:
        """Whether this member has taken a state, and not come so far yet as the others were then."""
        return bool(self._behind)

    def give_up(self) -> None:
        """The object is given up; a state that has at least as much takes its place."""
        self._is_renewed = True

    def status(self, ledger: Ledger | None, *, leads: bool) -> Status:
        """What the others are told of this member."""
        if ledger is not None:
            self._marks, self._is_renewed = marks_of(ledger), False
        marks = self._marks if ledger is not None or self._is_renewed else {}
        return Status(ledger is not None, marks, leads)

    def look(self, ledger: Ledger | None) -> None:
        """Make room for what is needed because a member takes a state, or end that."""
        if self.settings.carries:
            return
        own = marks_of(ledger)
        listed = [each.host for each in self.peers.ports.peers() if each.is_listed]
        for host in listed:
            status = self.peers.status.get(host)
            if status is None:
                continue
            if not status.has_object:
                self._until[host] = own
            elif has_reached(status.marks, self._until.get(host, {})):
                self._until.pop(host, None)
            if ledger is None:
                for stream, mark in status.marks.items():
                    self._behind[stream] = max(mark, self._behind.get(stream, mark))
        for host in [each for each in self._until if each not in listed]:
            del self._until[host]
        if ledger is not None and has_reached(own, self._behind):
            self._behind = {}
        self._is_needed = ledger is None or bool(self._until or self._behind)
        if self._is_needed:
            self.holding.widen(self.settings.suspended_bytes)

    def release(self, ledger: Ledger | None) -> None:
        """Let go of what every listed member has delivered, and of more where there is too little room."""
        self.look(ledger)
        if ledger is None or self.settings.carries:
            return
        for mark in ledger.streams.values():
            life = self.holding.life(mark.origin)
            if life is None:
                continue
            stable = self.peers.stable_mark(mark.origin)
            up_to = mark.mark if stable is None else stable
            if self.holding.is_nearly_full(life):
                up_to = max(up_to, self.holding.older_half(life)) if self._is_needed else mark.mark
            first_hole = min((each.first for each in mark.holes), default=mark.mark + 1)
            self.holding.release(mark.origin, min(up_to, mark.mark, first_hole - 1))
        if not self._is_needed and self.holding.fits_as_usual:
            # *Without the second:* what is not delivered yet takes all the usual room, and what comes next is
            # refused: a member that has nearly caught up lacks it, and gives up its object again.
            self.holding.widen(0)


def marks_of(ledger: Ledger | None) -> Marks:
    if ledger is None:
        return {}
    return {name: (each.origin.incarnation, each.mark) for name, each in ledger.streams.items()}


def has_reached(marks: Marks, wanted: Marks) -> bool:
    return all(marks.get(stream, (-1, 0)) >= mark for stream, mark in wanted.items())
