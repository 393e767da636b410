"""Which numbers are missing, and when that counts as a loss (LOSS-28, 29, 37)."""

from holdfast.streams.gaps import Gap, SequenceGaps, find_gap


def test_a_gap_lies_between_the_mark_and_the_next_message() -> None:
    assert find_gap(45, 58, 58) == Gap(46, 57)
    assert Gap(46, 57).count == 12
    assert find_gap(45, 46, 46) is None
    assert find_gap(45, None, 45) is None
    assert find_gap(45, None, 47) == Gap(46, 47, is_tail=True)


def test_it_is_a_loss_when_it_has_been_there_for_the_grace_time() -> None:
    gaps = SequenceGaps(10)
    assert gaps.look(1, 3, 3, 100) is None
    assert gaps.due_ns() == 110
    assert gaps.look(1, 3, 3, 109) is None
    assert gaps.look(1, 3, 3, 110) == Gap(2, 2)


def test_one_that_has_closed_begins_anew() -> None:
    gaps = SequenceGaps(10)
    gaps.look(1, 3, 3, 100)
    assert gaps.look(3, None, 3, 105) is None
    assert gaps.due_ns() is None
    assert gaps.look(3, 5, 5, 111) is None
    assert gaps.look(4, 6, 6, 121) is None  # another gap, seen just now
    assert gaps.look(4, 6, 6, 131) == Gap(5, 5)
