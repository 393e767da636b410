"""Every selector and every extent of a rule by which messages are ignored (LOSS-66 to 70).

A case runs real members, and looks at each of them: what was delivered and in which order, what was kept
back, what its application was told, and that all states are equal."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from stream_answers import assert_equal, book, follow, said, settle
from stream_group import ORIGIN, StreamGroup

import holdfast as hf
from holdfast.model.ids import SECOND
from holdfast.streams.message import Origin

SILVER = Origin("mine", "silver", 1)
COPPER = Origin("exchange", "copper", 1)
PROBES: dict[str, tuple[Origin, str, int]] = {
    "A": (ORIGIN, "bids", 1),
    "B": (ORIGIN, "asks", 2),
    "C": (ORIGIN, "bids.ny", 1),
    "D": (ORIGIN, "bidsx", 0),
    "E": (SILVER, "bids", 1),
    "F": (SILVER, "asks", 0),
    "G": (COPPER, "bids", 2),
}
NEXT = "Y"
"""The message after the gap: of the stream that lost one, with a topic and a priority of its own."""

SELECTORS: dict[str, tuple[dict[str, Any], str, bool]] = {
    # What a rule names; which messages it matches; and whether a sync of the stream with the loss ends it.
    "the stream of the loss": ({}, "YABCD", True),
    "a stream": ({"stream": "gold"}, "YABCD", True),
    "another stream": ({"stream": "silver"}, "EF", False),
    "every stream": ({"stream": "*"}, "YABCDEFG", True),
    "a source": ({"source": "exchange"}, "YABCDG", True),
    "another source": ({"source": "mine"}, "EF", False),
    "a stream of a source": ({"source": "exchange", "stream": "copper"}, "G", False),
    "no stream of a source": ({"source": "mine", "stream": "gold"}, "", False),
    "a topic": ({"topic": "bids"}, "A", True),
    "topics": ({"topic": ("asks", "bids.ny")}, "BC", True),
    "a topic everywhere": ({"topic": "bids", "stream": "*"}, "AEG", True),
    "related topics": ({"related_to": "bids"}, "AC", True),
    "related topics everywhere": ({"related_to": "bids", "stream": "*"}, "ACEG", True),
    "a priority": ({"priority": 0}, "D", True),
    "priorities": ({"priority": (1, 2)}, "ABC", True),
    "a priority everywhere": ({"priority": 2, "stream": "*"}, "BG", True),
    "a topic of a priority": ({"topic": "bids", "priority": 2, "stream": "*"}, "G", True),
    "a topic that is not related": ({"topic": "bids", "related_to": "asks"}, "", True),
    "all of them": (
        {
            "source": "exchange",
            "stream": "*",
            "topic": ("bids", "asks"),
            "related_to": "bids",
            "priority": (1, 2),
        },
        "AG",
        True,
    ),
}
EXTENTS: dict[str, dict[str, Any]] = {
    "for good": {},
    "until ended": {},
    "for messages": {"for_messages": 3},
    "for a time": {"for_s": 1.0},
    "until sync": {"until_sync": True},
    "until synced by a person": {"until_sync": True},
}
COMPANIONS = {"drop": hf.Drop(), "nothing": None, "recover": hf.Recover(), "suspend": hf.Suspend()}


@dataclass
class Trial:
    """A group with a rule, to which messages are sent one by one; and what is expected of them."""

    made: StreamGroup
    matched: str
    reach: str
    """Whom messages reach; the others must have them from the order, or from these."""
    left: int | None
    """How many messages the rule still keeps back; None if it does not count."""
    numbers: dict[str, int] = field(default_factory=dict)
    expected: list[str] = field(default_factory=list)
    ignored: dict[str, int] = field(default_factory=dict)

    def expect(self, letter: str, origin: Origin) -> None:
        """The next message is kept back if the rule is there and matches it; else it is delivered."""
        stream = origin.stream
        number = self.numbers[stream] = self.numbers.get(stream, 0) + 1
        if letter not in self.matched or self.left == 0:
            self.expected.append(f"{stream} {number}")
            return
        self.ignored[stream] = self.ignored.get(stream, 0) + 1
        self.left = self.left - 1 if self.left is not None else None

    def send_all(self) -> None:
        for letter, (origin, topic, priority) in PROBES.items():
            self.expect(letter, origin)
            self.made.send(self.reach, said(self.numbers[origin.stream], topic, priority), origin=origin)

    def end(self) -> None:
        self.matched = ""


def begun(answer: hf.Action, companion: str, retain: str, matched: str, left: int | None) -> Trial:
    """A group of three streams, of which one has lost a message, and has answered that."""
    made = StreamGroup(book(answer, retain=retain))
    trial = Trial(made, matched, "abc", left, {"gold": 2, "silver": 1, "copper": 1})
    made.send("abc", said(1), origin=SILVER)
    made.send("abc", said(1), origin=COPPER)
    made.send("abc", said(1), said(2))
    made.send("bc", said(3))
    made.send("abc", said(4))
    made.run(80)
    follow(made)
    trial.expected = ["silver 1", "copper 1", "gold 1", "gold 2"]
    if companion in ("drop", "nothing"):
        trial.numbers["gold"] = 3
    elif companion == "recover":
        trial.expect("X", ORIGIN)  # the rule begins behind what was recovered
    else:
        trial.expect(NEXT, ORIGIN)  # the next leader has the rule before it takes what this one had lost
    trial.expect(NEXT, ORIGIN)
    return trial


@pytest.mark.covers("LOSS-67", "LOSS-68", "LOSS-69", "LOSS-70")
@pytest.mark.parametrize("leader", ["stays", "is killed"])
@pytest.mark.parametrize("retain", ["memory", "none"])
@pytest.mark.parametrize("extent", EXTENTS)
@pytest.mark.parametrize("selector", SELECTORS)
def test_what_is_ignored_and_for_how_long(selector: str, extent: str, retain: str, leader: str) -> None:
    """A rule keeps back the same messages at every member: where the leader that registered it goes on, and
    where one that was a backup leads. Another backup gets none of them by itself."""
    check("drop", selector, extent, retain, leader)


@pytest.mark.covers("LOSS-64", "LOSS-74")
@pytest.mark.parametrize("leader", ["stays", "is killed"])
@pytest.mark.parametrize("retain", ["memory", "none"])
@pytest.mark.parametrize("extent", EXTENTS)
@pytest.mark.parametrize("selector", ["the stream of the loss", "related topics everywhere"])
@pytest.mark.parametrize("companion", ["nothing", "recover", "suspend"])
def test_what_a_rule_comes_with(companion: str, selector: str, extent: str, retain: str, leader: str) -> None:
    """The same rule does the same, whatever becomes of the lost messages. What was recovered is delivered:
    the rule is about what follows."""
    check(companion, selector, extent, retain, leader)


def check(companion: str, selector: str, extent: str, retain: str, leader: str) -> None:
    named, matched, is_of_gold = SELECTORS[selector]
    rule, deed = hf.Ignore(**named, **EXTENTS[extent]), COMPANIONS[companion]
    answer = rule if deed is None else deed & rule
    trial = begun(answer, companion, retain, matched, EXTENTS[extent].get("for_messages"))
    made = trial.made
    said_kind = {"nothing": "drop"}.get(companion, companion)
    told = ["rule 1", f"{said_kind} & ignore 3-3"]
    if leader == "is killed":
        made.fail_over("b" if made.primary != "b" else "c", is_crash=True)
        made.run(20)
    backups = sorted(set(made.replicas) - {made.primary})
    trial.reach = made.primary if leader == "is killed" else made.primary + backups[0]
    trial.send_all()
    trial.send_all()
    settle(made)
    told += end_of(trial, extent, is_of_gold)
    trial.send_all()
    settle(made)

    assert not follow(made)
    for member in made.replicas:
        assert made.object(member).seen == trial.expected, member
        assert made.object(member).told == told, member
        ledger = made.ledger(member)
        assert {name: each.ignored for name, each in ledger.streams.items() if each.ignored} == trial.ignored
        assert sum(each.dropped for each in ledger.streams.values()) == (said_kind == "drop")
        is_left = trial.left != 0 and "rule ended 1" not in told
        assert [each.number for each in ledger.rules] == ([1] if is_left else [])
    assert_equal(made)


def end_of(trial: Trial, extent: str, is_of_gold: bool) -> list[str]:
    """What ends the rule, where something does; returns what applications are told then."""
    made, primary = trial.made, trial.made.streams[trial.made.primary]
    if extent == "until ended":
        assert primary.end_rule(1)
    elif extent == "for a time":
        made.clock.time_ns += SECOND
    elif extent == "until synced by a person":
        assert primary.sync("gold") == int(is_of_gold)
    elif extent == "until sync":
        if is_of_gold:
            trial.end()
        trial.expect("sync", ORIGIN)  # it is delivered itself
        made.send(trial.reach, said(trial.numbers["gold"], "sync"))
    settle(made)
    if extent in ("for good", "for messages") or (extent.startswith("until sync") and not is_of_gold):
        return []
    trial.end()
    return ["rule ended 1"]
