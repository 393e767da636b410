"""A host's process may open as many files as its bounds admit, or it does not begin."""

import resource
import subprocess
import sys

import pytest

from holdfast.ldap.door import CLIENTS_MAX
from holdfast.machine.process_tuning import OPEN_FILES
from holdfast.machine.workers import WorkerLimits
from holdfast.model.host_roles import DIRECTORY, GROUPS
from holdfast.net import Limits
from holdfast.node.door_table import DOORS
from holdfast.node.open_files import files_needed
from holdfast.node.services.service_table import SERVICES
from holdfast.web.settings import CONNECTIONS_MAX, STREAMS_MAX

NEEDED = files_needed(Limits(), WorkerLimits())


def test_every_bound_counts() -> None:
    more = Limits(connections_max=2024)
    assert files_needed(more, WorkerLimits()) == NEEDED + 1000
    assert files_needed(Limits(), WorkerLimits(workers_max=12)) > NEEDED
    without = files_needed(Limits(), WorkerLimits(), doors=(), services=())
    entered = [(each.role, each.files_max) for each in DOORS]
    entered += [(each.role, each.files_max) for each in SERVICES]
    assert without + sum(files for role, files in entered if role is None) == NEEDED
    # A directory's clients count where there is a directory, and nowhere else.
    both = files_needed(Limits(), WorkerLimits(), roles=(GROUPS, DIRECTORY))
    assert both == NEEDED + sum(files for role, files in entered if role == DIRECTORY)
    assert NEEDED < both <= OPEN_FILES


def test_the_doors_are_entered_with_their_own_bounds() -> None:
    (ldap,) = (each for each in DOORS if each.name == "ldap")
    assert ldap.files_max == CLIENTS_MAX
    (http,) = (each for each in DOORS if each.name == "http")
    assert http.files_max == CONNECTIONS_MAX + STREAMS_MAX


PROGRAM = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (256, int(sys.argv[1])))
from holdfast.model.errors import InvalidRequest
from holdfast.net import Limits
from holdfast.node.open_files import require_open_files
try:
    print(require_open_files(Limits()), *resource.getrlimit(resource.RLIMIT_NOFILE))
except InvalidRequest as error:
    print("refused", error)
"""


def said_with(hard: int) -> str:
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(hard)], capture_output=True, text=True, check=True
    )
    return ran.stdout.strip()


@pytest.mark.skipif(
    0 <= resource.getrlimit(resource.RLIMIT_NOFILE)[1] < NEEDED, reason="this machine allows too few files"
)
def test_the_limit_is_raised_to_what_is_needed() -> None:
    assert said_with(NEEDED) == f"{NEEDED} {NEEDED} {NEEDED}"


def test_a_host_that_may_open_too_few_is_refused() -> None:
    said = said_with(1000)
    assert said.startswith(
        f"refused a host may need {NEEDED} open files at once, and this system allows it 1000"
    )
    assert "LimitNOFILE=" in said
