"""Several masters in real processes: write at any, cut them, kill them; all end with the same entries."""

import gc
import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from directory_masters import (
    SUCCESS,
    SUFFIX,
    Masters,
    Writer,
    assert_no_csn_twice,
    running,
    wait_until,
)

from holdfast.model.errors import HoldfastError

REFERRAL = 10

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    # ldap3 does not close every socket that it has opened.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture(autouse=True)
def leaked_sockets() -> Iterator[None]:
    """What ldap3 leaves open is collected here, and not within a test of someone else."""
    yield
    gc.collect()


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Masters]:
    """Two masters for all tests of this file that break nothing for the next."""
    directory = tmp_path_factory.mktemp("pair") / "d"
    with running(directory, "--masters", "2", "--suffix", SUFFIX) as masters:
        yield masters


def test_the_line_of_a_start_is_what_scripts_read(pair: Masters) -> None:
    """One JSON object on the first line, in exactly this form; its password works at every master, and the
    masters are hosts of an ordinary domain."""
    assert list(pair.line) == ["masters", "admin_dn", "admin_password"]
    assert [list(each) for each in pair.line["masters"]] == [["id", "ldap", "pid"]] * 2
    for each in pair.line["masters"]:
        assert each["ldap"].startswith("127.0.0.1:")
        os.kill(each["pid"], 0)
        with pair.connect(each["id"]) as connection:
            assert connection.extend.standard.who_am_i() == f"dn:{pair.line['admin_dn']}"
    assert pair.directory.stat().st_mode & 0o077 == 0
    assert (pair.directory / "directory-admin.json").stat().st_mode & 0o077 == 0


def test_write_at_both_and_cut_and_heal(pair: Masters) -> None:
    """Replication stops when `cut` returns and resumes with `heal`; both masters take writes meanwhile."""
    a, b = pair.ids
    with pair.connect(a) as at_a, pair.connect(b) as at_b:
        assert pair.add(at_a, "first-a") == pair.add(at_b, "first-b") == SUCCESS
        pair.until_equal({"first-a", "first-b"})
        pair.run("cut", a, b)
        assert pair.add(at_a, "cut-a") == pair.add(at_b, "cut-b") == SUCCESS
        link = pair.status()[a]["replica"]["links"][0]
        assert (link["peer"], link["state"]) == (b, "cut")
        time.sleep(1)
        assert {"first-b", "cut-a"} <= pair.uids(a)
        assert "cut-b" not in pair.uids(a)
        assert {"first-a", "cut-b"} <= pair.uids(b)
        assert "cut-a" not in pair.uids(b)
        # A cut outlives the process: it is the domain's, not the process's.
        pair.kill(b)
        wait_until("the killed master serves", lambda: pair.has(b, {"cut-b"}))
        assert "cut-a" not in pair.uids(b)
        pair.run("heal", a, b)
        pair.until_equal({"first-a", "first-b", "cut-a", "cut-b"})
    found = pair.status()
    assert found[a]["replica"]["links"][0]["lag_p50_ms"] is not None
    shown = json.loads(pair.run("status", "--output", "json").stdout)
    assert [(each["master"], each["ldap"]) for each in shown] == [
        (each, pair.address(each)) for each in (a, b)
    ]
    table = pair.run("status").stdout
    assert a in table
    assert b in table
    assert "lag ms" in table
    rows = json.loads(pair.run("lag", "--output", "json").stdout)
    assert {(each["from"], each["to"]) for each in rows} == {(a, b), (b, a)}
    vectors = json.loads(pair.run("ruv", "--output", "json").stdout)
    assert {each["master"] for each in vectors} == {a, b}


def test_masters_killed_under_load_lose_nothing(tmp_path: Path, rounds: Callable[..., int]) -> None:
    """kill -9 again and again while clients write at both: all ends equal, every acknowledged change is
    there, and no CSN names two changes (by all logs, and what is left of both changelogs)."""
    with running(tmp_path / "d", "--masters", "2", "--suffix", SUFFIX) as masters:
        writers = [Writer(masters, each) for each in masters.ids]
        for each in writers:
            each.start()
        for turn in range(rounds(short=3, long=40)):
            writers[turn % 2].wait_for(5)
            masters.kill(masters.ids[turn % 2])
        for each in writers:
            each.wait_for(5)
        acknowledged = set[str]().union(*(each.stop() for each in writers))
        masters.until_equal(acknowledged)
    issued = masters.issued()
    assert len(issued) >= len(acknowledged) > 20
    assert len({csn for csn, _ in issued}) == len(issued)
    assert_no_csn_twice(*(masters.changes(each) for each in masters.ids))


