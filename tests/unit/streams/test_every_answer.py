"""Every answer to a loss, wherever the messages are lost, whatever the order carries (LOSS-62 to 65).

A case runs real members, and looks at each of them: what was delivered and in which order, what was passed
over, what its application was told, and that all states are equal."""

from collections.abc import Iterable
from dataclasses import dataclass

import pytest
from stream_answers import assert_equal, book, follow, numbers_of, said
from stream_group import StreamGroup

import holdfast as hf
from holdfast.streams.ledger import Decision
from holdfast.streams.records import Decided


@dataclass(frozen=True)
class Fate:
    """What becomes of message 3, which the leader has lost."""

    what: str
    """``recovered``, ``dropped``, ``handed over`` or ``waits``."""
    kind: str
    """The action that every application is told of."""
    rules: int = 0
    by: str = "a"
    """Who decided, or the beginning of why the default was taken."""


DROP, RECOVER, SUSPEND = hf.Drop(), hf.Recover(), hf.Suspend()
RULE, OTHER = hf.Ignore(topic="never"), hf.Ignore(stream="silver", for_messages=9)
DROPPED, RECOVERED = Fate("dropped", "drop"), Fate("recovered", "recover")
HANDED, WAITS = Fate("handed over", "suspend"), Fate("waits", "suspend")
OFTEN = Fate("waits", "suspend", by="default: it was asked often enough")
DROPPED_1, RECOVERED_1 = Fate("dropped", "drop & ignore", 1), Fate("recovered", "recover & ignore", 1)
HANDED_1 = Fate("handed over", "suspend & ignore", 1)
REFUSED = (Fate("recovered", "recover", by="default: "), Fate("waits", "suspend", by="default: "))

ANSWERS: dict[str, tuple[hf.Action, Fate, Fate]] = {
    # The answer; what comes of it where another server has the message; and where nobody has it.
    "drop": (DROP, DROPPED, DROPPED),
    "recover": (RECOVER, RECOVERED, OFTEN),
    "suspend": (SUSPEND, HANDED, WAITS),
    "ignore": (RULE, DROPPED_1, DROPPED_1),
    "recover | drop": (RECOVER | DROP, RECOVERED, DROPPED),
    "recover | suspend": (RECOVER | SUSPEND, RECOVERED, WAITS),
    "recover | recover": (RECOVER | RECOVER, RECOVERED, OFTEN),
    "recover | suspend | drop": (RECOVER | SUSPEND | DROP, RECOVERED, DROPPED),
    "suspend | drop": (SUSPEND | DROP, HANDED, DROPPED),
    "suspend | recover": (SUSPEND | RECOVER, HANDED, OFTEN),
    "suspend | suspend": (SUSPEND | SUSPEND, HANDED, WAITS),
    "suspend | recover | drop": (SUSPEND | RECOVER | DROP, HANDED, DROPPED),
    "drop & ignore": (DROP & RULE, DROPPED_1, DROPPED_1),
    "ignore & drop": (RULE & DROP, DROPPED_1, DROPPED_1),
    "recover & ignore": (RECOVER & RULE, RECOVERED_1, OFTEN),
    "suspend & ignore": (SUSPEND & RULE, HANDED_1, Fate("waits", "suspend & ignore")),
    "ignore & ignore": (RULE & OTHER, *[Fate("dropped", "drop & ignore & ignore", 2)] * 2),
    "recover | ignore": (RECOVER | RULE, RECOVERED, DROPPED_1),
    "recover & ignore | drop": (RECOVER & RULE | DROP, RECOVERED_1, DROPPED),
    "recover | drop & ignore": (RECOVER | DROP & RULE, RECOVERED, DROPPED_1),
    "(recover | drop) & ignore": ((RECOVER | DROP) & RULE, RECOVERED_1, DROPPED_1),
    "(recover | suspend) & ignore": (
        (RECOVER | SUSPEND) & RULE,
        RECOVERED_1,
        Fate("waits", "suspend & ignore"),
    ),
    "(suspend | drop) & ignore": ((SUSPEND | DROP) & RULE, HANDED_1, DROPPED_1),
    "suspend & ignore | drop": (SUSPEND & RULE | DROP, HANDED_1, DROPPED),
    "drop | recover, refused": (DROP | RECOVER, *REFUSED),
    "drop & suspend, refused": (DROP & SUSPEND, *REFUSED),
    "recover & drop & ignore, refused": (RECOVER & DROP & RULE, *REFUSED),
}
LOST_AT = {"the leader": "bc", "the leader and a backup": "c", "everybody": ""}
"""Who has the message, where the leader has lost it."""
LACKING = {"a backup": "ac", "both backups": "a"}
"""The same where it has not."""
MODES = [(retain, order) for retain in ("memory", "none") for order in ("total", "set")]


