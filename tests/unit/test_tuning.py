"""What a group's properties mean for its member on a host."""

import pytest

from holdfast.authority.groups import GroupRecord
from holdfast.housing.tuning import CHECKPOINT_LEAST_NS, tuned
from holdfast.model.ids import GroupId, Nonce
from holdfast.model.units import SECOND
from holdfast.styles.config import StyleConfig

CONFIG = StyleConfig()


def interval_ns(properties: str = "{}", tuned_to: str = "{}") -> int:
    record = GroupRecord(
        group=GroupId(1),
        class_name="a:B",
        style="warm_passive",
        members=(),
        nonce=Nonce("n"),
        properties=properties,
        tuned=tuned_to,
    )
    return tuned(CONFIG, record).checkpoint_interval_ns


def interval(units: int) -> str:
    return f'{{"org.omg.ft.CheckpointInterval": {units}}}'


@pytest.mark.covers("FTC-152", "FTC-165", "FTC-189")
def test_the_checkpoint_interval_is_as_the_group_was_made_or_was_told_since() -> None:
    """In units of 100 ns."""
    assert interval_ns() == CONFIG.checkpoint_interval_ns
    assert interval_ns(interval(20_000_000)) == 2 * SECOND
    assert interval_ns(interval(20_000_000), interval(50_000_000)) == 5 * SECOND
    assert interval_ns(tuned_to=interval(50_000_000)) == 5 * SECOND


def test_checkpoints_are_never_all_that_the_disk_does() -> None:
    assert interval_ns(interval(1)) == CHECKPOINT_LEAST_NS
