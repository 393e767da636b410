"""Options and fixtures that every kind of test shares."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, settings

from file_order import Stopwatch, longest_first, read_seconds
from leftovers import end_leftovers, mark_children
from means import missing
from recipe_bench import Bench

settings.register_profile("any-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any-machine")  # how long an example takes says something of the machine alone

CHILDREN = pytest.StashKey[str]()
LEFT = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="the long versions: `make long`")
    parser.addoption(
        "--write-seconds", action="store_true", help="write how long the files took, for their order"
    )


def pytest_configure(config: pytest.Config) -> None:
    worker = getattr(config, "workerinput", {}).get("workerid", "")
    config.stash[CHILDREN] = mark_children(worker)
    config.stash[LEFT] = []
    if config.getoption("--write-seconds") and not worker:
        config.pluginmanager.register(Stopwatch())


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        items[:] = longest_first(items, read_seconds())


# --- no test leaves processes behind


@pytest.fixture(scope="module", autouse=True)
def nothing_left_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    """End what the tests of a file left running, and say so at the end."""
    yield
    found = end_leftovers(request.config.stash[CHILDREN])
    request.config.stash[LEFT] += [f"{request.node.nodeid} left {each}" for each in found]


def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    config.stash[LEFT] += [f"somebody left {each}" for each in end_leftovers(config.stash[CHILDREN])]
    if hasattr(config, "workeroutput"):
        config.workeroutput["left"] = config.stash[LEFT]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Collect what a worker says at its end; one that crashed says nothing."""
    node.config.stash[LEFT] += getattr(node, "workeroutput", {}).get("left", [])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for each in config.stash[LEFT]:
        terminalreporter.line(f"LEFT RUNNING, and ended now: {each}", red=True)


# --- no test changes what the next one logs


@pytest.fixture(autouse=True)
def log_as_it_was() -> Iterator[None]:
    """Put the process's log back as it was before the test. A program that wants warnings alone would silence
    the lines that a test of another file waits for."""
    was_configured, config = structlog.is_configured(), structlog.get_config()
    yield
    structlog.reset_defaults()
    if was_configured:
        structlog.configure(**config)


# --- fixtures


@pytest.fixture(scope="session")
def rounds(request: pytest.FixtureRequest) -> "Rounds":
    """How often to repeat: ``rounds(short=20, long=1000)``."""
    return Rounds(is_long=request.config.getoption("--long"))


@pytest.fixture(scope="session")
def jobs(request: pytest.FixtureRequest) -> int:
    """In how many processes to simulate: a worker of pytest has neighbours that use the other cores."""
    return 1 if hasattr(request.config, "workerinput") else 2


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