@pytest.mark.covers("LOSS-62", "LOSS-63", "LOSS-64", "LOSS-75")
@pytest.mark.parametrize(("retain", "order"), MODES)
@pytest.mark.parametrize("lost_at", LOST_AT)
@pytest.mark.parametrize("name", ANSWERS)
def test_what_the_leader_has_lost(name: str, lost_at: str, retain: str, order: str) -> None:
    """The answer is carried out alike at every member, whatever it has received itself."""
    answer, had, nobody = ANSWERS[name]
    fate = had if LOST_AT[lost_at] else nobody
    is_batch = (retain == "none") != (order == "set")
    made = StreamGroup(book(answer, is_batch=is_batch, retain=retain, order=order))
    made.send("abc", said(1), said(2))
    made.send(LOST_AT[lost_at], said(3))
    made.send("abc", said(4))
    made.run(160)
    suspended = follow(made)
    made.send("abc", said(5))
    made.run(10)

    has_it = fate.what in ("recovered", "handed over")
    if order == "set":
        expected = [1, 2, 4, 3, 5] if has_it else [1, 2, 4, 5]
    else:
        expected = [1, 2] if fate.what == "waits" else [1, 2, 3, 4, 5] if has_it else [1, 2, 4, 5]
    rules = [f"rule {number + 1}" for number in range(fate.rules)]
    for member in "abc":
        assert numbers_of(member, made) == expected, member
        assert made.object(member).told == [*rules, f"{fate.kind} 3-3"], member
        mark = made.ledger(member).streams["gold"]
        assert (mark.dropped, mark.ignored, mark.losses) == (fate.what == "dropped", 0, 1)
        assert len(made.ledger(member).rules) == fate.rules
        (decided,) = decisions(made.ledger(member).audit)
        assert decided.by.startswith(fate.by)
    assert_equal(made)
    assert suspended == ({"a"} if fate.what == "handed over" else set())
    assert made.primary == ("c" if fate.what == "handed over" else "a")
    made.send("abc", said(3))  # too late, or just what the stream waits for
    made.run(10)
    late = [3] if order == "set" else [3, 4, 5]
    for member in "abc":
        assert numbers_of(member, made) == expected + (late if fate.what == "waits" else []), member
        assert made.object(member).told == [*rules, f"{fate.kind} 3-3"], "nothing more is told"
    assert_equal(made)


def decisions(audit: Iterable[Decision]) -> list[Decided]:
    return [each.decided for each in audit if isinstance(each.decided, Decided)]


@pytest.mark.covers("LOSS-91", "LOSS-92")
@pytest.mark.parametrize(("retain", "order"), MODES)
@pytest.mark.parametrize("recover_from", [("peers",), ("log",)], ids=["recovered", "in vain"])
@pytest.mark.parametrize("lost_at", LACKING)
@pytest.mark.parametrize(
    "name", ["drop", "recover", "suspend", "ignore", "recover | suspend", "drop & ignore"]
)
def test_what_a_backup_has_lost(
    name: str, lost_at: str, recover_from: tuple[str, ...], retain: str, order: str
) -> None:
    """Nobody is asked, and nobody is told: the order names the message. A backup has it from the order, or
    from another server, or else takes the leader's state; the others wait for nothing."""
    cls = book(ANSWERS[name][0], retain=retain, order=order, recover_from=recover_from)
    made = StreamGroup(cls)
    made.send("abc", said(1), said(2))
    made.send(LACKING[lost_at], said(3))
    made.send("abc", said(4))
    assert numbers_of("a", made) == [1, 2, 3, 4]
    made.run(120)
    is_in_vain = retain == "none" and recover_from == ("log",)
    assert follow(made) == (set("abc") - set(LACKING[lost_at]) if is_in_vain else set())
    made.send("abc", said(5))
    made.run(10)
    for member in "abc":
        assert numbers_of(member, made) == [1, 2, 3, 4, 5], member
        assert made.object(member).told == []
        mark = made.ledger(member).streams["gold"]
        assert (mark.dropped, mark.ignored, mark.losses) == (0, 0, 0)
    assert_equal(made)
    assert made.primary == "a"
