"""A server that cannot go on by itself: it gives up its object, takes the leader's state, and goes on (O3).

A leader hands over first, to a server that has the messages it lost (LOSS-86), and gives up its object when
it no longer leads. A server that lacks a message which was ordered by its number waits, asks for it, and
suspends itself when it cannot be had (LOSS-90). Nobody waits for it meanwhile.

A leader that lacks one before it serves can take no state from anybody. When nobody else has the message
either, it goes on without it, notes that in its ledger, and says so in the order as the first thing it does;
a server that did deliver the message takes the leader's state when it hears that (O1)."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from holdfast.execution.annex import AnnexPorts
from holdfast.model.errors import InvalidRequest, Unavailable
from holdfast.model.ids import MILLISECOND, Epoch, HostId
from holdfast.streams.config import StreamSettings
from holdfast.streams.keeping import Keeping
from holdfast.streams.ledger import Ledger
from holdfast.streams.message import Origin
from holdfast.streams.recovering import Places, Progress, RecoveryJob

HAND_OVER_MS: Final = 2_000
"""How long a hand-over may take until it counts as failed."""
AGAIN_MS: Final = 1_000
"""How long a member waits at least that has taken a state and lacks what came after it; doubled each time."""
AGAIN_MAX_MS: Final = 8_000
IN_TURN_MS: Final = 5_000
"""How long a member leaves it to another one to take a state first."""
LOOK_MS: Final = 100
TOO_LITTLE: Final = (
    "It came after the state that this member has just taken: members keep too little "
    "(suspended_bytes) for so large a state and so fast a source"
)


@dataclass(slots=True)
class Owed:
    """Content that a member lacks of a range that was ordered by its numbers."""

    body: bytes
    spans: list[tuple[Origin, int, int]]
    since_ns: int
    job: RecoveryJob | None = None
    renewed_ns: int | None = None
    """When this member asked to have its object renewed; it leads if it is still here later."""
    not_before_ns: int = 0
    """When it is asked for again."""
    is_given_up: bool = False


@dataclass(slots=True)
class Suspending:
    """How one member suspends itself."""

    ports: AnnexPorts
    settings: StreamSettings
    places: Places
    keeping: Keeping
    owed: Owed | None = None
    _in_a_row: int = 0
    """How many states this member has taken without having caught up in between, and the next."""
    _handing: tuple[HostId, str, Epoch, int] | None = field(default=None)
    """To whom, why, in which epoch and until when the group is being handed over."""

    # --- a leader

    def hand_over(self, to: HostId, why: str) -> None:
        """Hand over to the server on *to*; this one suspends itself when it no longer leads."""
        now = self.ports.clock.now()
        if self._handing is not None:
            return
        self._handing = (to, why, self.ports.epoch(), now + HAND_OVER_MS * MILLISECOND)
        with suppress(InvalidRequest, Unavailable):
            self.ports.hand_over(to, why)
            self.ports.trace.note("suspending", to=to, why=why)
            return
        self._handing = None  # it cannot lead now; another look follows

    def look(self, ledger: Ledger | None, now: int) -> None:
        """Give up the object if this member has suspended itself, or differs from the leader (O1, O3)."""
        if self._handing is not None:
            to, why, epoch, until_ns = self._handing
            if self.ports.epoch() != epoch:
                if self.ports.leads() or ledger is None:
                    self._handing = None
                elif self._may_be_given_up(to, ledger):
                    self._handing = None
                    self.renew(why)
            elif now >= until_ns:
                self._handing = None
        if ledger is not None and ledger.differs:
            self.renew(ledger.differs)

    def _may_be_given_up(self, to: HostId, ledger: Ledger) -> bool:
        """Whether the server that leads on has all that this one has. *Without it:* ordered messages are only
        where they were delivered (``retain="none"``), and the object that has them is given up for one that
        can never have them."""
        peers = self.places.peers
        return self.settings.carries or all(
            peers.has_delivered(to, each.origin, each.mark) for each in ledger.streams.values()
        )

    # --- a member that lacks ordered content

    def owe(self, body: bytes, spans: list[tuple[Origin, int, int]]) -> None:
        """The next record needs the content of *spans*, which is not here."""
        if self.owed is None or self.owed.body != body:
            self.owed = Owed(body, spans, self.ports.clock.now())
            self.ports.wake()
        else:
            self.owed.spans = spans

    def has_given_up(self, body: bytes) -> bool:
        """Whether that record is to be applied without the content that it lacks."""
        return self.owed is not None and self.owed.is_given_up and self.owed.body == body

    def settled(self) -> None:
        """The record was applied, or the object given up."""
        self.owed = None

    def pursue(self, now: int, is_waiting: Callable[[], bool]) -> None:
        """Ask for what is owed; give the object up when it cannot be had. *is_waiting* says whether the
        member's object still waits for it."""
        owed = self.owed
        if owed is None or owed.is_given_up:
            return
        if not is_waiting():
            self.settled()
            return
        if now < max(owed.since_ns + self.settings.grace_ns, owed.not_before_ns):
            return  # the order often overtakes the messages
        origin, first, last = owed.spans[0]
        if owed.job is None or (owed.job.origin, owed.job.last) != (origin, last):
            owed.job = self._job(origin, first, last, now)
        match owed.job.step(now):
            case Progress.DONE:
                owed.job = None
                self.ports.ready()
            case Progress.FAILED if owed.renewed_ns is None and (pause_ns := self._pause_ns(owed, now)):
                owed.job, owed.not_before_ns = None, now + pause_ns  # and ask again
            case Progress.FAILED if owed.renewed_ns is None:
                # A backup has no object any more at the end of this turn, and this is forgotten.
                owed.renewed_ns = now
                self.ports.trace.note("lacks", stream=origin.stream, first=first, last=last, why=owed.job.why)
                why = f"{origin.stream} {first} to {last} was ordered and is not here: {owed.job.why}"
                owed.job = None
                self._in_a_row = self._in_a_row + 1 if self.keeping.is_behind else 1
                if self._in_a_row > 1:
                    self.ports.fault("message_loss", f"{why}. {TOO_LITTLE}")
                self.renew(why)
            case Progress.FAILED if self._may_others_have_it(owed, now):
                owed.job = None  # and ask again
            case Progress.FAILED if self._hand_back(origin, last):
                owed.job = None  # and ask again, if it comes to nothing
            case Progress.FAILED:
                # It still waits, so it is the leader, asked everybody once more, and nobody has it.
                owed.is_given_up = True
                self.ports.trace.note("gives up", stream=origin.stream, first=first, last=last)
                self.ports.ready()
            case Progress.RUNNING:
                pass

    def renew(self, why: str) -> None:
        """Give up the object of a backup, and take the leader's state in its place."""
        self.keeping.give_up()
        self.ports.renew(why)

    def _pause_ns(self, owed: Owed, now: int) -> int:
        """How long a backup still keeps the object that cannot go on; 0: it gives it up now. A state costs
        every member a capture: one that has just taken one and lacks what came after it waits longer and
        longer, and where another one takes a state, one that lacks something is the next. A member that
        knows of no leader may be the one that is to lead, and does not wait."""
        peers = self.places.peers
        if not peers.are_led:
            return 0
        waited_ns = now - owed.since_ns
        if self.keeping.is_behind and self._in_a_row:
            pause_ns = min(AGAIN_MS << min(self._in_a_row - 1, 8), AGAIN_MAX_MS) * MILLISECOND
            if waited_ns < pause_ns:
                return pause_ns - waited_ns
        is_other_first = waited_ns < IN_TURN_MS * MILLISECOND and bool(peers.without_object())
        return LOOK_MS * MILLISECOND if is_other_first else 0

    def _hand_back(self, origin: Origin, last: int) -> bool:
        """Hand over to a server whose object has what no server keeps any more, if there is one; whether that
        was begun, or is under way. *Without it:* it is lost, although one that works has it."""
        for each in self.ports.peers():
            if each.is_listed and each.is_heard and self.places.peers.has_delivered(each.host, origin, last):
                self.hand_over(each.host, f"{origin.stream} up to {last} is in the object there alone")
                return self._handing is not None
        return False

    def _may_others_have_it(self, owed: Owed, now: int) -> bool:
        """Whether a listed member could not be asked, and it is too early to go on without its answer."""
        is_silent = any(each.is_listed and not each.is_heard for each in self.ports.peers())
        return is_silent and now < owed.since_ns + self.settings.give_up_ms * MILLISECOND

    def due_ns(self) -> int | None:
        owed = self.owed
        if owed is not None and not owed.is_given_up:
            if owed.job is not None:
                return owed.job.due_ns()
            return max(owed.since_ns + self.settings.grace_ns, owed.not_before_ns)
        is_handing = self._handing is not None and self._handing[2] == self.ports.epoch()
        return self._handing[3] if self._handing is not None and is_handing else None

    def _job(self, origin: Origin, first: int, last: int, now: int) -> RecoveryJob:
        settings = self.settings
        return RecoveryJob(
            origin,
            first,
            last,
            self.places,
            now,
            settings.recover_ms * MILLISECOND,
            settings.attempts,
            is_ahead=True,
        )
