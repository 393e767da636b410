"""Tries random sequences of operations under a seed, and reduces what fails to the shortest failing sequence.

It also checks replies: one may not fit its annotation, differ in order between objects, or come from a method
that did not await a call to another group.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

import msgspec

from holdfast.execution.capture import NoStateAvailable, NotCapturable
from holdfast.execution.definition import Definition
from holdfast.execution.interface import Operation
from holdfast.execution.method import NotAwaited
from holdfast.execution.read_back import in_short, misfit, named
from holdfast.model.calls import RequestId
from holdfast.model.conversion import ResultDoesNotFit, fitted
from holdfast.model.ids import ClientId, GroupId
from holdfast.model.outcome import Raised, Returned, decode_outcome, error_in_words, recorded_name, text_of
from holdfast.sim.exercise.subject import CannotMake, Done, Subject, Values
from holdfast.styles.checkpoint_copies import reason_of

_NOBODY: Final = RequestId(GroupId(0), ClientId(""), 0, 0)
_NOT_AWAITED: Final = recorded_name(NotAwaited)


def why_no_result(operation: Operation, outcome: bytes) -> str:
    """Say why a caller who has the class could not decode what the method returned; empty if it could."""
    found = decode_outcome(outcome)
    if not isinstance(found, Returned) or operation.returns is Any:
        return ""
    why = _why_not(found.value, operation.returns)
    if not why:
        return ""
    part = misfit(found.value, operation.returns, _why_not, why)
    return (
        f"{operation.name} says that it returns {named(operation.returns)}, and its result{part.path} "
        f"is {type(part.value).__name__} {in_short(part.value)}, which does not fit ({part.why})"
    )


def why_not_awaited(outcome: bytes) -> str:
    """Say which call to another group was not awaited; empty if there is none."""
    match decode_outcome(outcome):
        case Raised(type_name=name, text=text) if name == _NOT_AWAITED:
            return text
    return ""


def are_same_but_for_order(ones: list[bytes], others: list[bytes]) -> bool:
    """Whether replies differ only in the order of items."""
    return len(ones) == len(others) and all(
        _without_order(decode_outcome(one)) == _without_order(decode_outcome(other))
        for one, other in zip(ones, others, strict=True)
    )


def _without_order(found: Any) -> Any:
    """Return a form that is equal for values with the same parts; for text, with the same letters."""
    if isinstance(found, Returned | Raised):
        return [
            type(found).__name__,
            *(_without_order(getattr(found, name)) for name in found.__struct_fields__),
        ]
    if isinstance(found, list | tuple):
        return sorted(msgspec.msgpack.encode(_without_order(each)) for each in found)
    if isinstance(found, dict):
        return sorted(
            msgspec.msgpack.encode((_without_order(key), _without_order(each))) for key, each in found.items()
        )
    return sorted(found) if isinstance(found, str) else found


def _why_not(value: Any, returns: Any) -> str:
    try:
        fitted(value, returns, "", _NOBODY)
    except ResultDoesNotFit as error:
        cause = error.__cause__ or error
        return text_of(cause) or type(cause).__name__
    return ""


SEQUENCE_MAX: Final = 30
"""The most operations on one object; the next sequence begins with a fresh one."""
CAPTURED_EVERY: Final = (1, 2, 3, 5, 8)
FOUND_MAX: Final = 8
SHRINKS_MAX: Final = 200
"""The most sequences that are tried in order to shorten one."""

Progress = Callable[[int], None]


class Unfinished(Exception):
    """Raised by the runner of the operations when there is no time left."""


class TooSlow(Exception):
    """Raised by the runner of the operations when one takes too long; its object is abandoned."""


@dataclass(frozen=True, slots=True)
class Found:
    """One thing that is wrong with a class.

    *kind* is ``state``, ``replay``, ``order``, ``query``, ``result`` or ``await``.
    """

    kind: str
    what: str
    operations: tuple[Done, ...]
    """The operations that lead to it; it showed in the last one."""


@dataclass(slots=True)
class Exercised:
    """The result of an exercise."""

    operations: int = 0
    found: list[Found] = field(default_factory=list)
    not_made: dict[str, str] = field(default_factory=dict)
    """Methods that were not called, and why."""
    too_slow: dict[str, str] = field(default_factory=dict)
    """Methods that took too long, each with one such call; they are not called any more."""
    is_finished: bool = True


class _Wrong(Exception):
    def __init__(self, kind: str, what: str, of: str = "") -> None:
        """*of* identifies the finding where that distinguishes it better than the words of *what*."""
        super().__init__(what)
        self.kind = kind
        self.what = what
        self.reason = f"{kind} {of or reason_of(what)}"


def exercise(
    definition: Definition,
    *,
    operations: int,
    seed: int,
    progress: Progress = lambda _: None,
    run: Callable[[Callable[[], list[bytes]]], list[bytes]] = lambda work: work(),
) -> Exercised:
    """Make about that many *operations*.

    *run* executes each on one object; it may raise :class:`TooSlow` and :class:`Unfinished`.
    """
    random = Random(seed)  # fence: of the seed
    result = Exercised()
    known: set[str] = set()
    while result.operations < operations and len(result.found) < FOUND_MAX:
        length = min(random.randint(1, SEQUENCE_MAX), operations - result.operations)
        sequence = _Sequence(definition, random.choice(CAPTURED_EVERY), run, known)
        values = Values(random)
        made: list[Done] = []
        try:
            while len(made) < length:
                done = _drawn(definition, random, values, result)
                if done is None:
                    return result
                made.append(done)
                result.operations += 1
                progress(result.operations)
                for outcome in sequence.do(done):
                    _see(values, outcome)
            sequence.capture()
        except _Wrong as wrong:
            if wrong.reason not in known:
                result.found.append(_shortest(definition, tuple(made), wrong, known, run))
                known.add(wrong.reason)
        except TooSlow:
            result.too_slow[made[-1].method] = str(made[-1])
        except Unfinished:
            result.is_finished = False
            return result
    return result


def _digest(subject: Subject) -> bytes:
    """Return the digest of the object's state. Raises :class:`_Wrong` if it has none."""
    try:
        return subject.execution.digest()
    except NotCapturable as error:
        raise _Wrong("state", str(error)) from None