def test_a_start_goes_on_with_what_is_there(tmp_path: Path) -> None:
    """Started again it has the same doors, the same password and all entries; another suffix is refused."""
    directory = tmp_path / "d"
    with running(directory, "--masters", "2", "--suffix", SUFFIX) as masters:
        before = masters.line
        with masters.connect(masters.ids[0]) as connection:
            masters.add(connection, "ada")
        masters.until_equal({"ada"})
    for each in before["masters"]:  # the command has ended, and with it all processes
        with pytest.raises(ProcessLookupError):
            os.kill(each["pid"], signal.SIGCONT)
    with running(directory) as masters:
        assert [each["ldap"] for each in masters.line["masters"]] == [
            each["ldap"] for each in before["masters"]
        ]
        assert masters.line["admin_password"] == before["admin_password"]
        masters.until_equal({"ada"})
    refused = Masters(directory, "--suffix", "dc=other")
    with pytest.raises(AssertionError, match="holds the directory dc=example,dc=com, not dc=other"):
        refused.start()


def test_a_store_put_back_is_noticed(tmp_path: Path) -> None:
    """Yesterday's copy of one master's files: it gets a new replica id, and takes from the others what it
    forgot. Nothing is lost, and no CSN names two changes."""
    directory = tmp_path / "d"
    with running(directory, "--masters", "2", "--suffix", SUFFIX) as masters:
        a, b = masters.ids
        with masters.connect(b) as connection:
            masters.add(connection, "old")
        masters.until_equal({"old"})
        old_id = masters.status()[b]["replica"]["replica"]
    files = directory / "hosts" / b / "services" / "directory"
    shutil.copytree(files, tmp_path / "yesterday")
    with running(directory) as masters:
        with masters.connect(b) as connection:
            for number in range(20):
                masters.add(connection, f"new-{number}")
        wanted = {"old", *(f"new-{number}" for number in range(20))}
        masters.until_equal(wanted)
    kept = masters.changes(b)
    shutil.rmtree(files)
    shutil.copytree(tmp_path / "yesterday", files)
    with running(directory) as masters:
        masters.until_equal(wanted)
        assert masters.status()[b]["replica"]["replica"] != old_id
        with masters.connect(b) as connection:
            assert masters.add(connection, "after") == SUCCESS
        masters.until_equal({*wanted, "after"})
    assert_no_csn_twice(kept, masters.changes(a), masters.changes(b))


def test_a_store_put_back_within_one_opening_is_told_by_its_peers(tmp_path: Path) -> None:
    """The copy has the right opening number, so only its peers know that it has forgotten something (G3): it
    issues nothing under its old id, takes a new one, and gets back what it forgot."""
    directory = tmp_path / "d"
    with running(directory, "--masters", "2", "--suffix", SUFFIX) as masters:
        a, b = masters.ids
        files = masters.files(b)
        with masters.connect(b) as connection:
            assert masters.add(connection, "old") == SUCCESS
            masters.until_equal({"old"})
            found = masters.status()[b]
            with masters.paused(found["pid"]):
                shutil.copytree(files, tmp_path / "copy")
            for number in range(20):
                assert masters.add(connection, f"new-{number}") == SUCCESS
        wanted = {"old", *(f"new-{number}" for number in range(20))}
        masters.until_equal(wanted)
        before = masters.changes(a)
        with masters.replacing_files(b, found["pid"], tmp_path / "copy"):
            pass

        def has_new_id() -> bool:
            try:
                info = masters.status()[b]["replica"]
            except (HoldfastError, KeyError):
                return False
            return info is not None and info["may_write"] and info["replica"] != found["replica"]["replica"]

        wait_until("it has a new replica id", has_new_id)
        with masters.connect(b) as connection:
            assert masters.add(connection, "after") == SUCCESS
        masters.until_equal({*wanted, "after"})
    issued = masters.issued()
    assert len({csn for csn, _ in issued}) == len(issued)
    assert_no_csn_twice(before, masters.changes(a), masters.changes(b))


