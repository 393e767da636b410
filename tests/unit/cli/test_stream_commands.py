"""`holdfast stream`: what cannot be meant is refused before anybody is asked."""

import pytest

from holdfast.cli.streams import rules
from holdfast.model.errors import InvalidRequest


@pytest.mark.parametrize(("end", "sync"), [(0, False), (-1, False), (3, True), (0, True)])
def test_a_rule_is_ended_by_its_number_or_those_of_a_sync_all_together(end: int, sync: bool) -> None:
    """On the wire the number 0 stands for those that last until sync; nobody who types it means them."""
    with pytest.raises(InvalidRequest, match="--end"):
        rules("orders", end=end, sync=sync)
