"""What shall become of a loss: asked of the application, checked, carried out, asked again (F5 to F16).

One :class:`Loss` is one gap of one stream at the leader, from when it counts as a loss until it is closed or
passed over. Only its stream waits meanwhile (LOSS-61). The application is asked between two operations, of a
state that has everything that was ordered of the stream (O4). Another member, or another group, may decide
in its place (LOSS-10): all the same the leader orders what it says. An answer that does not come within its
time, or is none, is replaced by the default (LOSS-73)."""

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

import msgspec

from holdfast.execution.annex import AnnexPorts
from holdfast.model.errors import HoldfastError
from holdfast.model.ids import MILLISECOND, HostId
from holdfast.model.outcome import value_of
from holdfast.streams.actions import Action, BadAction, Deed, Step, action_of, steps_of
from holdfast.streams.gaps import Gap
from holdfast.streams.handlers import ON_LOSS, Handlers
from holdfast.streams.holding import Figures
from holdfast.streams.information import LossInfo, Recovery, Situation, encode_information, information
from holdfast.streams.ledger import StreamMark
from holdfast.streams.message import Message, Origin
from holdfast.streams.peers import Answer, Holds, Peers, Question, WhoHas, best_holder
from holdfast.streams.ports import DeciderGroup
from holdfast.streams.records import Decided, Entry, Passed, Ruled
from holdfast.streams.recovering import Places, Progress, RecoveryJob
from holdfast.streams.rules import Rules, rule_of

AGAIN_TIMES: Final = 10
"""A stream that waits because suspending would help nobody is looked at anew after so many intervals of the
members' reports."""
INFORMATION_BYTES_MAX: Final = 64 << 10
"""The longest information that is ordered with a decision; of a longer one only the decision is."""


class Phase(Enum):
    NEW = auto()
    RECOVERING_FIRST = auto()
    ASKING_PEERS = auto()
    ASKING = auto()
    ACTING = auto()
    RECOVERING = auto()
    SUSPENDING = auto()
    HALTED = auto()
    """The answer was to suspend, and no other server is better off: the stream waits (LOSS-101)."""


@dataclass(slots=True)
class Loss:
    """One loss at the leader."""

    origin: Origin
    gap: Gap
    detected_ns: int
    """By the wall clock."""
    following: list[Message]
    phase: Phase = Phase.NEW
    attempt: int = 0
    """How often the application was asked."""
    steps: list[Step] = field(default_factory=list)
    by: str = ""
    info: bytes = b""
    job: RecoveryJob | None = None
    failure: str = ""
    recovered: list[Message] = field(default_factory=list)
    holders: dict[HostId, Holds] = field(default_factory=dict)
    asked: list[HostId] = field(default_factory=list)
    """The peers that were asked what they have."""
    until_ns: int = 0
    """When the phase ends, whatever comes."""
    question: int = 0
    """The number of the question that was put to a decider elsewhere; 0 if none was."""
    answer: Answer | None = None
    was_only_server: bool | None = None
    handed_to: HostId | None = None
    again_ns: int = 0
    """When a stream that waits is looked at anew."""
    is_final: bool = False
    """Whether the entries that are returned next end it."""

    def left_of(self, gap: Gap) -> Gap:
        """What *gap*, which is there now, has of this loss. Once it is being recovered, or a decider was
        asked about it, it grows no more: what is lost meanwhile is the next loss. *Without it:* the end of a
        stream is being recovered, and its source says that it has sent more; the recovery brings all that was
        asked for, fails all the same, and what nobody has asked for is dropped. Or a decider elsewhere says
        that messages 7 to 9, of which it was told, are to be dropped; up to 90 is missing by then, and all of
        it is."""
        is_fixed = self.job is not None or self.question or self.phase is Phase.ACTING
        if not is_fixed or gap.last <= self.gap.last:
            return gap
        return Gap(gap.first, self.gap.last)

    def narrow(self, gap: Gap) -> None:
        """From now on this is about *gap*: what came of it was delivered, and is held no more."""
        self.gap = gap
        if self.job is not None:
            self.job.first = gap.first

    @property
    def is_being_recovered(self) -> bool:
        """Whether the application has answered that, and it has neither succeeded nor failed. What a stream
        that stands has waited for, after a recovery that failed, was not recovered: nobody is told of a
        suspension once more because it has come."""
        return self.job is not None and bool(self.steps) and self.steps[0].deed is Deed.RECOVER

    @property
    def rules_after(self) -> int | None:
        """The last of the messages that are being recovered, where rules begin with their recovery; None if
        none do."""
        return self.job.last if self.is_being_recovered and self.job and self.steps[0].rules else None

    def is_wanted(self, origin: Origin, first: int, last: int) -> bool:
        """Whether an answer about these numbers is about this loss."""
        return origin == self.origin and first <= self.gap.last and last >= self.gap.first


