"""A master that was away for longer than changes are kept for it."""

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest
from directory_masters import SUCCESS, SUFFIX, running, wait_until

LOG = 10
"""How many changes are kept for a replica that lacks them."""
SETTINGS = f"""
[directory]
statement = "500 ms"
tick = "200 ms"
log_updates = {LOG}
"""

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture(autouse=True)
def leaked_sockets() -> Iterator[None]:
    """What ldap3 leaves open is collected here, and not within a test of someone else."""
    yield
    gc.collect()


@pytest.mark.covers("CSN-57", "CSN-58")
def test_a_master_that_was_away_for_too_long_is_filled_by_one_command(tmp_path: Path) -> None:
    """As long as the changelog has what it lacks it is brought up to date from there. Then it lacks more than
    is kept: it is marked, told so when it is back, keeps taking writes, and loses nothing that it took; one
    command fills it anew. What only one master has is kept for the others however much it is."""
    with running(tmp_path / "d", "--masters", "3", "--suffix", SUFFIX, settings=SETTINGS) as masters:
        a, b, c = masters.ids
        for each in (a, c):
            masters.cut(each, b)
        with masters.connect(a) as connection:
            for number in range(LOG // 2):
                assert masters.add(connection, f"short-{number}") == SUCCESS
        for each in (a, c):
            masters.heal(each, b)
        masters.until_equal({f"short-{number}" for number in range(LOG // 2)})
        before = masters.status()[b]["replica"]["replica"]

        for each in (a, c):
            masters.cut(each, b)
        long = {f"long-{number}" for number in range(2 * LOG)}
        with masters.connect(a) as connection:
            for each in sorted(long):
                assert masters.add(connection, each) == SUCCESS
        with masters.connect(b) as connection:
            assert masters.add(connection, "while-away") == SUCCESS
        # By both: from one that has not trimmed yet it would get all that it lacks.
        wait_until("it is marked", lambda: all(before in masters.needing(each) for each in (a, c)))
        for each in (a, c):
            masters.heal(each, b)
        wait_until("it is told", lambda: "what was before" in masters.link(b, a).get("problem", ""))
        wait_until("the other has what it took", lambda: masters.has(a, {"while-away"}))
        assert not long <= masters.uids(b)
        with masters.connect(b) as connection:
            assert masters.add(connection, "told") == SUCCESS
        wait_until("the other has that too", lambda: masters.has(a, {"told"}))
        wait_until("people are told", lambda: masters.faults("NeedsInitialisation") != [])
        masters.run("initialise", b, "--yes")
        masters.until_equal({"while-away", "told", *long})
        assert masters.status()[b]["replica"]["replica"] != before
