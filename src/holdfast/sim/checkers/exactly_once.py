"""Exactly once: every token that clients append is in every replica's list as often as it should be.

Clients append tokens that nobody else uses and ask again, with the same token, until they have an answer or
give up. Afterwards every replica's list is read. Then:

- a token that was acknowledged is there once; one without an answer, at most once;
- a token whose every attempt was definitely refused, or that nobody requested, is not there;
- all replicas have the same order, and it agrees with real time;
- every answer to the same token is the same: a repetition gets the reply of the first attempt (X1).
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from holdfast.sim.checkers.history import NEVER, Append, Operation, Outcome, Violation
from holdfast.sim.checkers.order import prefix_agreement

Lists = Mapping[str, Sequence[Hashable]]
"""What each replica's list contains at the end, by the replica's name."""


@dataclass(slots=True)
class _Asked:
    """All attempts for one token, taken together."""

    invoked: int
    returned: int = NEVER
    """When the first acknowledgement came; from then on the token is certainly in the list."""
    is_possible: bool = False
    """Whether some attempt was not definitely refused."""
    replies: tuple[Hashable, ...] = ()

    @property
    def is_acknowledged(self) -> bool:
        return self.returned != NEVER

    def add(self, attempt: Operation) -> None:
        self.invoked = min(self.invoked, attempt.invoked)
        if attempt.outcome is not Outcome.FAILED:
            self.is_possible = True
        if attempt.outcome is Outcome.OK:
            self.returned = min(self.returned, attempt.returned)
            self.replies = (*self.replies, attempt.result)


def check(operations: Iterable[Operation], replicas: Lists) -> list[Violation]:
    """Check the ``Append`` operations of one list against what every replica contains at the end."""
    asked = _by_token(operations)
    violations = _replies(asked)
    for name, tokens in replicas.items():
        violations += _counts(name, tokens, asked)
        violations += _real_time(name, tokens, asked)
    violations += [Violation("exactly-once.order", each.message) for each in prefix_agreement(replicas)]
    return violations


def _by_token(operations: Iterable[Operation]) -> dict[Hashable, _Asked]:
    asked: dict[Hashable, _Asked] = {}
    for attempt in operations:
        if isinstance(attempt.request, Append):
            asked.setdefault(attempt.request.token, _Asked(attempt.invoked)).add(attempt)
    return asked


def _replies(asked: Mapping[Hashable, _Asked]) -> list[Violation]:
    return [
        Violation(
            "exactly-once.reply", f"{token!r} got different replies: {', '.join(map(repr, each.replies))}"
        )
        for token, each in asked.items()
        if any(reply != each.replies[0] for reply in each.replies)
    ]


def _counts(name: str, tokens: Sequence[Hashable], asked: Mapping[Hashable, _Asked]) -> list[Violation]:
    count = Counter(tokens)
    violations = [
        Violation("exactly-once.lost", f"{token!r} was acknowledged, but {name} does not have it")
        for token, each in asked.items()
        if each.is_acknowledged and token not in count
    ]
    for token, times in count.items():
        if times > 1:
            violations.append(Violation("exactly-once.repeated", f"{name} has {token!r} {times} times"))
        if token not in asked:
            violations.append(
                Violation("exactly-once.invented", f"{name} has {token!r}; nobody asked for it")
            )
        elif not asked[token].is_possible:
            said = f"{name} has {token!r}, of which the client was told that it never happened"
            violations.append(Violation("exactly-once.refused", said))
    return violations


def _real_time(name: str, tokens: Sequence[Hashable], asked: Mapping[Hashable, _Asked]) -> list[Violation]:
    """Require that no token precedes another that was acknowledged before the first attempt for the token."""
    latest: tuple[Hashable, int] | None = None
    for token in tokens:
        each = asked.get(token)
        if each is None:
            continue
        if latest is not None and each.returned < latest[1]:
            said = (
                f"{name} has {latest[0]!r} before {token!r}, which was acknowledged before that was asked for"
            )
            return [Violation("exactly-once.real-time", said)]
        if latest is None or each.invoked > latest[1]:
            latest = (token, each.invoked)
    return []
