"""Options and fixtures that every kind of test shares."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from means import missing
from recipe_bench import Bench

settings.register_profile("any-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any-machine")  # how long an example takes says something of the machine alone


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="the long versions: `make long`")


@pytest.fixture(scope="session")
def rounds(request: pytest.FixtureRequest) -> "Rounds":
    """How often to repeat: ``rounds(short=20, long=1000)``."""
    return Rounds(is_long=request.config.getoption("--long"))


class Rounds:
    def __init__(self, *, is_long: bool) -> None:
        self.is_long = is_long

    def __call__(self, *, short: int, long: int) -> int:
        return long if self.is_long else short


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """An authority on which recipes are run step by step."""
    made = Bench(tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="session")
def etcd_program() -> str:
    """The path of the etcd server's program."""
    found = shutil.which("etcd")
    if found is None:
        missing("etcd (Debian: apt-get install etcd-server)")
    return found
