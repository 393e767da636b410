"""What a call's result becomes in JSON."""

import math

import pytest

from holdfast.web.calls import as_json
from holdfast.web.problems import Refusal


@pytest.mark.parametrize("value", [math.nan, [1.5, {"of": (math.inf,)}], {"least": -math.inf}, {1, math.nan}])
def test_a_number_that_json_does_not_have_is_told_and_not_written_as_null(value: object) -> None:
    with pytest.raises(Refusal, match=r"the call was executed, but .* is neither finite nor null") as told:
        as_json(value)
    assert told.value.status == 422


@pytest.mark.parametrize("value", [None, [None, 1.5], {"nulls": "null"}, "null"])
def test_what_is_null_or_says_so_is_written(value: object) -> None:
    assert as_json(value) == value
