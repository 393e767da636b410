"""The wheel as people install it: outside the repository, beside other packages, as host and as client."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from means import ROOT

pytestmark = pytest.mark.cluster

LIMIT_S = 300
"""Only to end a hang: packages may have to be fetched."""
TALLY = """
class Tally:
    def __init__(self) -> None:
        self.count = 0

    def add(self, amount: int) -> int:
        self.count += amount
        return self.count
"""
CLIENT = """
import sys
import holdfast as hf
with hf.connect_sync(sys.argv[1]) as domain:
    print(domain.group("tally").add(10))
print(sorted({name.partition(".")[0] for name in sys.modules} & {"structlog", "uvloop", "httpx", "cyclopts"}))
print([name for name in sys.modules if name.startswith("holdfast.sim")])
"""


class Environment:
    """An empty virtual environment in *directory*, in which *packages* are installed."""

    def __init__(self, directory: Path, *packages: str) -> None:
        self.directory = directory
        run(sys.executable, "-m", "venv", "--without-pip", str(directory))
        # The pip of the tests installs there: an own one takes longer to make than all else.
        own = (sys.executable, "-m", "pip", "--python", str(directory / "bin" / "python"))
        run(*own, "install", "--quiet", "--no-compile", "--no-warn-script-location", *packages)

    def run(self, program: str, *words: str, code: int = 0) -> "subprocess.CompletedProcess[str]":
        return run(str(self.directory / "bin" / program), *words, cwd=self.directory, code=code)


def run(*words: str, cwd: Path = ROOT, code: int = 0) -> "subprocess.CompletedProcess[str]":
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "HOLDFAST"))}
    done = subprocess.run(
        words, cwd=cwd, env=clean, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert done.returncode == code, f"{words}: {done.returncode}, {done.stdout}{done.stderr}"
    return done


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    dist = tmp_path_factory.mktemp("dist")
    run("make", "dist", f"DIST={dist}")
    (made,) = dist.glob("holdfast-*.whl")
    return made


@pytest.fixture
def host(wheel: Path, tmp_path: Path) -> Iterator[Environment]:
    made = Environment(tmp_path / "host", f"holdfast[host] @ {wheel.as_uri()}", "httpx<0.28")
    yield made
    made.run("holdfast", "down")


def test_a_wheel_in_an_empty_environment_is_all_that_is_needed(
    wheel: Path, host: Environment, tmp_path: Path
) -> None:
    """A domain is started, a class of the user's own is called, its primary killed, the value read back; and
    `holdfast` alone, without the extra, is a client of it."""
    (host.directory / "tally.py").write_text(TALLY)
    host.run("holdfast", "up", "--detach", "--app", ".", "--group", "tally=tally:Tally")
    assert host.run("holdfast", "call", "tally", "add", "5").stdout == "5\n"
    host.run("holdfast", "chaos", "kill-primary", "tally")
    assert host.run("holdfast", "call", "tally", "add", "0").stdout == "5\n"
    status = msgspec.json.decode(host.run("holdfast", "status", "--output", "json").stdout)
    for each in status["hosts"]:  # none runs the code of the repository
        command = Path(f"/proc/{each['pid']}/cmdline").read_text().split("\0")
        assert command[0] == str(host.directory / "bin" / "python")
    client = Environment(tmp_path / "client", wheel.as_uri())
    key = host.run("holdfast", "key", "slim").stdout.strip()
    url = status["url"].replace("holdfast://", f"holdfast://{key}@")
    assert client.run("python", "-c", CLIENT, url).stdout.splitlines() == ["15", "[]", "[]"]
    said = client.run("holdfast", "status", code=1).stderr
    assert said == (
        "holdfast: this needs holdfast[host], of which cyclopts is missing: pip install 'holdfast[host]'\n"
    )