class Deciding:
    """The decisions of one member while it leads."""

    def __init__(self, ports: AnnexPorts, handlers: Handlers, peers: Peers, places: Places) -> None:
        self._ports = ports
        self._handlers = handlers
        self._settings = handlers.settings
        self._peers = peers
        self._places = places
        self.group: DeciderGroup | None = None
        """Asks the group that decides, if the settings name one."""
        self._questions = 0
        self.took_ms: dict[str, int] = {}
        """How long the last recovery of each stream took."""

    # --- one loss

    def advance(self, loss: Loss, mark: StreamMark, rules: Rules, next_rule: int, now: int) -> list[Entry]:
        """Do what is due for *loss*; returns what is to be ordered. If it was ordered, :meth:`ordered` is
        called; otherwise it is asked for again."""
        for _ in range(len(Phase)):
            before = loss.phase
            entries = self._advance(loss, mark, rules, next_rule, now)
            if entries or loss.phase is before:
                return entries
        return []

    def ordered(self, loss: Loss, now: int) -> bool:
        """What :meth:`advance` returned was ordered. Returns whether the loss is over."""
        if loss.is_final:
            return True
        if loss.phase is Phase.SUSPENDING:
            loss.phase, loss.until_ns = Phase.HALTED, now + self._settings.status_ms * MILLISECOND
            loss.again_ns = now + AGAIN_TIMES * self._settings.status_ms * MILLISECOND
        return False

    def closed(self, loss: Loss, next_rule: int) -> list[Entry]:
        """What is to be ordered because the messages of *loss* have come: the rules that begin with that, and
        what was done about it, for the audit. The order itself says that they were recovered (LOSS-79)."""
        if loss.job is not None and loss.phase in (Phase.RECOVERING, Phase.RECOVERING_FIRST):
            took_ns = self._ports.clock.now() - loss.job.began_ns
            self.took_ms[loss.origin.stream] = took_ns // MILLISECOND
        if not loss.is_being_recovered:
            return []
        return [*self._rules(loss, next_rule), self._decided(loss, str(loss.steps[0]), "recovered")]

    def due_ns(self, loss: Loss) -> int | None:
        match loss.phase:
            case Phase.RECOVERING | Phase.RECOVERING_FIRST:
                return loss.job.due_ns() if loss.job is not None else None
            case Phase.ASKING if not loss.question and loss.again_ns:
                return min(loss.until_ns, loss.again_ns)
            case _:
                return loss.until_ns or None

    def _advance(self, loss: Loss, mark: StreamMark, rules: Rules, next_rule: int, now: int) -> list[Entry]:
        settings = self._settings
        match loss.phase:
            case Phase.NEW:
                if settings.recover_first:
                    loss.job = self._job(loss, None, None, now)
                    loss.phase = Phase.RECOVERING_FIRST
                else:
                    self._ask_peers_or_decide(loss, now)
            case Phase.RECOVERING_FIRST:
                if self._has_failed(loss, now):
                    self._ask_peers_or_decide(loss, now)
            case Phase.ASKING_PEERS:
                if now >= loss.until_ns or all(host in loss.holders for host in loss.asked):
                    self._begin_asking(loss, now)
            case Phase.ASKING:
                self._ask(loss, mark, rules, now)
            case Phase.ACTING:
                return self._act(loss, next_rule, now)
            case Phase.RECOVERING:
                if self._has_failed(loss, now):
                    self._after_failure(loss, now)
            case Phase.SUSPENDING:
                return self._suspend(loss, next_rule, now)
            case Phase.HALTED:
                if now >= loss.until_ns:
                    loss.until_ns = now + settings.status_ms * MILLISECOND
                    loss.asked = self._peers.tell_all(WhoHas(loss.origin, loss.gap.first, loss.gap.last))
                loss.handed_to = best_holder(loss.holders, self._peers.active())
                if loss.handed_to is None and now >= loss.again_ns:
                    # Somebody may have them by now.
                    loss.phase, loss.attempt, loss.job, loss.question = Phase.NEW, 0, None, 0
        return []

    # --- asking

    def _ask_peers_or_decide(self, loss: Loss, now: int) -> None:
        if self._settings.ask_peers:
            self._query(loss, Phase.ASKING_PEERS, now)
        else:
            self._begin_asking(loss, now)

    def _query(self, loss: Loss, phase: Phase, now: int) -> None:
        loss.holders.clear()
        loss.asked = self._peers.tell_all(WhoHas(loss.origin, loss.gap.first, loss.gap.last))
        loss.phase, loss.until_ns = phase, now + 2 * self._settings.retry_ms * MILLISECOND

    def _begin_asking(self, loss: Loss, now: int) -> None:
        loss.phase, loss.until_ns = Phase.ASKING, now + self._settings.decide_ms * MILLISECOND
        loss.attempt += 1
        loss.question, loss.answer, loss.again_ns = 0, None, 0

    def _ask(self, loss: Loss, mark: StreamMark, rules: Rules, now: int) -> None:
        if loss.attempt > self._settings.asks_max:
            self._take_default(loss, "it was asked often enough")
            return
        settings, me = self._settings, self._ports.me().host
        if not self._handlers.decides and not settings.decider_group:
            loss.info = encode_information(self._information(loss, mark, rules))
            self._take_default(loss, "the class has no on_loss")
            return
        decider = settings.decided_by or me
        if not loss.question:  # a decider elsewhere is asked once, and what it was told is recorded
            info = self._information(loss, mark, rules)
            loss.info = encode_information(info)
            if decider == me:
                loss.answer = ask_here(self._ports, info)
            elif not self._ask_elsewhere(loss, info):
                loss.again_ns = now + settings.retry_ms * MILLISECOND
            if loss.question or loss.answer is not None:
                loss.was_only_server = info.is_only_server
        if loss.answer is not None:
            self._take(loss, decider, loss.answer)
        elif now >= loss.until_ns:
            self._take_default(loss, f"{decider} did not answer in time")

    def _ask_elsewhere(self, loss: Loss, info: LossInfo) -> bool:
        """Ask another member, or a group; whether it could be asked."""
        self._questions += 1
        if not self._settings.decider_group:
            question = Question(self._questions, loss.info)
            is_asked = self._peers.tell(HostId(self._settings.decider), question)
        else:
            group = self.group
            is_asked = group is not None and group.ask(self._questions, info, self._settings.decide_ms)
        loss.question = self._questions if is_asked else 0
        return is_asked

    def _take(self, loss: Loss, by: str, answer: Answer) -> None:
        if answer.why_not:
            self._take_default(loss, answer.why_not)
            return
        try:
            loss.steps = list(steps_of(action_of(msgspec.msgpack.decode(answer.action))))
        except (BadAction, msgspec.DecodeError) as error:
            self._take_default(loss, str(error))
            return
        loss.by, loss.phase = by, Phase.ACTING

    def _take_default(self, loss: Loss, why: str) -> None:
        is_alone = not self._peers.active()
        default: Action = self._settings.default_alone if is_alone else self._settings.default
        loss.steps, loss.by = list(steps_of(default)), f"default: {why}"[:200]
        loss.phase = Phase.ACTING

    def _information(self, loss: Loss, mark: StreamMark, rules: Rules) -> LossInfo:
        held = self._places.holding.life(loss.origin)
        before = held.at(loss.gap.first - 1) if held is not None else None
        counts = {host: each.count for host, each in loss.holders.items() if each.count}
        is_possible = None
        if loss.holders:
            is_possible = bool(counts) or self._places.log is not None or self._places.source is not None
        return information(
            Situation(
                origin=loss.origin,
                gap=loss.gap,
                now_ns=self._ports.clock.wall(),
                detected_ns=loss.detected_ns,
                before_created_ns=before.ages.created_ns if before is not None else None,
                following=loss.following,
                servers=1 + len(self._peers.active()),
                was_only_server=loss.was_only_server,
                figures=held.figures if held is not None else _NONE,
                recovery=Recovery(
                    is_possible,
                    tuple(sorted(counts)),
                    max(counts.values(), default=0),
                    self._places.log is not None,
                    self._places.source is not None,
                    self.took_ms.get(loss.origin.stream),
                ),
                peer_priorities=tuple(level for each in loss.holders.values() for level in each.priorities),
                is_all_at_peers=max(counts.values(), default=0) == loss.gap.count,
                losses_before=mark.losses,
                lost_before=mark.dropped,
                rules=tuple(str(each) for each in rules),
                attempt=loss.attempt,
                recovered=loss.recovered,
                failure=loss.failure,
                shown=self._settings.next_messages,
            )
        )

    # --- acting

    def _act(self, loss: Loss, next_rule: int, now: int) -> list[Entry]:
        step = loss.steps[0]
        if step.deed is Deed.DROP:
            loss.is_final = True
            passed = Passed(loss.origin, loss.gap.first, loss.gap.last)
            return [*self._rules(loss, next_rule), self._decided(loss, str(step)), passed]
        if step.deed is Deed.RECOVER:
            loss.job = self._job(loss, step.within_ms, step.attempts, now)
            loss.phase = Phase.RECOVERING
        else:
            self._query(loss, Phase.SUSPENDING, now)
        return []

    def _rules(self, loss: Loss, next_rule: int) -> list[Entry]:
        """The rules of the step at hand, which begin when it has succeeded; a time that one lasts counts from
        its record on. *Without it:* ``Recover() & Ignore()`` registers its rule, recovers message 7, and the
        rule keeps 7 back; or 7 cannot be had, the next alternative brings the same rule once more, and twice
        as many messages are ignored as were to be."""
        return [
            Ruled(rule_of(next_rule + index, each, loss.origin, 0))
            for index, each in enumerate(loss.steps[0].rules)
        ]

    def _job(self, loss: Loss, within_ms: int | None, attempts: int | None, now: int) -> RecoveryJob:
        settings = self._settings
        preferred = sorted(host for host, each in loss.holders.items() if each.count)
        return RecoveryJob(
            loss.origin,
            loss.gap.first,
            loss.gap.last,
            self._places,
            now,
            (within_ms or settings.recover_ms) * MILLISECOND,
            attempts or settings.attempts,
            preferred,
        )

    def _has_failed(self, loss: Loss, now: int) -> bool:
        """Whether the recovery has failed. One that has succeeded needs nothing more: its messages are here,
        and are ordered like any others."""
        job = loss.job
        assert job is not None
        if job.step(now) is not Progress.FAILED:
            return False
        loss.failure, loss.recovered = job.why, list(job.recovered)
        return True

    def _after_failure(self, loss: Loss, now: int) -> None:
        """The next alternative; or the question again, with what was recovered and why the rest was not
        (LOSS-57)."""
        del loss.steps[0]
        if loss.steps:
            loss.phase = Phase.ACTING
        else:
            self._begin_asking(loss, now)

    def _suspend(self, loss: Loss, next_rule: int, now: int) -> list[Entry]:
        to = best_holder(loss.holders, self._peers.active())
        if to is None and now < loss.until_ns and not all(host in loss.holders for host in loss.asked):
            return []
        if to is None and len(loss.steps) > 1:
            loss.failure = "no other server has any of them"
            self._after_failure(loss, now)
            return []
        loss.handed_to = to
        said = f"{to} leads on" if to is not None else "no other server has any of them: the stream waits"
        rules = self._rules(loss, next_rule) if to is not None else []
        return [*rules, self._decided(loss, str(loss.steps[0]), said)]

    def _decided(self, loss: Loss, action: str, came_to: str = "") -> Decided:
        info = loss.info if len(loss.info) <= INFORMATION_BYTES_MAX else b""
        return Decided(loss.origin, loss.gap.first, loss.gap.last, action, loss.by, came_to, info)


def ask_here(ports: AnnexPorts, info: LossInfo) -> Answer | None:
    """Ask this member's object about a loss; None if it cannot be asked now. It is asked as a query is, and
    so can order nothing; what it changed would make it differ, and be found (E8)."""
    outcome = ports.query(ON_LOSS, (info,))
    if outcome is None:
        return None
    try:
        return Answer(0, msgspec.Raw(msgspec.msgpack.encode(value_of(outcome))))
    except HoldfastError as error:
        return Answer(0, _NIL, f"on_loss failed: {error}"[:200])


_NONE: Final = Figures()
_NIL: Final = msgspec.Raw(msgspec.msgpack.encode(None))
