"""Masters whose clocks are set while clients write: within the limit others follow, beyond it they refuse."""

import gc
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from directory_masters import SUCCESS, SUFFIX, Masters, Writer, assert_no_csn_twice, running, wait_until

from means import missing

LIMIT_S = 3600
SHIM = Path(__file__).with_name("clock_shim.c")

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


class Clocks:
    """The wall clocks of hosts, each to be set on its own while its process runs."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory / "clocks"
        self._directory.mkdir()
        for host in ("host1", "host2"):
            self.set(host, 0)
        library = directory / "clock_shim.so"
        compiler = shutil.which("cc")
        if compiler is None:
            missing("C compiler")
        command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(SHIM), "-ldl"]
        subprocess.run(command, check=True, timeout=120)
        self.environment = {"LD_PRELOAD": str(library), "CLOCK_SHIM": str(self._directory)}

    def set(self, host: str, ahead_s: int) -> None:
        """Set a host's clock to so many seconds after the machine's."""
        fresh = self._directory / f"{host}.new"
        fresh.write_text(str(ahead_s))
        fresh.rename(self._directory / host)


def wait_for_clock(masters: Masters, host: str, ahead_s: int, than: str) -> None:
    """Wait until that host's generator has seen its clock so far ahead of the other's."""

    def system_s(each: str) -> float:
        found = masters.status()[each]["replica"]["csnstate"]
        return float(dict(part.split("=") for part in found.split())["system"])

    wait_until("the clock is set", lambda: abs(system_s(host) - system_s(than) - ahead_s) < 100)


def is_told(masters: Masters, host: str) -> bool:
    """Whether the notifier has heard that this host's CSNs are too far ahead."""
    return any(
        each["data"]["HostId"] == host and "csn_max_skew" in (each["why"] or "")
        for each in masters.faults("ClockSkew")
    )


@pytest.mark.covers("CSN-33", "CSN-34")
def test_clocks_that_are_set(tmp_path: Path, rounds: Callable[..., int]) -> None:
    """Half an hour forth at one master and back at the other, under load and with kill -9: they converge.
    Then past the limit: the peer is refused, which is told to people, and both take writes. The limit is for
    all moves in sum: one of two hours in two steps is refused as well. `clock reset`, which is logged, heals.
    Nothing acknowledged is lost, and no CSN is given twice."""
    clocks = Clocks(tmp_path)
    options = ("--masters", "2", "--suffix", SUFFIX)
    with running(tmp_path / "d", *options, environment=clocks.environment) as masters:
        a, b = masters.ids
        writers = [Writer(masters, each) for each in (a, b)]
        for each in writers:
            each.start()
            each.wait_for(3)
        clocks.set(b, 1800)
        clocks.set(a, -1800)
        for each in writers:
            each.wait_for(5)
        masters.kill(b)
        for each in writers:
            each.wait_for(5)
        acknowledged = set[str]().union(*(each.stop() for each in writers))
        masters.until_equal(acknowledged)
        with masters.connect(a) as connection:
            assert masters.add(connection, "within") == SUCCESS
        masters.until_equal({"within"})

        for turn in range(rounds(short=1, long=5)):
            ahead_s = 1800 + (turn + 1) * 2 * LIMIT_S
            # In steps that are each within the limit.
            for step_s in (ahead_s - LIMIT_S - 1200, ahead_s):
                clocks.set(b, step_s)
                wait_for_clock(masters, b, step_s + 1800, a)
                with masters.connect(b) as connection:
                    assert masters.add(connection, f"ahead-{turn}-{step_s}") == SUCCESS
                acknowledged.add(f"ahead-{turn}-{step_s}")
            wait_until("it is refused", lambda: "skew" in masters.link(a, b).get("problem", ""))
            problem = masters.link(a, b)["problem"]
            assert f"peer {b} is " in problem
            assert f"csn_max_skew, {LIMIT_S} s" in problem
            with masters.connect(a) as connection:
                assert masters.add(connection, f"alone-{turn}") == SUCCESS
            acknowledged.add(f"alone-{turn}")
            assert f"alone-{turn}" not in masters.uids(b)
            assert f"ahead-{turn}-{ahead_s}" not in masters.uids(a)
            said = masters.run("clock", "reset").stderr
            assert "are its own now" in said
            masters.until_equal(acknowledged)
        wait_until("people are told", lambda: is_told(masters, b))
    issued = masters.issued()
    assert len({csn for csn, _ in issued}) == len(issued) >= len(acknowledged)
    assert_no_csn_twice(*(masters.changes(each) for each in masters.ids))
    log = "".join(each.read_text() for each in (tmp_path / "d" / "output").glob("host1.log*"))
    assert "clock reset" in log
