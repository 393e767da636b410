"""Each example runs by one command, survives the kill in its story, and leaves nothing behind."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from domain import Domain, is_whole

from holdfast.cli.admin import order_at
from holdfast.model.admin.groups import ListGroups
from holdfast.node.layout import Layout

pytestmark = pytest.mark.cluster

EXAMPLES = Path(__file__).parents[2] / "examples"
LIMIT_S = 400


@pytest.fixture(scope="module")
def domain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Domain]:
    with Domain(tmp_path_factory.mktemp("examples") / "d", "--app", str(EXAMPLES)) as made:
        yield made


def played(name: str, *options: str, tmp_path: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py"), *options],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("archive", "301 documents later"),
        ("exchange", "every book is the same"),
        ("ledger", "500 transfers later"),
        ("orderbook", "problems: none"),
        ("scheduler", "20 runs of 20 jobs, none twice"),
        ("transfers", "interleaved banks: 0 refused in circles, 3000 in all"),
    ],
)
def test_an_example_plays_on_the_domain_that_is_there(
    domain: Domain, tmp_path: Path, name: str, told: str
) -> None:
    """Its primary is killed in the middle; its group is gone afterwards."""
    domain.wait("every host hears every other", is_whole)
    done = played(name, "--dir", str(domain.directory), tmp_path=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "kill -9 of host" in done.stdout
    assert told in done.stdout
    assert done.stderr == ""
    assert asyncio.run(order_at(Layout(domain.directory), ListGroups())) == ()


def test_banks_keep_their_money_while_primaries_are_killed(domain: Domain, tmp_path: Path) -> None:
    """Transfers go in rings and both ways at once, with plain and interleaved banks."""
    domain.wait("every host hears every other", is_whole)
    options = ("--seconds", "12", "--chaos", "--dir", str(domain.directory))
    done = played("transfers", *options, tmp_path=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "kill -9 of host" in done.stdout
    assert done.stdout.count(", 3000 in all") == 2


def test_an_example_starts_a_domain_of_its_own_and_takes_it_along(tmp_path: Path) -> None:
    done = played("ledger", tmp_path=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1000 in all" in done.stdout.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []


def test_an_example_says_why_it_cannot_be_played(tmp_path: Path) -> None:
    done = played("ledger", "--dir", str(tmp_path), tmp_path=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith(f"ledger.py: {Layout(tmp_path).directory} holds no domain")
