"""What must hold while a member takes a state: what came after that state is kept for it (O3)."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from holdfast.model.ids import HostId
from holdfast.streams.ledger import Ledger
from holdfast.streams.message import Origin
from holdfast.streams.peers import Marks, Status

if TYPE_CHECKING:
    from holdfast.sim.scenarios.streams.host import WatchedStreams


@dataclass(slots=True)
class _Taking:
    """Another member that takes a state."""

    from_mark: dict[Origin, int]
    """How far this member was when it heard of that: what it delivered later is kept."""
    up_to: Marks
    """How far it was when it heard of that last."""
    told: Marks
    """The furthest that the other one has said it is. One that is killed may come back behind that: with the
    state that it had stored, and without what its process had in memory."""


@dataclass(slots=True)
class KeepWatch:
    """Watches one process's member."""

    streams: "WatchedStreams"
    _taking: dict[HostId, _Taking] = field(default_factory=dict)
    _of: Ledger | None = None
    """The ledger of the object that was here then."""

    def on_status(self, peer: HostId, status: Status) -> None:
        ledger = self.streams.ledger
        if self.streams.handlers.settings.carries or self._is_new(ledger) or ledger is None:
            return
        known, marks = self._taking.get(peer), _marks(ledger)
        if known is not None:
            for stream, mark in status.marks.items():
                known.told[stream] = max(mark, known.told.get(stream, mark))
        if not status.has_object:
            if known is None:
                begun = {each.origin: each.mark for each in ledger.streams.values()}
                self._taking[peer] = _Taking(begun, marks, dict(status.marks))
            else:
                known.up_to = marks
        elif known is not None and all(
            status.marks.get(stream, (0, 0)) >= mark for stream, mark in known.up_to.items()
        ):
            del self._taking[peer]

    def look(self) -> None:
        """Require that this member has all that one which takes a state may need."""
        streams, ledger = self.streams, self.streams.ledger
        group = streams.group
        if self._is_new(ledger) or ledger is None or group in streams.book.gave_up:
            self._taking.clear()
            return
        listed = [each.host for each in streams.ports.peers() if each.is_listed]
        has_room = streams.handlers.settings.suspended_bytes > 0
        for host, taking in list(self._taking.items()):
            if host not in listed:
                del self._taking[host]
                continue
            for mark in ledger.streams.values() if has_room else ():
                incarnation, told = taking.told.get(mark.origin.stream, (0, 0))
                if incarnation > mark.origin.incarnation or self._has_ended_twice(mark.origin):
                    continue
                begin = max(
                    taking.from_mark.get(mark.origin, 0),
                    told if incarnation == mark.origin.incarnation else 0,
                )
                for number in range(begin + 1, mark.mark + 1):
                    key = (group, mark.origin.stream, mark.origin.incarnation, number)
                    is_delivered = mark.is_done_with(number) and key in streams.book.delivered
                    if is_delivered and key not in streams.book.passed and key not in streams.book.lacked:
                        streams.book.world.sometimes("a message is kept for one that takes a state")
                        if streams.held(mark.origin, number) is None:
                            said = f"{key[1:]} is not kept, although {host} takes a state"
                            streams.book.world.violation("O3", f"{streams.process}: {said}")
                            return

    def _has_ended_twice(self, origin: Origin) -> bool:
        """Whether the stream is two lives further: no more than two are held."""
        holding = self.streams.holding
        newest = holding.newest(origin.stream)
        is_over = newest is not None and newest.origin.incarnation >= origin.incarnation + 2
        return is_over and holding.life(origin) is None

    def _is_new(self, ledger: Ledger | None) -> bool:
        """Whether the object is another one than at the last look: a state has messages that never came."""
        before, self._of = self._of, ledger
        if ledger is not before:
            self._taking.clear()
        return ledger is not before


def _marks(ledger: Ledger) -> Marks:
    return {name: (each.origin.incarnation, each.mark) for name, each in ledger.streams.items()}
