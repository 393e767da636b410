"""How old lost messages are, from each kind of metadata (LOSS-24, LOSS-45)."""

from stream_group import message

from holdfast.model.ids import MILLISECOND, SECOND
from holdfast.streams.ages import DIFFERENCES, NUMBERS, TIMESTAMPS, AgeInterval, age_of_lost
from holdfast.streams.message import Ages

NOW = 1_000 * SECOND


def test_timestamps_on_both_sides_bound_it() -> None:
    after = message(9, ages=Ages(created_ns=NOW - 2 * SECOND))
    found = age_of_lost(5, NOW - 7 * SECOND, after, NOW, NOW)
    assert found == AgeInterval(2 * SECOND, 7 * SECOND, (TIMESTAMPS,))
    assert age_of_lost(5, None, after, NOW, NOW) == AgeInterval(2 * SECOND, None, (TIMESTAMPS,))


def test_differences_to_earlier_messages() -> None:
    """The newest lost one is one message back; the oldest of five is at most as old as the tenth."""
    back = (10 * MILLISECOND, 80 * MILLISECOND, 900 * MILLISECOND, None)
    after = message(106, ages=Ages(back_ns=back))
    arrived = NOW - 30 * MILLISECOND
    found = age_of_lost(100, None, after, arrived, NOW)
    assert found == AgeInterval(40 * MILLISECOND, 110 * MILLISECOND, (DIFFERENCES,))
    assert age_of_lost(90, None, after, arrived, NOW).most_ns == 930 * MILLISECOND
    assert age_of_lost(4, None, message(1006, ages=Ages(back_ns=back)), arrived, NOW).most_ns is None


def test_numbers_of_some_time_ago() -> None:
    """Number 100 was made at least 100 ms before, 104 at least 10 ms before: 101 to 103 lie between."""
    after = message(110, ages=Ages(numbers_before=(104, 100, 50, None)))
    assert age_of_lost(100, None, message(104, ages=after.ages), NOW, NOW) == AgeInterval(
        10 * MILLISECOND, 100 * MILLISECOND, (NUMBERS,)
    )
    assert age_of_lost(100, None, after, NOW, NOW).least_ns == 0
    assert age_of_lost(40, None, after, NOW, NOW).most_ns is None


def test_all_kinds_together_give_what_they_agree_on() -> None:
    ages = Ages(NOW - SECOND, (5 * MILLISECOND, 20 * MILLISECOND), (108, 100))
    found = age_of_lost(104, NOW - 9 * SECOND, message(109, ages=ages), NOW, NOW)
    assert found.methods == (TIMESTAMPS, DIFFERENCES, NUMBERS)
    assert (found.least_ns, found.most_ns) == (1_010 * MILLISECOND, 1_020 * MILLISECOND)


def test_without_metadata_nothing_is_said() -> None:
    assert age_of_lost(1, None, message(3), NOW, NOW) == AgeInterval()
    assert age_of_lost(1, None, None, NOW, NOW) == AgeInterval()
