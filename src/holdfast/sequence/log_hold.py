"""What a primary keeps of its log for members that catch up (M4).

A member that takes a state needs the records that follow it, and a learner that is fed from the log needs
those that it has not had yet. Checkpoints let the log go. Where they are as frequent as a state travels, the
log behind each state on offer would be gone before the learner has it, and the learner would be sent one
state after the other for ever. So the primary keeps its log, and the checkpoint on offer, from there on.

This is bounded twice, so that a learner hinders nobody: for one that makes no progress for ``hold_ns``
nothing is kept until it makes some, and a log of ``hold_bytes``, which is well before it is too long for
calls (D4), is let go: first what every learner has acknowledged, then all of it. Progress is a chunk that was
not asked for before, or a later acknowledgement; asking again is none.

A listed member without its object (E8) has the log itself and lacks only the state. For it the state alone is
kept, while it asks for one chunk after the other, however long the primary's log becomes.

The hold does not follow each acknowledgement: raising the log's floor is a record of the log, and a message
in which the learner says what it holds may be older than its last acknowledgement.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from holdfast.model.ids import HostId, Position
from holdfast.sequence.member_state import MemberState


@dataclass(slots=True)
class _Fed:
    """A member that catches up."""

    begins: Position
    """It was offered the state at this position, or is fed the records beyond it."""
    has: Position
    """What it has acknowledged since."""
    progressed_at: int
    needs_log: bool = True
    """Whether it needs the records beyond the state, too."""
    state: Position | None = None
    """The position of the state that it was offered."""
    fetched: int = -1
    """The last chunk of it that it has asked for."""
    fetched_at: int = 0


class LogHold:
    """The hold of one primary on its own log, for all members that it feeds."""

    def __init__(self, state: MemberState) -> None:
        self._on = state
        self._fed: dict[HostId, _Fed] = {}
        self._held: tuple[Position | None, Position | None] = (None, None)
        """From where on the log is kept, and the position of the state that is."""
        self.is_feeding = False
        """Whether any member catches up, as far as is known here."""

    def offered(self, host: HostId, position: Position, *, needs_log: bool = True) -> None:
        """Note that the member on *host* is offered the state at *position*. An offer is no progress.
        *needs_log*: it needs the records beyond that state, too."""
        fed = self._begun(host, position)
        if fed.begins != position:
            fed.begins, fed.has = position, position
        if fed.state != position:
            fed.state, fed.fetched, fed.fetched_at = position, -1, self._on.now
        fed.needs_log = needs_log
        self._renew()

    def is_fetching(self, host: HostId, position: Position) -> bool:
        """Whether the member on *host* makes progress with the state at *position*."""
        fed = self._fed.get(host)
        return fed is not None and fed.state == position and fed.fetched >= 0 and self._is_recent(fed)

    def fetched(self, host: HostId, number: int) -> None:
        """Note that the member on *host* asks for a chunk of the state it was offered."""
        fed = self._fed.get(host)
        if fed is not None and number > fed.fetched:
            fed.fetched, fed.progressed_at = number, self._on.now
            fed.fetched_at = self._on.now
            self._renew()

    def agreed(self, host: HostId, position: Position) -> None:
        """Note that the member on *host*, a learner, is sent records beyond *position*."""
        fed = self._begun(host, position)
        fed.begins = min(fed.begins, position)
        fed.has = position
        self._renew()

    def acknowledged(self, host: HostId, position: Position) -> None:
        """Note that the member on *host* has acknowledged everything up to *position*."""
        fed = self._fed.get(host)
        if fed is not None and position > fed.has and self._on.store.point_at(position) is not None:
            fed.has, fed.progressed_at = position, self._on.now
            self._renew()

    def keep_only(self, hosts: Iterable[HostId]) -> None:
        """Forget members other than those on *hosts*, which still catch up; and look at the bounds again."""
        if self._fed:
            still = {host: self._fed[host] for host in hosts if host in self._fed}
            self._fed, self.is_feeding = still, bool(still)
            self._renew()

    def end(self) -> None:
        """Keep nothing any more: nobody catches up, or this member is not primary."""
        if self._fed:
            self._fed.clear()
            self.is_feeding = False
            self._renew()

    def _begun(self, host: HostId, position: Position) -> _Fed:
        self.is_feeding = True
        return self._fed.setdefault(host, _Fed(position, position, self._on.now))

    def _is_recent(self, fed: _Fed) -> bool:
        return fed.fetched_at >= self._on.now - self._on.config.hold_ns

    def _renew(self) -> None:
        on = self._on
        states = [each.state for each in self._fed.values() if each.state and self._is_recent(each)]
        wanted = self._log_wanted(), max(states, default=None)
        if wanted != self._held:
            self._held = wanted
            on.ports.checkpoints.hold(on.group, *wanted)

    def _log_wanted(self) -> Position | None:
        """From where on the log is to be kept."""
        on = self._on
        oldest, floor = on.now - on.config.hold_ns, on.store.floor.position
        fed = [
            each
            for each in self._fed.values()
            if each.needs_log and each.progressed_at >= oldest and each.has >= floor
        ]
        if fed and on.store.live_bytes() > on.config.hold_bytes:
            for each in fed:
                each.begins = each.has
            if self._held[0] is None or min(each.begins for each in fed) <= self._held[0]:
                fed.clear()
        return min((each.begins for each in fed), default=None)
