"""The defaults of requests to hosts."""

import pytest

from holdfast.model.admin.groups import min_in_sync_default


@pytest.mark.parametrize(("replicas", "wanted"), [(1, 1), (2, 1), (3, 2), (5, 2)])
def test_min_in_sync_is_two_where_a_member_can_be_spared(replicas: int, wanted: int) -> None:
    """The number of members that must hold an operation is two for groups of three or more, else one."""
    assert min_in_sync_default(replicas) == wanted
