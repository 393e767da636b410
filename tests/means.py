"""What a machine must have for some tests, and what becomes of them where it has not."""

import os
from pathlib import Path
from typing import Final, NoReturn

import pytest

ROOT: Final = Path(__file__).parents[1]
"""The project's own directory."""


def missing(what: str) -> NoReturn:
    """This machine lacks *what* a test needs: a loud skip. In CI it is a failure: a machine that lost
    a device would otherwise pass without having cut a single disk's power."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"CI must have {what}")
    pytest.skip(f"SKIPPED LOUDLY: this machine has no {what}")
