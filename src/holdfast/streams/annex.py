"""The streams of one member of a group: an annex of its object (W9), and what a host hands messages to.

Messages and heartbeats of sources come in through :meth:`Streams.on_messages` and
:meth:`Streams.on_heartbeat`; everything else follows in the member's turns.
"""

from collections.abc import Sequence

import msgspec

from holdfast.authority.groups import GroupRecord
from holdfast.execution.annex import AnnexPorts
from holdfast.model.errors import Rejected, invariant
from holdfast.model.ids import MILLISECOND, HostId
from holdfast.model.properties import Style
from holdfast.sequence.messages import PeerMessage
from holdfast.streams.deciding import Deciding, ask_here
from holdfast.streams.delivering import StreamState
from holdfast.streams.handlers import Handlers, handlers_of
from holdfast.streams.holding import HeldStream, Holding
from holdfast.streams.information import decode_information
from holdfast.streams.keeping import Keeping
from holdfast.streams.ledger import Decision, LackedRange, Ledger, StreamMark
from holdfast.streams.message import Heartbeat, Message, Origin
from holdfast.streams.ordering import Ordering
from holdfast.streams.peers import (
    GIVEN_BYTES_MAX,
    GIVEN_MAX,
    Answer,
    Given,
    Holds,
    Peers,
    Question,
    Status,
    Wanted,
    WhoHas,
    decode_told,
)
from holdfast.streams.ports import DeciderGroup, MessageStore
from holdfast.streams.records import Decided, Deliver, Lacked, Ordered, Passed, RuleEnded, positions_in
from holdfast.streams.recovering import Places, RecoveryJob
from holdfast.streams.rules import Rule
from holdfast.streams.runs import Run, runs_of
from holdfast.streams.suspending import Suspending
from holdfast.styles.by_name import style_named

NAME = "streams"
SPAN_MAX = 1 << 32
"""How far beyond its mark a number may be and still be believed: more is a source that is broken."""


AGAIN_MS = 5
"""What could not be ordered, because the group has too much to do, is tried again after this time."""
IDLE_TIMES = 10
"""How much less often members report to each other while nothing changes."""