def test_a_read_only_replica_refers_writers(tmp_path: Path) -> None:
    """It was filled with a master's file, has all entries, and names the masters to whoever wants
    to change one."""
    with running(
        tmp_path / "d", "--masters", "1", "--consumers", "1", "--suffix", SUFFIX, "--sample"
    ) as masters:
        (master,), (consumer,) = masters.ids, [each["id"] for each in masters.line["consumers"]]
        masters.until_equal({"ada", "alan", "barbara", "leslie", "nancy"})
        assert masters.shipped(master) > 0  # it was filled with the file of the master's store
        with masters.connect(consumer) as connection:
            assert masters.add(connection, "grace") == REFERRAL
            assert connection.result["referrals"] == [f"ldap://{masters.address(master)}"]
        with masters.connect(master) as connection:
            assert masters.add(connection, "grace") == SUCCESS
        masters.until_equal({"grace"})


def test_four_masters_one_of_them_joined_retired_and_filled_anew(tmp_path: Path) -> None:
    """The source's figure: four masters. Changes go round when only a chain is left; one joins while others
    write, one is filled anew by one command, and one is retired without loss and comes back."""
    with running(tmp_path / "d", "--masters", "3", "--suffix", SUFFIX) as masters:
        a, b, c = masters.ids
        writer = Writer(masters, a)
        writer.start()
        writer.wait_for(5)
        masters.run("join", "host4")
        found = masters.status()
        assert found["host4"]["replica"]["state"] == "serving"
        masters.line["masters"].append(
            {"id": "host4", "ldap": found["host4"]["ldap"], "pid": found["host4"]["pid"]}
        )
        # A chain: a - b - c - host4.
        for one, other in ((a, c), (a, "host4"), (b, "host4")):
            masters.run("cut", one, other)
        with masters.connect("host4") as connection:
            assert masters.add(connection, "far-end") == SUCCESS
        masters.until_equal({"far-end", *writer.stop()})
        old_id = found[c]["replica"]["replica"]
        masters.run("initialise", c, "--from", b, "--yes")
        assert masters.status()[c]["replica"]["replica"] != old_id
        masters.until_equal({"far-end", *writer.acknowledged})
        for one, other in ((a, c), (a, "host4"), (b, "host4")):
            masters.run("heal", one, other)
        with masters.connect("host4") as connection:
            assert masters.add(connection, "last-word") == SUCCESS
        assert "nothing is lost" in masters.run("retire", "host4").stderr
        gone = masters.line["masters"].pop()
        masters.until_equal({"last-word", "far-end", *writer.acknowledged})
        # It comes back with what it had, and is a master like the others.
        masters.run("join", "host4")
        masters.line["masters"].append(gone)
        wait_until("it takes writes", lambda: masters.status()["host4"]["replica"]["may_write"])
        with masters.connect("host4") as connection:
            assert masters.add(connection, "back-again") == SUCCESS
        masters.until_equal({"back-again", "last-word", "far-end", *writer.acknowledged})


def test_a_clock_reset_says_what_it_did(pair: Masters) -> None:
    a, b = pair.ids
    with pair.connect(a) as connection:
        pair.add(connection, "before")
    said = pair.run("clock", "reset").stderr
    assert f"{a}: " in said
    assert f"{b}: " in said
    assert "all CSNs from here on are greater than" in said
    with pair.connect(b) as connection:
        assert pair.add(connection, "after") == SUCCESS
    pair.until_equal({"before", "after"})


def test_bad_orders_are_refused_in_one_line(pair: Masters) -> None:
    """Nothing changes, and the error says what would be right."""
    for words, said in (
        (("cut", "host1", "nobody"), "there is no master 'nobody'; there are: host1 ("),
        (("cut", "host1", "host1"), "a link is between two hosts"),
        (("initialise", "host1", "--from", "host1", "--yes"), "host1 is no peer; these are: host2"),
        (("retire", "host2", "--force", "--yes", "--bogus"), "bogus"),
    ):
        assert said in pair.run(*words, ok=(2,)).stderr