class _Sequence:
    """One sequence of operations on three objects.

    They are the first, one that replays, and one restored from a state of the first.
    """

    def __init__(
        self, definition: Definition, every: int, run: Callable[..., list[bytes]], known: set[str]
    ) -> None:
        """*known*: reasons that were reported before, for which no sequence is abandoned again."""
        self._every = every
        self._known = known
        self._interface = definition.interface
        self._run = run
        self._first = Subject.made(definition)
        self._second = Subject.made(definition)
        self._restored: Subject | None = None
        self._number = 0

    def do(self, done: Done) -> list[bytes]:
        """Execute one operation on all objects. Raises :class:`_Wrong` when they disagree."""
        self._number += 1
        before = _digest(self._first) if done.is_query and self._first.is_at_rest else b""
        outcomes = self._on(self._first, done)
        if before and _digest(self._first) != before:
            raise _Wrong("query", f"{done.method} is marked as a query and changes the state")
        again = self._on(self._second, done)
        if again != outcomes:
            raise _Wrong(
                "order" if are_same_but_for_order(again, outcomes) else "replay",
                f"a replay of {done.method} gives {_said(again)}, not {_said(outcomes)}",
            )
        if self._restored is not None and (after := self._on(self._restored, done)) != outcomes:
            raise _Wrong(
                "order" if are_same_but_for_order(after, outcomes) else "state",
                f"after its state was read back {done.method} gives {_said(after)}, not {_said(outcomes)}",
            )
        self._judge(done, outcomes)
        if self._number % self._every == 0:
            self.capture()
        return outcomes

    def capture(self) -> None:
        if not self._first.is_at_rest:
            return
        try:
            digest = _digest(self._first)
            if _digest(self._second) != digest:
                raise _Wrong("replay", "the state of an object that executed the same is another")
            if self._restored is not None and _digest(self._restored) != digest:
                raise _Wrong("state", "an object whose state was read back goes on to another state")
            self._restored = self._first.restored(self._first.execution.save())
        except NoStateAvailable:
            self._restored = None
        except NotCapturable as error:
            raise _Wrong("state", str(error)) from None
        except _Wrong:
            raise
        except Exception as error:
            raise _Wrong("state", f"the state cannot be captured: {error_in_words(error)}") from None

    def _judge(self, done: Done, outcomes: list[bytes]) -> None:
        """Check the replies of one operation. What is wrong here does not invalidate the object's state."""
        for outcome in outcomes:
            self._raise_news("await", why_not_awaited(outcome), done.method)
        # The answers of other groups are invented here, and an object that received one may return anything.
        if len(outcomes) == 1 and not self._first.answered:
            operation = self._interface.operations[done.method]
            self._raise_news("result", why_no_result(operation, outcomes[0]), done.method)

    def _raise_news(self, kind: str, why: str, method: str) -> None:
        if why and (wrong := _Wrong(kind, why, method)).reason not in self._known:
            raise wrong

    def _on(self, subject: Subject, done: Done) -> list[bytes]:
        return self._run(lambda: subject.do(self._number, done))


