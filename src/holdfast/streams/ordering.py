"""The leader: which messages come next, and in which order (F1 to F4, F13 to F16).

A stream's messages are ordered as ranges, in the order of their numbers. What a rule keeps back is passed
over, and moves the mark all the same, so that ignoring never makes a gap (LOSS-50). Where a number is
missing, the stream waits until the loss is decided, and the others go on.

The leader orders ahead of what is executed. It works on a *plan*: the ledger as it will be when all that it
has ordered is applied. The plan is made anew whenever this member begins to lead, from a ledger that has
everything that was ordered before (K1): so a new leader takes for lost only what lies beyond the last ordered
number (O4)."""

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from holdfast.execution.annex import AnnexPorts
from holdfast.model.errors import Overloaded
from holdfast.streams.config import STREAMS_MAX
from holdfast.streams.deciding import Deciding, Loss, Phase
from holdfast.streams.dropping import SelectiveDropper
from holdfast.streams.gaps import Gap, GapDetector, OwnGaps, SequenceGaps
from holdfast.streams.handlers import Handlers
from holdfast.streams.holding import HeldStream, Holding
from holdfast.streams.ledger import Ledger, StreamMark
from holdfast.streams.message import Message, Origin
from holdfast.streams.records import (
    Began,
    Deliver,
    Entry,
    Lacked,
    Passed,
    Ruled,
    RuleEnded,
    encode_ordered,
)
from holdfast.streams.recovering import SHOWN_BYTES_MAX
from holdfast.streams.rules import Rules
from holdfast.streams.runs import MESSAGE_BYTES, Run
from holdfast.streams.suspending import Suspending

MESSAGES_MAX: Final = 2048
"""The most messages in one record."""
BYTES_MAX: Final = 500_000
"""About how many bytes of messages one record has."""
ENTRIES_MAX: Final = 256
RECORDS_PER_TURN_MAX: Final = 16
"""More wait for the next turn, so that a flood of messages holds up nothing else for long."""
LOSSES_MAX: Final = 64
"""The most losses of one stream that are decided at a time (``order="set"``)."""
Key = tuple[str, int]
"""A loss: its stream and, where only the set counts, its first number; else 0, as there is one at a time."""


@dataclass(slots=True)
class _Chunk:
    """A record that is being put together."""

    entries: list[Entry] = field(default_factory=list)
    most: int = MESSAGES_MAX
    """How many messages it may have."""
    messages: int = 0
    bytes: int = 0
    acted: list[Loss] = field(default_factory=list)
    """The losses whose entries are in it."""
    closed: list[Key] = field(default_factory=list)
    rules: Rules | None = None
    """The rules as they are after what is in it: one that counts messages counts those of all streams."""

    @property
    def is_full(self) -> bool:
        return self.messages >= self.most or self.bytes >= BYTES_MAX or len(self.entries) >= ENTRIES_MAX


