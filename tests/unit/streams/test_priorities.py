"""What the first message after a gap proves, for every gap of both tables of the source (LOSS-31 to 35)."""

import pytest
from stream_group import described, message

from holdfast.streams.message import DISTANCE_MAX, FURTHER, Message
from holdfast.streams.priorities import Lost, indication, is_lost, last_of

TABLE_1 = {
    "p": [1, 1, 0, 1, 0, 0, 0, 1, 1, 0],
    "d0": [-1, -1, -1, 1, 2, 1, 1, 1, 2, 3],
}
TABLE_2 = {
    "p": [1, 2, 0, 1, 2, 0, 0, 2, 1, 0],
    "d0": [-1, -1, -1, 1, 2, 3, 1, 1, 2, 3],
    "d1": [-1, 1, 2, 3, 1, 2, 3, 4, 5, 1],
}
GAPS = [(before, after) for after in range(3, 11) for before in range(1, after - 1)]
"""All pairs (X, Y) with X < Y - 1."""


def test_there_are_36_gaps() -> None:
    assert len(GAPS) == 36


@pytest.mark.parametrize(("table", "levels"), [(TABLE_1, 2), (TABLE_2, 3)])
def test_the_tables_are_what_a_source_says(table: dict[str, list[int]], levels: int) -> None:
    made = described(table["p"], levels)
    for level in range(levels - 1):
        assert [each.distances[level] for each in made] == table[f"d{level}"]


def of_table(table: dict[str, list[int]], number: int) -> Message:
    rows = [table[name] for name in ("d0", "d1") if name in table]
    return message(number, table["p"][number - 1], distances=tuple(row[number - 1] for row in rows))


@pytest.mark.parametrize("table", [TABLE_1, TABLE_2])
@pytest.mark.parametrize(("before", "after"), GAPS)
def test_every_gap_is_told_rightly(table: dict[str, list[int]], before: int, after: int) -> None:
    lost = table["p"][before : after - 1]
    found = indication(before, of_table(table, after))
    truth = tuple(Lost.YES if level in lost else Lost.NO for level in range(len(found.levels)))
    assert found.levels == truth
    assert found.only_lowest is (Lost.NO if Lost.YES in truth else Lost.YES)
    for level, number in enumerate(found.last):
        sent = [at for at in range(1, after) if table["p"][at - 1] == level]
        assert number == (sent[-1] if sent else None)


@pytest.mark.parametrize("table", [TABLE_1, TABLE_2])
@pytest.mark.parametrize(("before", "after"), GAPS)
def test_the_cumulative_form_tells_of_a_level_or_a_more_important_one(
    table: dict[str, list[int]], before: int, after: int
) -> None:
    levels = max(table["p"]) + 1
    made = described(table["p"], levels)[after - 1]
    lost = table["p"][before : after - 1]
    truth = tuple(Lost.YES if min(lost) <= level else Lost.NO for level in range(levels - 1))
    assert indication(before, made).at_least == truth


@pytest.mark.parametrize(
    ("table", "before", "after", "levels"),
    [
        (TABLE_1, 1, 3, "n"),
        (TABLE_1, 2, 4, "y"),
        (TABLE_1, 3, 5, "n"),
        (TABLE_1, 4, 6, "y"),
        (TABLE_1, 6, 10, "y"),
        (TABLE_1, 7, 10, "n"),
        (TABLE_1, 1, 10, "y"),
        (TABLE_2, 3, 6, "ny"),
        (TABLE_2, 4, 9, "yn"),
        (TABLE_2, 7, 9, "nn"),
        (TABLE_2, 8, 10, "ny"),
    ],
)
def test_the_sources_picks(table: dict[str, list[int]], before: int, after: int, levels: str) -> None:
    found = indication(before, of_table(table, after)).levels
    assert "".join(each[0] for each in found) == levels


def test_a_distance_that_is_further_than_any_that_is_told() -> None:
    """Not inside a gap that is shorter; nothing is known of a longer one (LOSS-21)."""
    assert is_lost(10, 12, FURTHER) is Lost.NO
    assert is_lost(1, DISTANCE_MAX + 2, FURTHER) is Lost.NO
    assert is_lost(1, DISTANCE_MAX + 3, FURTHER) is Lost.UNKNOWN
    assert last_of(12, FURTHER) is None


def test_what_others_have_adds_to_what_is_told() -> None:
    assert indication(1, None, (2, 0)).levels == (Lost.YES, Lost.UNKNOWN, Lost.YES)
    assert indication(1, None, (2, 0), is_all_at_peers=True).levels == (Lost.YES, Lost.NO, Lost.YES)
    far = message(DISTANCE_MAX + 9, distances=(FURTHER, 3))
    assert indication(1, far, (0,)).levels == (Lost.YES, Lost.YES)
    assert indication(1, far, (1,), is_all_at_peers=True).levels == (Lost.NO, Lost.YES)
    assert indication(1, message(3)).is_high_lost is Lost.UNKNOWN