def _drawn(definition: Definition, random: Random, values: Values, result: Exercised) -> Done | None:
    """Draw a call of a method whose arguments can be made; None if there is none."""
    offered = [
        each
        for name, each in sorted(definition.interface.operations.items())
        if name not in result.not_made and name not in result.too_slow
    ]
    while offered:
        operation = random.choice(offered)
        try:
            return Done(operation.name, _arguments(operation, random, values), operation.is_query)
        except CannotMake as error:
            result.not_made[operation.name] = f"no value is known for {error}"
            offered.remove(operation)
    return None


def _arguments(operation: Operation, random: Random, values: Values) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for name, parameter in operation.signature.parameters.items():
        if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
            continue
        if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
            raise CannotMake(f"{name}, which cannot be given by name")
        if parameter.default is not inspect.Parameter.empty and random.random() < 1 / 3:
            continue
        annotated = parameter.annotation is not inspect.Parameter.empty
        if annotated and name not in operation.types:
            raise CannotMake(f"{name}: {parameter.annotation}")
        try:
            given[name] = values.of(operation.types.get(name, Any))
        except CannotMake as error:
            raise CannotMake(f"{name}: {error}") from None
    return given


def _see(values: Values, outcome: bytes) -> None:
    found = decode_outcome(outcome)
    if isinstance(found, Returned):
        values.saw(found.value)


def _said(outcomes: list[bytes]) -> str:
    return "; ".join(str(decode_outcome(each))[:80] for each in outcomes) or "nothing"


def _shortest(
    definition: Definition,
    made: tuple[Done, ...],
    wrong: _Wrong,
    known: set[str],
    run: Callable[..., list[bytes]],
) -> Found:
    """Find a shorter failing sequence.

    Parts are left out, larger ones first, as long as the failure still shows.
    """
    best, says = made, wrong
    tries, size = 0, max(len(made) // 2, 1)
    while size and tries < SHRINKS_MAX:
        at = 0
        while at < len(best) and tries < SHRINKS_MAX:
            candidate = best[:at] + best[at + size :]
            tries += 1
            found = _wrong_with(definition, candidate, known, run) if candidate else None
            if found is not None and found[0].reason == wrong.reason:
                says, best = found[0], candidate[: found[1]]
            else:
                at += size
        size //= 2
    return Found(says.kind, says.what, best)


def _wrong_with(
    definition: Definition, made: tuple[Done, ...], known: set[str], run: Callable[..., list[bytes]]
) -> tuple[_Wrong, int] | None:
    """Return what is wrong and after how many of these operations; None if nothing is.

    The state is captured after each operation.
    """
    sequence = _Sequence(definition, 1, run, known)
    for number, done in enumerate(made, start=1):
        try:
            sequence.do(done)
        except _Wrong as wrong:
            return wrong, number
        except (TooSlow, Unfinished):
            return None
    return None