class Ordering:
    """What one member orders while it leads."""

    def __init__(
        self,
        ports: AnnexPorts,
        handlers: Handlers,
        holding: Holding,
        deciding: Deciding,
        suspending: Suspending,
    ) -> None:
        self._ports = ports
        self._handlers = handlers
        self._settings = handlers.settings
        self._holding = holding
        self._deciding = deciding
        self._suspending = suspending
        self._dropper = SelectiveDropper(self._settings.sync_topic, self._deliver)
        self.plan: Ledger | None = None
        """None while this member does not lead."""
        self._kept: tuple[int, Ledger] | None = None
        """The plan and its term. It stays while this member pauses within a term: what it has ordered and not
        yet executed is still to come."""
        self._gaps: dict[str, GapDetector] = {}
        self.losses: dict[Key, Loss] = {}
        """The losses being decided, by stream and, where only the set counts, first number."""
        self._seen_time_ns = 0
        self._seen_at_ns = 0
        self._first = 0
        """Which stream is looked at first: each in turn."""
        self._most = MESSAGES_MAX
        """How many messages the next record may have: fewer after one that was refused. *Without it:* a
        stream that stood has more messages than the group may have uncommitted positions; the record of all
        of them is refused again and again, and the stream stands for ever."""
        self._wishes: list[Entry] = []
        """What was asked for from outside, to be ordered next."""

    def stop(self) -> None:
        """This member does not lead, or has no object."""
        self.plan = None
        self.losses.clear()
        self._gaps.clear()
        self._wishes.clear()

    def wish(self, entry: Entry) -> None:
        """Have an entry ordered: a rule's end, or what was lacking."""
        self._wishes.append(entry)

    def turn(self, ledger: Ledger, now: int) -> None:
        """Order what can be ordered. Raises what :attr:`AnnexPorts.order` raises; then it is tried again."""
        term = self._ports.term()
        if self._kept is None or self._kept[0] != term:
            self.stop()
            self._kept = (term, ledger.copy())
        self.plan = self._kept[1]
        if ledger.time_ns != self._seen_time_ns:
            self._seen_time_ns, self._seen_at_ns = ledger.time_ns, now
        for _ in range(RECORDS_PER_TURN_MAX):
            chunk = self._next(ledger, now)
            if not chunk.entries:
                return
            self._order(chunk, now)
        self._ports.wake()

    def next_ns(self) -> int | None:
        """When, by the clock, :meth:`turn` is due."""
        if self.plan is None:
            return None
        due = [
            at
            for stream, each in self._gaps.items()
            if self._is_undecided(stream) and (at := each.due_ns()) is not None
        ]
        due += [at for each in self.losses.values() if (at := self._deciding.due_ns(each)) is not None]
        rule_ns = self.plan.rules.next_due_ns
        if rule_ns is not None:
            due.append(self._seen_at_ns + rule_ns - self._seen_time_ns)
        for held in self._holding:
            since_ns = held.figures.first_ns or held.heard_ns
            if held.origin.stream not in self.plan.streams and since_ns:
                due.append(since_ns + self._settings.grace_ns)
        return min(due) if due else None

    def _is_undecided(self, stream: str) -> bool:
        """Whether nobody sees yet to what is missing right after the stream's mark."""
        mark = self.plan.mark(stream) if self.plan is not None else None
        return mark is None or self._end_key(mark, self.plan or Ledger()) not in self.losses

    # --- one record

    def _order(self, chunk: _Chunk, now: int) -> None:
        handlers, plan = self._handlers, self.plan
        assert plan is not None
        entries = tuple(chunk.entries)
        body = encode_ordered(entries, is_batch=handlers.is_batch, notifies=handlers.notifies)
        try:
            self._ports.order(body)
        except Overloaded:
            if chunk.messages > 1:
                self._most = chunk.messages // 2
            raise
        self._most = min(MESSAGES_MAX, self._most + self._most // 2 + 1)
        plan.apply(entries, self._time_ns(now))
        self._wishes = [each for each in self._wishes if each not in entries]
        for key in chunk.closed:
            self.losses.pop(key, None)
        for loss in chunk.acted:
            if self._deciding.ordered(loss, now):
                self.losses = {key: each for key, each in self.losses.items() if each is not loss}

    def _time_ns(self, now: int) -> int:
        """The group's time, as the leader reckons it from the last record and its own clock."""
        return self._seen_time_ns + (now - self._seen_at_ns)

    def _next(self, ledger: Ledger, now: int) -> _Chunk:
        plan, chunk = self.plan, _Chunk(most=self._most)
        assert plan is not None
        chunk.entries += self._wishes[: min(ENTRIES_MAX, self._most)]
        known = {(each.origin, each.first) for each in self._wishes if isinstance(each, Lacked)}
        chunk.entries += [
            Lacked(each.origin, each.first, each.last)
            for each in plan.lacked
            if (each.origin, each.first) not in known
        ]
        # The clock of the leader alone ends a rule, and only by what is ordered here (LOSS-69).
        chunk.entries += [
            RuleEnded(number, "its time is over")
            for number in ledger.rules.due(self._time_ns(now))
            if number in plan.rules
        ]
        if chunk.entries:
            return chunk  # what follows is looked at by the rules as they are then
        streams = self._holding.streams()
        if streams:
            self._first = (self._first + 1) % len(streams)
            for stream in (*streams[self._first :], *streams[: self._first]):
                if chunk.is_full:
                    break
                self._next_of(stream, ledger, plan, chunk, now)
        return chunk

    def _next_of(self, stream: str, ledger: Ledger, plan: Ledger, chunk: _Chunk, now: int) -> None:
        mark, newest = plan.mark(stream), self._holding.newest(stream)
        if mark is None:
            if newest is not None:
                chunk.entries += self._beginning(newest, now)
            return
        held = self._holding.life(mark.origin)
        is_moving = held is not None and self._take_run(held, mark, plan, chunk, mark.mark + 1)
        if held is not None and plan.is_set:
            is_moving = self._take_scattered(held, mark, plan, chunk, now) or is_moving
        if is_moving:
            self._close(stream, mark, held, chunk)
            return
        is_waiting = self._see_to_gaps(held, mark, ledger, plan, chunk, now)
        if not is_waiting and newest is not None and newest.origin.incarnation > mark.origin.incarnation:
            # The source has begun a new life. What its last one is known to have sent is decided by now.
            chunk.entries.append(Began(newest.origin, 0))

    def _beginning(self, held: HeldStream, now: int) -> list[Entry]:
        """Follow a stream that this group has never seen, once messages that overtook each other are here."""
        if self.plan is not None and len(self.plan.streams) >= STREAMS_MAX:
            held.figures.refused = max(held.figures.refused, held.figures.received)
            return []
        if not self._settings.late_join:
            return [Began(held.origin, 0)]
        # What its source had sent before this group first heard of it is not the group's; what it sends later
        # is. *Without it:* all that a source has sent so far was lost here; only its heartbeats come, nobody
        # decides about the loss, and the source waits for ever for what it sent to be delivered.
        lowest, heard = held.lowest, held.heard
        if lowest is None and heard is None:
            return []
        begin = min(each for each in (heard, lowest - 1 if lowest is not None else None) if each is not None)
        since_ns = min(each for each in (held.heard_ns, held.figures.first_ns) if each)
        if begin > 0 and now < since_ns + self._settings.grace_ns:
            return []
        return [Began(held.origin, begin)]

    # --- what is there

    def _take_run(self, held: HeldStream, mark: StreamMark, plan: Ledger, chunk: _Chunk, first: int) -> bool:
        """Take the messages from *first* on with consecutive numbers; whether there are any."""
        room = self._room(held.origin, chunk, first)
        if plan.rules.concern(held.origin):
            found = held.run(first, room, BYTES_MAX - chunk.bytes)
            chunk.entries += self._dropper.entries(held.origin, found, self._rules_in(chunk, plan))
            chunk.messages += len(found)
            chunk.bytes += sum(len(each.payload) + MESSAGE_BYTES for each in found)
            return bool(found)
        together: list[Run] = []
        for run in held.runs_from(first, room):
            if chunk.entries and chunk.bytes + run.record_bytes > BYTES_MAX:
                break
            if together and run.is_packed != together[0].is_packed:
                chunk.entries.append(self._deliver(held.origin, together))
                together = []
            together.append(run)
            chunk.messages += run.length
            chunk.bytes += run.record_bytes
            if chunk.bytes >= BYTES_MAX:
                break
        if together:
            chunk.entries.append(self._deliver(held.origin, together))
        return bool(together)

    def _room(self, origin: Origin, chunk: _Chunk, first: int) -> int:
        """How many messages from *first* on may be taken. What follows messages that are recovered is looked
        at by the rules that begin with their recovery."""
        room, loss = chunk.most - chunk.messages, self.losses.get((origin.stream, 0))
        last = loss.rules_after if loss is not None and loss.origin == origin else None
        return room if last is None or first > last else min(room, last - first + 1)

    def _next_rule(self, chunk: _Chunk) -> int:
        assert self.plan is not None
        return self.plan.next_rule + sum(isinstance(each, Ruled) for each in chunk.entries)

    def _take_scattered(
        self, held: HeldStream, mark: StreamMark, plan: Ledger, chunk: _Chunk, now: int
    ) -> bool:
        """Where only the set counts: take what came late, then what lies beyond a gap."""
        is_moving = False
        for hole in list(mark.holes):
            found = held.next_after(hole.first - 1)
            if found is not None and found <= hole.last and not chunk.is_full:
                run = held.run(found, min(hole.last - found + 1, chunk.most - chunk.messages), BYTES_MAX)
                chunk.entries += self._dropper.entries(held.origin, run, self._rules_in(chunk, plan))
                chunk.messages += len(run)
                is_moving = True
                break  # the holes are others once this is applied
        beyond = held.next_after(mark.mark)
        if not is_moving and beyond is not None and beyond > mark.mark + 1 and not chunk.is_full:
            self._note_hole(held, mark, beyond, now)
            is_moving = self._take_run(held, mark, plan, chunk, beyond)
        return is_moving

    def _note_hole(self, held: HeldStream, mark: StreamMark, beyond: int, now: int) -> None:
        """Keep what followed a gap, before it is delivered and let go."""
        key = self._key_around(held.origin.stream, mark.mark + 1, ())
        following = self._following(held, beyond - 1)
        if key in self.losses:  # it was the stream's end until now
            self.losses[key].following = self.losses[key].following or following
        elif len(self.losses) < LOSSES_MAX:
            gap = Gap(mark.mark + 1, beyond - 1)
            loss = Loss(held.origin, gap, self._ports.clock.wall(), following)
            loss.until_ns = now + self._settings.grace_ns
            self.losses[key] = loss

    def _rules_in(self, chunk: _Chunk, plan: Ledger) -> Rules:
        if chunk.rules is None:
            chunk.rules = plan.rules.copy()
        return chunk.rules

    def _deliver(self, origin: Origin, runs: list[Run]) -> Deliver:
        """The entry for *runs*, which follow each other, and are all packed or all not."""
        first, count = runs[0].first, runs[-1].last - runs[0].first + 1
        if not self._settings.carries:
            return Deliver(origin, first, count)
        if runs[0].is_packed:
            return Deliver(origin, first, count, (), tuple([each.body for each in runs]))
        return Deliver(origin, first, count, tuple([each for run in runs for each in run]))

    # --- what is missing

    def _see_to_gaps(
        self, held: HeldStream | None, mark: StreamMark, ledger: Ledger, plan: Ledger, chunk: _Chunk, now: int
    ) -> bool:
        """See to what is missing; whether anything is."""
        applied = ledger.mark(mark.origin.stream)
        gaps = list(self._gaps_of(held, mark, plan, now))
        self._end_closed(mark, gaps, chunk)
        for key, gap, is_due in gaps:
            loss = self.losses.get(key)
            if loss is not None and (loss.origin != mark.origin or gap.first > loss.gap.last):
                del self.losses[key]  # all of that one is done with: this is another
                loss = None
            if loss is None and not is_due:
                continue
            if loss is None:
                if applied is None or applied.mark != mark.mark or applied.origin != mark.origin:
                    continue  # O4: what was ordered of the stream is not executed yet
                following = self._following(held, gap.last)
                loss = self.losses[key] = Loss(mark.origin, gap, self._ports.clock.wall(), following)
                self._ports.trace.note("a loss", stream=key[0], first=gap.first, last=gap.last)
            if not is_due:
                continue
            if (left := loss.left_of(gap)) != loss.gap:
                is_same_end = left.last == loss.gap.last and bool(loss.following)
                loss.following = loss.following if is_same_end else self._following(held, left.last)
                loss.narrow(left)
            if loss.phase is Phase.ASKING and (applied is None or applied.mark != mark.mark):
                continue
            entries = self._deciding.advance(loss, mark, plan.rules, self._next_rule(chunk), now)
            if entries:
                chunk.entries += entries
                chunk.acted.append(loss)
            if loss.phase is Phase.HALTED and loss.handed_to is not None:
                self._suspending.hand_over(loss.handed_to, f"{key[0]} {gap.first} to {gap.last} is lost here")
                loss.handed_to = None
        return bool(gaps)

    def _gaps_of(
        self, held: HeldStream | None, mark: StreamMark, plan: Ledger, now: int
    ) -> Iterator[tuple[Key, Gap, bool]]:
        """What is missing of a stream, and whether it counts as lost. Each has a key of its own.
        *Without it:*
        what was the stream's end is a hole now, and its end is missing once more; both are one loss, which
        begins anew whenever it is about the other one, and neither is ever decided."""
        stream, used = mark.origin.stream, set[Key]()
        if plan.is_set:
            for hole in mark.holes[:LOSSES_MAX]:
                key = self._key_around(stream, hole.first, used)
                used.add(key)
                loss = self.losses.get(key)
                since = loss.until_ns if loss is not None and loss.phase is Phase.NEW else 0
                yield key, Gap(hole.first, hole.last), now >= since
        end = self._end_key(mark, plan, used)
        next_held = held.next_after(mark.mark) if held is not None else None
        highest = held.highest if held is not None else 0
        detector = self._gaps.get(stream)
        if detector is None:
            detector = self._gaps[stream] = self._detector()
        found = detector.look(mark.mark, next_held, highest, now)
        if found is not None:
            yield end, found, True
        elif detector.due_ns() is not None:
            yield end, Gap(mark.mark + 1, max(highest, next_held or 0)), False

    def _detector(self) -> GapDetector:
        make, grace_ns = self._handlers.detector, self._settings.grace_ns
        return OwnGaps(make, grace_ns) if make is not None else SequenceGaps(grace_ns)

    def _end_key(self, mark: StreamMark, plan: Ledger, used: Container[Key] = ()) -> Key:
        """The key of what is missing right after the mark. Where only the set counts, that is a hole as soon
        as anything later is delivered."""
        stream = mark.origin.stream
        return self._key_around(stream, mark.mark + 1, used) if plan.is_set else (stream, 0)

    def _key_around(self, stream: str, first: int, used: Container[Key]) -> Key:
        """The key of the loss of which what begins with *first* is left; the first that is left goes on with
        it, and what else is left of it is another loss."""
        for key, each in self.losses.items():
            if key[0] == stream and key not in used and each.gap.first <= first <= each.gap.last:
                return key
        return stream, first

    def _following(self, held: HeldStream | None, last: int) -> list[Message]:
        """The messages after a gap that ends with *last*, as many as are shown; the first is always there if
        it has come."""
        after = held.next_after(last) if held is not None else None
        if held is None or after is None:
            return []
        return held.run(after, max(1, self._settings.next_messages), SHOWN_BYTES_MAX)

    def _end_closed(self, mark: StreamMark, gaps: Iterable[tuple[Key, Gap, bool]], chunk: _Chunk) -> None:
        stream, open_keys = mark.origin.stream, {key for key, _, _ in gaps}
        for key, loss in list(self.losses.items()):
            if key[0] == stream and key not in open_keys:
                entries = self._deciding.closed(loss, self._next_rule(chunk))
                if entries:
                    chunk.entries += entries
                    chunk.closed.append(key)
                else:
                    del self.losses[key]

    def _close(self, stream: str, mark: StreamMark, held: HeldStream | None, chunk: _Chunk) -> None:
        """A stream goes on: its gap, if it had one, is another one now or none."""
        loss = self.losses.get((stream, 0))
        if loss is None or held is None:
            return
        reached = max(
            each.last
            for each in chunk.entries
            if isinstance(each, Deliver | Passed) and each.origin == loss.origin
        )
        if reached >= loss.gap.last:
            chunk.entries += self._deciding.closed(loss, self._next_rule(chunk))
            chunk.closed.append((stream, 0))
