"""What is ordered of hosts, where nothing was said."""

import pytest

from holdfast.model.admin.groups import min_in_sync_default


@pytest.mark.parametrize(("replicas", "wanted"), [(1, 1), (2, 1), (3, 2), (5, 2)])
def test_min_in_sync_is_two_where_a_member_can_be_spared(replicas: int, wanted: int) -> None:
    """How many must hold an operation: two for groups of three or more, one below."""
    assert min_in_sync_default(replicas) == wanted
