"""The streams' part of the state: it changes by records alone, and comes back as it was (O2, LOSS-99)."""

import pytest
from stream_group import ORIGIN, message

from holdfast.model.errors import BrokenInvariant
from holdfast.model.ids import SECOND
from holdfast.streams.ledger import AUDIT_MAX, Hole, LackedRange, Ledger
from holdfast.streams.message import Origin
from holdfast.streams.records import (
    Began,
    Decided,
    Deliver,
    Lacked,
    Passed,
    Ruled,
    RuleEnded,
    decode_ordered,
    encode_ordered,
    positions_in,
)
from holdfast.streams.rules import Rule


def ledger(*entries: object, is_set: bool = False) -> Ledger:
    made = Ledger(is_set=is_set)
    made.apply((Began(ORIGIN, 0), *entries), 5 * SECOND)  # type: ignore[arg-type]
    return made


def test_a_mark_moves_by_what_is_delivered_and_what_is_passed_over() -> None:
    made = ledger(Deliver(ORIGIN, 1, 3), Passed(ORIGIN, 4, 5), Passed(ORIGIN, 6, 6, 1), Deliver(ORIGIN, 7, 1))
    mark = made.streams["gold"]
    assert (mark.mark, mark.delivered, mark.dropped, mark.ignored) == (7, 4, 2, 1)
    assert made.is_done_with(ORIGIN, 7)
    assert not made.is_done_with(ORIGIN, 8)


def test_what_a_later_message_skips_is_dropped_for_good() -> None:
    """Stream order is law (LOSS-80)."""
    made = ledger(Deliver(ORIGIN, 1, 1), Deliver(ORIGIN, 4, 1))
    assert (made.streams["gold"].dropped, made.is_done_with(ORIGIN, 2)) == (2, True)
    with pytest.raises(BrokenInvariant):
        made.apply((Deliver(ORIGIN, 3, 1),), 0)


def test_where_only_the_set_counts_what_is_skipped_stays_open() -> None:
    made = ledger(Deliver(ORIGIN, 1, 1), Deliver(ORIGIN, 9, 1), Deliver(ORIGIN, 4, 2), is_set=True)
    assert made.streams["gold"].holes == [Hole(2, 3), Hole(6, 8)]
    made.apply((Passed(ORIGIN, 2, 3), Deliver(ORIGIN, 8, 1)), 0)
    assert made.streams["gold"].holes == [Hole(6, 7)]
    with pytest.raises(BrokenInvariant):
        made.apply((Deliver(ORIGIN, 8, 1),), 0)


def test_a_new_life_begins_with_its_own_numbers() -> None:
    again = Origin(ORIGIN.source, ORIGIN.stream, 2)
    made = ledger(Deliver(ORIGIN, 1, 7), Began(again, 0), Deliver(again, 1, 1))
    assert (made.streams["gold"].mark, made.streams["gold"].delivered) == (1, 8)
    assert made.is_done_with(ORIGIN, 99)
    with pytest.raises(BrokenInvariant):
        made.apply((Deliver(ORIGIN, 8, 1),), 0)


def test_a_rule_that_counts_ends_with_its_last_message_and_one_with_a_time_by_a_record() -> None:
    made = ledger(Ruled(Rule(1, left=3)), Ruled(Rule(2, until_ns=2 * SECOND)))
    assert [each.until_ns for each in made.rules] == [None, 7 * SECOND]
    made.apply((Deliver(ORIGIN, 1, 1), Passed(ORIGIN, 2, 4, 1)), 99 * SECOND)
    assert [each.number for each in made.rules] == [2]
    made.apply((RuleEnded(2, "its time is over"), RuleEnded(2, "again")), 99 * SECOND)
    assert (len(made.rules), made.decisions) == (0, 3)


def test_what_was_lacked_is_known_until_the_order_says_so() -> None:
    made = ledger(Deliver(ORIGIN, 1, 5))
    made.lacked.append(LackedRange(ORIGIN, 3, 4))
    made.apply((Lacked(ORIGIN, 3, 4),), 0)
    assert (made.lacked, made.differs) == ([], "")
    made.apply((Lacked(ORIGIN, 5, 5),), 0)
    assert "gold 5 to 5 was delivered here" in made.differs


def test_it_comes_back_as_it_was_and_remembers_the_last_decisions() -> None:
    made = ledger(Ruled(Rule(1, topics=("bids",), left=2)), Deliver(ORIGIN, 1, 1), is_set=True)
    for _ in range(AUDIT_MAX + 5):
        made.apply((Decided(ORIGIN, 2, 2, "drop", "a", information=b"x" * 9999),), 0)
    made.apply((Deliver(ORIGIN, 4, 1),), 0)
    back = Ledger()
    back.load(made.save())
    assert back.digest() == made.digest()
    assert back.save() == made.save()
    assert (len(back.audit), back.audit[-1].number) == (AUDIT_MAX, AUDIT_MAX + 6)
    assert back.audit[-1].decided.information == b""  # type: ignore[union-attr]  # too long to be kept
    assert Ledger().save() == b""


def test_a_copy_goes_its_own_way() -> None:
    made = ledger(Deliver(ORIGIN, 1, 1), Deliver(ORIGIN, 3, 1), Ruled(Rule(1, left=2)), is_set=True)
    copy, before = made.copy(), made.save()
    copy.apply((Deliver(ORIGIN, 2, 1), Passed(ORIGIN, 4, 5, 1)), 0)
    assert made.save() == before


def test_a_record_takes_a_position_for_each_method_that_it_calls() -> None:
    entries = (
        Began(ORIGIN, 0),
        Deliver(ORIGIN, 1, 3, (message(1), message(2), message(3))),
        Decided(ORIGIN, 4, 4, "drop", "a"),
        Passed(ORIGIN, 4, 4),
        Deliver(ORIGIN, 5, 2, (message(5), message(6))),
    )
    assert positions_in(encode_ordered(entries, is_batch=False, notifies=True)) == 6
    assert positions_in(encode_ordered(entries, is_batch=False, notifies=False)) == 5
    assert positions_in(encode_ordered(entries, is_batch=True, notifies=True)) == 3
    assert positions_in(encode_ordered(entries[:1], is_batch=True, notifies=True)) == 1
    assert decode_ordered(encode_ordered(entries, is_batch=True, notifies=True)).entries == entries
