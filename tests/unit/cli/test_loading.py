"""What the processes of a domain load as they start: every one starts often, and on a failover's way back."""

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
from pathlib import Path
from holdfast.machine import log_to_stderr

log_to_stderr("warning")
print("after structlog:", *(each for each in ("rich", "pygments") if each in sys.modules))
import holdfast.agent.agent, holdfast.cli.authority, holdfast.cli.process
import holdfast.node.host, holdfast.web.door
from holdfast.settings.file import read_applied
from holdfast.settings.sections import documented

read_applied(Path(sys.argv[1]), {})
print("after all:", *(each for each in ("cryptography", "httpx", "pygments") if each in sys.modules))
print("parsed for their docstrings:", documented.cache_info().misses)
import rich.traceback
"""


def test_no_process_of_a_domain_loads_what_only_people_or_others_need(tmp_path: Path) -> None:
    """Neither colours for tracebacks, nor an HTTP client for an etcd that is not there, nor the sources of
    the settings' descriptions; and what was left out can be loaded later."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.stdout.splitlines() == ["after structlog:", "after all:", "parsed for their docstrings: 0"]
    assert done.returncode == 0, done.stderr


WITHOUT_A_HOST = """
import sys
from pathlib import Path
import holdfast.agent.agent, holdfast.cli.main, holdfast.cli.process, holdfast.cli.authority
import holdfast.cli.domain, holdfast.cli.group.commands
from holdfast.settings.file import read_applied

read_applied(Path(sys.argv[1]), {})
of_hosts = ("client.domain", "execution.definition", "groups.ports", "node.gateway", "styles.ports")
print("loaded:", *(each for each in of_hosts if f"holdfast.{each}" in sys.modules))
"""


def test_what_hosts_nothing_loads_nothing_of_a_host(tmp_path: Path) -> None:
    """Agents, authorities and commands would take half as long again, or twice as long, to start with it."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_A_HOST, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.stdout.splitlines() == ["loaded:"], done.stderr
