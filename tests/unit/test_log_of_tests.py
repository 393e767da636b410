"""A test that sets up the log, or runs what does so, changes nothing for those after it."""

import logging

import pytest
import structlog


@pytest.mark.parametrize("number", [1, 2])
def test_the_log_is_as_it_was(number: int) -> None:
    assert not structlog.is_configured()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