class Streams:
    """The streams of one member. Not bound, because its object is only made to try a state or to replay
    records, it makes states and does nothing else."""

    name = NAME

    def __init__(self, handlers: Handlers) -> None:
        self.handlers = handlers
        self._settings = handlers.settings
        self._carries = handlers.settings.carries
        self.holding = Holding(self._settings.hold_messages, self._settings.hold_bytes)
        self._ports: AnnexPorts | None = None
        self._next_status_ns = 0
        self._told = Status(False)
        self._is_used = False
        """Whether any message has come, or was ordered: until then nobody is told anything."""
        self._again_ns: int | None = None
        """When what could not be ordered is tried again."""

    # --- the member

    @property
    def is_bound(self) -> bool:
        return self._ports is not None

    @property
    def ports(self) -> AnnexPorts:
        invariant(self._ports is not None, "streams that do anything are bound to a member")
        assert self._ports is not None
        return self._ports

    def state(self) -> StreamState:
        return StreamState(self)

    def positions(self, body: bytes) -> int:
        return positions_in(body)

    def bind(self, ports: AnnexPorts) -> None:
        self._ports = ports
        self.peers = Peers(ports)
        self.places = Places(self._settings, self.holding, self.peers)
        self.keeping = Keeping(self._settings, self.holding, self.peers)
        self.suspending = Suspending(ports, self._settings, self.places, self.keeping)
        self.deciding = Deciding(ports, self.handlers, self.peers, self.places)
        self.ordering = Ordering(ports, self.handlers, self.holding, self.deciding, self.suspending)

    def connect(
        self,
        *,
        log: MessageStore | None = None,
        source: MessageStore | None = None,
        decider: DeciderGroup | None = None,
    ) -> None:
        """Give this member other places to recover messages from, beside its peers, and what asks the group
        that decides about its losses."""
        self.places.log, self.places.source, self.deciding.group = log, source, decider

    @property
    def ledger(self) -> Ledger | None:
        """The streams' part of the present object's state; None while there is no object."""
        if self._ports is None:
            return None
        state = self._ports.state()
        return state.ledger if isinstance(state, StreamState) else None

    # --- from outside the group

    def on_messages(self, origin: Origin, messages: Sequence[Message], *, place: str = "") -> None:
        """Messages of a stream have come: from their source, or from *place*, which was asked for them
        (``"@log"``, ``"@source"``, or a member)."""
        held = self.holding.held(origin)
        if held is None:
            self.holding.foreign += len(messages)
            return
        ports = self.ports
        now, mark = ports.clock.now(), self._last_mark(origin)
        if mark is None and self._is_over(origin):
            held.figures.late += len(messages)
            return
        if mark is None and self.ledger is None:
            self.holding.make_room(held)
        elif not self._carries and self.holding.is_nearly_full(held):
            # *Without it:* what was delivered goes only with the next status, and what comes has no room.
            self.keeping.release(self.ledger)
        taken = 0
        for run in runs_of(messages):
            taken += self._take(held, run, mark, now)
        if place:
            held.figures.recovered += taken
            for job in self._jobs(origin):
                job.on_given(place, messages)
        if taken or place:
            self._is_used = True
            if self.suspending.owed is not None:
                self._maybe_ready()
            ports.wake()

    def _take(self, held: HeldStream, run: Run, mark: StreamMark | None, now: int) -> int:
        """Hold what is new of *run*; returns how much that is."""
        believed = (mark.mark if mark is not None else held.highest) + SPAN_MAX
        if run.last > believed:
            held.figures.refused += run.last - max(believed, run.first - 1)
            if run.first > believed:
                return 0
            run = run.part(run.first, believed)
        if mark is None or run.first > mark.mark:
            return self.holding.take_run(held, run, now)
        wanted = [(each.first, each.last) for each in mark.holes] + [(mark.mark + 1, run.last)]
        parts = [
            run.part(first, last)
            for first, last in wanted
            if first <= run.last and last >= max(first, run.first)
        ]
        held.figures.late += len(run) - sum(map(len, parts))
        return sum(self.holding.take_run(held, part, now, ordered=mark.mark) for part in parts)

    def on_heartbeat(self, origin: Origin, heartbeat: Heartbeat) -> None:
        """A source says up to where it has sent."""
        held = self.holding.held(origin)
        if held is None:
            return
        is_first = held.heard is None and not held.figures.received
        if is_first:
            held.heard, held.heard_ns = heartbeat.highest, self.ports.clock.now()
        mark = self._last_mark(origin)
        believed = (mark.mark if mark is not None else held.highest) + SPAN_MAX
        if is_first or held.highest < heartbeat.highest <= believed:
            held.highest = max(held.highest, min(heartbeat.highest, believed))
            self._is_used = True
            self.ports.wake()

    def on_unavailable(self, origin: Origin, first: int, last: int, reason: str, *, place: str) -> None:
        """*place* does not have messages *first* to *last*, for a reason of ``ports.REASONS``."""
        for job in self._jobs(origin):
            if first <= job.last and last >= job.first:
                job.on_unavailable(place, reason)
        self.ports.wake()

    def on_decided(self, number: int, action: bytes, why_not: str = "") -> None:
        """The group that decides has answered a question: *action* is what its ``on_loss`` returned, encoded;
        or it could not be asked, and *why_not*."""
        self._take_answer(Answer(number, msgspec.Raw(action), why_not))
        self.ports.wake()

    def end_rule(self, rule: int, why: str = "by request") -> bool:
        """Have a rule end at an ordered point (LOSS-70); whether this member leads and the rule is there."""
        plan = self.ordering.plan
        if plan is None or rule not in plan.rules:
            return False
        self.ordering.wish(RuleEnded(rule, why[:200]))
        self.ports.wake()
        return True

    def sync(self, stream: str) -> int:
        """The application and the source of *stream* are in step again: end the rules that last until then.
        Returns how many there are; 0 also if this member does not lead."""
        plan = self.ordering.plan
        mark = plan.mark(stream) if plan is not None else None
        numbers = plan.rules.of_sync(mark.origin) if plan is not None and mark is not None else []
        return sum(self.end_rule(number, "sync") for number in numbers)

    # --- what people are shown

    def rules(self) -> list[Rule]:
        ledger = self.ledger
        return list(ledger.rules) if ledger is not None else []

    def audit(self) -> list[Decision]:
        """The last decisions, oldest first."""
        ledger = self.ledger
        return list(ledger.audit) if ledger is not None else []

    def marks(self) -> dict[str, StreamMark]:
        ledger = self.ledger
        return dict(ledger.streams) if ledger is not None else {}

    # --- the group

    def on_message(self, peer: HostId, message: PeerMessage) -> None:
        try:
            told = decode_told(message.body)
        except msgspec.DecodeError as error:
            self.ports.trace.note("not understood", peer=peer, why=str(error))
            return
        match told:
            case Status():
                self.peers.on_status(peer, told)
                if not told.has_object or self.ledger is None:
                    self.keeping.look(self.ledger)
            case Wanted():
                self.peers.tell(peer, self._given(told))
            case Given():
                self.on_messages(told.origin, told.messages, place=peer)
            case WhoHas():
                self.peers.tell(peer, self._holds(told))
            case Holds():
                for loss in self.ordering.losses.values():
                    if loss.is_wanted(told.origin, told.first, told.last):
                        loss.holders[peer] = told
            case Question():
                self._decide_for(peer, told)
            case Answer():
                if peer == self._settings.decider:
                    self._take_answer(told)

    def turn(self) -> None:
        now = self.ports.clock.now()
        ledger = self.ledger
        if not self._is_used and not (ledger is not None and ledger.is_used):
            return
        self.suspending.pursue(now, self._is_waiting)
        self.suspending.look(ledger, now)
        if ledger is None and self._told.has_object:
            self._next_status_ns = now  # the others keep what this member will need, from now on
            self.keeping.look(ledger)
        if now >= self._next_status_ns:
            status = self.keeping.status(ledger, leads=self.ports.leads())
            # While nothing changes there is little to tell.
            times = 1 if status != self._told else IDLE_TIMES
            self._next_status_ns = now + times * self._settings.status_ms * MILLISECOND
            self.peers.tell_all(status)
            self._told = status
            self.keeping.release(ledger)
        if ledger is None or not self.ports.leads():
            self.ordering.stop()
            self._again_ns = None
            if ledger is not None and ledger.lacked and self.suspending.owed is None:
                # Another leads, who does not know of it: this object lacks what the group has (O1).
                self.suspending.renew("it lacks messages that were ordered")
            return
        self._again_ns = None
        try:
            self.ordering.turn(ledger, now)
        except Rejected:
            # *Without it:* the source waits for credit and sends nothing, nothing is due here before the
            # next report to the other members, and a stream that was refused once stands until then.
            self._again_ns = now + AGAIN_MS * MILLISECOND
            raise

    def next_ns(self) -> int | None:
        ledger = self.ledger
        if not self._is_used and not (ledger is not None and ledger.is_used):
            return None
        due = [self._next_status_ns, self._again_ns, self.suspending.due_ns(), self.ordering.next_ns()]
        return min(each for each in due if each is not None)

    # --- for the parts of the state

    def held(self, origin: Origin, number: int) -> Message | None:
        life = self.holding.life(origin)
        return life.get(number) if life is not None else None

    def held_within(self, origin: Origin, first: int, last: int) -> list[Run]:
        life = self.holding.life(origin)
        return life.runs_within(first, last) if life is not None else []

    def held_run(self, origin: Origin, first: int) -> Run | None:
        """The run that begins with *first*."""
        life = self.holding.life(origin)
        return life.run_at(first) if life is not None else None

    def missing(self, origin: Origin, first: int, last: int) -> list[tuple[int, int]]:
        life = self.holding.life(origin)
        return life.missing(first, last) if life is not None else [(first, last)]

    def owe(self, body: bytes, spans: list[tuple[Origin, int, int]]) -> None:
        self._is_used = True
        self.suspending.owe(body, spans)

    def has_given_up(self, body: bytes) -> bool:
        return self.suspending.has_given_up(body)

    def on_applied(self, state: StreamState, entry: Deliver | Passed) -> None:
        """*entry* took effect on *state*: if that is the present object's, what nobody needs is let go. Where
        the order has numbers alone, what was delivered before a message that is passed over is still kept.
        *Without it:* B lacks message 7 of the order and asks for it; 8 is dropped, everybody lets go of all
        up to 8, and B has to give up its object."""
        if self._ports is None:
            return
        if isinstance(entry, Passed) or self._carries:
            if state.ledger.is_set or not self._carries:
                life = self.holding.life(entry.origin)
                if life is not None:
                    self.holding.remove(life, entry.first, entry.last)
            else:
                self.holding.release(entry.origin, entry.last)

    def on_lacking(self, state: StreamState, found: LackedRange) -> None:
        """*state* goes on without messages that were ordered. A leader that has planned already says so next.
        *Without it:* it has let go of them after it ordered them, and never says so; its state is that of an
        object which lacks something, and whoever takes it gives it up again, for ever."""
        plan = self.ordering.plan
        if plan is not None and state.ledger is self.ledger:
            plan.lacked.append(found)

    def on_record_applied(self, body: bytes, ordered: Ordered) -> None:
        if self._ports is None:
            return
        owed = self.suspending.owed
        if owed is not None and owed.body == body:
            self.suspending.settled()
        for entry in ordered.entries:
            if isinstance(entry, Decided):
                span = f"{entry.first} to {entry.last}"
                self._ports.trace.note(
                    "decided", stream=entry.origin.stream, lost=span, action=entry.action, by=entry.by
                )
            elif isinstance(entry, Lacked):
                self._ports.fault(
                    "message_loss",
                    f"{entry.origin.stream} {entry.first} to {entry.last} was ordered, and no server has it",
                )

    # --- parts of these

    def _take_answer(self, answer: Answer) -> None:
        """Keep a decider's answer, if its question is still open."""
        for loss in self.ordering.losses.values():
            if loss.question == answer.number:
                loss.answer = answer

    def _last_mark(self, origin: Origin) -> StreamMark | None:
        """How far that life of a stream is: as planned, where this member leads."""
        ledger = self.ordering.plan or self.ledger
        mark = ledger.mark(origin.stream) if ledger is not None else None
        return mark if mark is not None and mark.origin.incarnation == origin.incarnation else None

    def _is_over(self, origin: Origin) -> bool:
        ledger = self.ordering.plan or self.ledger
        mark = ledger.mark(origin.stream) if ledger is not None else None
        return mark is not None and mark.origin.incarnation > origin.incarnation

    def _jobs(self, origin: Origin) -> list[RecoveryJob]:
        jobs = [each.job for each in self.ordering.losses.values()]
        owed = self.suspending.owed
        jobs.append(owed.job if owed is not None else None)
        return [each for each in jobs if each is not None and each.origin == origin]

    def _maybe_ready(self) -> None:
        owed = self.suspending.owed
        if owed is not None and not any(self.missing(each, first, last) for each, first, last in owed.spans):
            self.ports.ready()

    def _is_waiting(self) -> bool:
        """Whether the present object waits for what is owed; another one may have been loaded."""
        state, owed = self.ports.state(), self.suspending.owed
        return isinstance(state, StreamState) and owed is not None and state.awaits == owed.body

    def _given(self, wanted: Wanted) -> Given:
        life, found, size = self.holding.life(wanted.origin), list[Message](), 0
        for number in life.numbers_within(wanted.first, wanted.last)[:GIVEN_MAX] if life is not None else ():
            message = life.get(number) if life is not None else None
            if message is None or size >= GIVEN_BYTES_MAX:
                break
            found.append(message)
            size += len(message.payload)
        return Given(wanted.origin, wanted.first, wanted.last, tuple(found))

    def _holds(self, asked: WhoHas) -> Holds:
        life = self.holding.life(asked.origin)
        numbers = life.numbers_within(asked.first, asked.last) if life is not None else []
        held = [each for number in numbers if life is not None and (each := life.get(number)) is not None]
        priorities = sorted({each.priority for each in held})
        owes = self.suspending.owed is not None
        return Holds(asked.origin, asked.first, asked.last, len(held), tuple(priorities), owes)

    def _decide_for(self, peer: HostId, question: Question) -> None:
        if self._settings.decider != self.ports.me().host or not self.handlers.decides:
            return
        try:
            info = decode_information(question.information)
        except msgspec.DecodeError:
            return
        answer = ask_here(self.ports, info)
        if answer is not None:
            self.peers.tell(peer, Answer(question.number, answer.action, answer.why_not))


def streams_of(record: GroupRecord, cls: type) -> Streams | None:
    """The streams of a group with that class; None if it takes no part in any. Raises ``BadHandlers``."""
    if style_named(record.style) is not Style.ACTIVE:
        return None
    handlers = handlers_of(cls)
    return Streams(handlers) if handlers is not None else None
