"""Bugs planted in the order of streams, and in what becomes of loss (section O)."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from holdfast.execution.annex import AnnexOperation
from holdfast.sim.runner.planted import Planted, Planting, replacing
from holdfast.sim.scenarios.streams import books, setup
from holdfast.streams.annex import Streams
from holdfast.streams.deciding import Deciding, Loss, Phase
from holdfast.streams.delivering import StreamState
from holdfast.streams.gaps import SequenceGaps
from holdfast.streams.information import LossInfo
from holdfast.streams.keeping import Keeping
from holdfast.streams.ledger import Ledger, StreamMark
from holdfast.streams.ordering import Ordering
from holdfast.streams.peers import Answer
from holdfast.streams.records import Began, Deliver, Entry, Passed
from holdfast.streams.runs import Listed, Run
from holdfast.streams.suspending import Suspending

_apply = StreamState.apply
_content = StreamState._content
_apply_one = Ledger.apply_one
_take = StreamMark.take
_turn = Ordering.turn
_take_default = Deciding._take_default
_answered = books.answered
_act = Deciding._act


def _only_its_own_room(keeping: Keeping, ledger: Ledger | None) -> None:
    """Keeps as much as ever, whoever takes a state."""


def _by_own_clock(state: StreamState, operation: AnnexOperation) -> None:
    """Ends rules by the clock of the member that applies the record."""
    _apply(state, operation)
    if state._streams.is_bound:
        for number in state.ledger.rules.due(state._streams.ports.clock.wall()):
            state.ledger.rules.end(number)


def _never_asked_again(deciding: Deciding, loss: Loss, now: int) -> None:
    """Goes on with the next alternative, and where there is none with nothing."""
    if len(loss.steps) > 1:
        del loss.steps[0]
        loss.phase = Phase.ACTING


def _plan_of_what_is_executed(ordering: Ordering, ledger: Ledger, now: int) -> None:
    ordering._kept = None
    _turn(ordering, ledger, now)


def _no_default(deciding: Deciding, loss: Loss, why: str) -> None:
    if "in time" not in why:
        _take_default(deciding, loss, why)


def _any_answer(streams: Streams, answer: Answer) -> None:
    for loss in streams.ordering.losses.values():
        if loss.question:
            loss.answer = answer


def _same_mark(ledger: Ledger, entry: Entry) -> None:
    before = ledger.mark(entry.origin.stream) if isinstance(entry, Began) else None
    _apply_one(ledger, entry)
    if before is not None and isinstance(entry, Began):
        ledger.streams[entry.origin.stream].mark = before.mark


def _changes_its_object(policy: books.Policy, book: books.Noted, info: LossInfo) -> Any:
    book.notices.append(("asked", info.stream, info.first, info.last, 0))
    return _answered(policy, book, info)


def _backwards(state: StreamState, entry: Deliver) -> list[Run]:
    found = [each for run in _content(state, entry) for each in run]
    return [Listed(found[::-1])] if found else []


def _forgets_holes(mark: StreamMark, first: int, last: int, *, is_set: bool) -> int:
    before = mark.mark
    implied = _take(mark, first, last, is_set=is_set)
    if is_set and first > before + 1:
        mark.holes.pop()
    return implied


def _drops_one_more(deciding: Deciding, loss: Loss, next_rule: int, now: int) -> list[Entry]:
    """Passes over what follows the gap, too."""
    entries = _act(deciding, loss, next_rule, now)
    last = entries[-1] if entries else None
    if isinstance(last, Passed) and loss.following:
        entries[-1] = Passed(last.origin, last.first, last.last + 1, last.rule)
    return entries


def _skips_gaps(gaps: SequenceGaps, mark: int, next_held: int | None, highest: int, now: int) -> None:
    """Takes no gap for a loss."""


def _own_arrivals(state: StreamState, entry: Deliver) -> Sequence[Run]:
    """Delivers whatever is here in place of what the order names, if something is."""
    life = state._streams.holding.life(entry.origin)
    found = [each for run in life.runs for each in run][: entry.count] if life is not None else []
    return [Listed(found)] if found else _content(state, entry)


@contextmanager
def _decide_about_more() -> Iterator[None]:
    """Few losses grow while somebody elsewhere decides, so all groups leave theirs to a group."""
    with replacing(Loss, "left_of", lambda loss, gap: gap), replacing(setup, "JUDGED", 1.0):
        yield


_bug: Final = Planting("streams", runs_max=60)

PLANTED = (
    _bug(
        "rule-ended-by-own-clock",
        "O2",
        "a member ends a rule by its own clock while it applies a record",
        StreamState,
        "apply",
        _by_own_clock,
    ),
    _bug(
        "never-asked-again",
        "LOSS-57",
        "a recovery that failed is the end of it: the application is not asked again",
        Deciding,
        "_after_failure",
        _never_asked_again,
    ),
    _bug(
        "plan-of-what-is-executed",
        "O4",
        "a leader looks at what is executed, and not at what it has ordered already",
        Ordering,
        "turn",
        _plan_of_what_is_executed,
    ),
    _bug(
        "decider-awaited-for-ever",
        "LOSS-73",
        "a decider elsewhere that is silent holds up its stream for ever",
        Deciding,
        "_take_default",
        _no_default,
    ),
    _bug(
        "answer-to-another-question",
        "LOSS-84",
        "what a decider elsewhere says is taken for the answer to whatever is asked now",
        Streams,
        "_take_answer",
        _any_answer,
    ),
    Planted(
        name="streams-decision-about-more",
        rule="LOSS-84",
        scenario="streams",
        summary="what is lost while a decider elsewhere thinks is treated as what it was asked about",
        plant=_decide_about_more,
        runs_max=300,
    ),
    _bug(
        "new-life-old-mark",
        "LOSS-37",
        "the numbers of a source that began again are taken for repetitions",
        Ledger,
        "apply_one",
        _same_mark,
    ),
    _bug(
        "question-changes-the-object",
        "LOSS-92",
        "asking about a loss changes the object of the leader",
        books,
        "answered",
        _changes_its_object,
    ),
    _bug(
        "range-backwards",
        "LOSS-107",
        "the messages of a range are delivered last first",
        StreamState,
        "_content",
        _backwards,
    ),
    _bug(
        "holes-forgotten",
        "O2",
        "where only the set counts, what is missing is taken for done",
        StreamMark,
        "take",
        _forgets_holes,
    ),
    _bug(
        "drop-too-long",
        "LOSS-76",
        "a drop takes the first message after the gap with it",
        Deciding,
        "_act",
        _drops_one_more,
    ),
    _bug(
        "gap-never-lost",
        "LOSS-108",
        "a gap never counts as a loss, and its stream waits for ever",
        SequenceGaps,
        "look",
        _skips_gaps,
    ),
    _bug(
        "tail-not-noticed",
        "LOSS-37",
        "nobody listens to heartbeats: the loss of the last messages is not noticed",
        Streams,
        "on_heartbeat",
        lambda streams, origin, heartbeat: None,
    ),
    _bug(
        "applied-without-content",
        "O1",
        "a range that has only numbers is applied before its messages are here",
        StreamState,
        "is_ready",
        lambda state, body: True,
    ),
    _bug(
        "never-suspends",
        "O3",
        "a member that lacks ordered content waits for it for ever",
        Suspending,
        "pursue",
        lambda suspending, now, is_waiting: None,
    ),
    _bug(
        "suspended-forgotten",
        "O3",
        "members keep no more than ever while one takes a state, and let go of what came after it",
        Keeping,
        "look",
        _only_its_own_room,
    ),
    _bug(
        "own-arrivals",
        "LOSS-87",
        "a member delivers what it has received, and not what the order names",
        StreamState,
        "_content",
        _own_arrivals,
    ),
)
