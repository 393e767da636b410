"""What `holdfast chaos` refuses before it touches anything."""

from pathlib import Path

import pytest

from holdfast.cli.chaos import pause_primary
from holdfast.model.errors import InvalidRequest


@pytest.mark.parametrize("seconds", ["nan", "inf", "1e300", "86401", "0", "-1"])
def test_a_pause_that_cannot_be_is_refused_before_the_host_is_stopped(tmp_path: Path, seconds: str) -> None:
    """There is no domain here: looking for its primary would be another error."""
    with pytest.raises(InvalidRequest, match="a pause takes more than 0 s and at most 86400 s"):
        pause_primary("g", seconds=float(seconds), dir=tmp_path)
