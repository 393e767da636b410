"""How many files a host's process must be able to open: what its bounds admit, all at once.

A process that runs out of files cannot accept a host that wants to be heard, or open a log file, at a moment
that somebody else chooses. So the limit is raised to what the bounds may need before the host begins, or the
host does not begin.
"""

from collections.abc import Iterable
from typing import Final

from holdfast.machine.process_tuning import allow_open_files
from holdfast.machine.workers import WorkerLimits
from holdfast.model.errors import InvalidRequest
from holdfast.model.host_roles import DEFAULT_ROLES
from holdfast.net import Limits
from holdfast.node.door_table import DOORS, DoorEntry
from holdfast.node.layout import HOSTS_MAX
from holdfast.node.services.running import ServiceEntry
from holdfast.node.services.service_table import SERVICES
from holdfast.storage.volume import OPEN_FILES_MAX

OWN_FILES: Final = 256
"""What a host has open besides: modules being imported, its lock, files being freed, the event loop."""
LINKS_PER_HOST: Final = 4
"""Connections that a host itself makes to each other host: members, heartbeats, calls, files."""
FILES_PER_WORKER: Final = 4
DISK_FILES: Final = 2 * OPEN_FILES_MAX
"""A disk keeps so many files open, to write and to read."""


def files_needed(
    limits: Limits,
    workers: WorkerLimits,
    doors: Iterable[DoorEntry] = DOORS,
    services: Iterable[ServiceEntry] = SERVICES,
    *,
    roles: Iterable[str] = DEFAULT_ROLES,
) -> int:
    """The most files and connections of a host of these roles at a time."""
    served = limits.connections_max + limits.members_max + limits.handshakes_max
    heartbeats = limits.members_max + limits.handshakes_max
    made = LINKS_PER_HOST * HOSTS_MAX + FILES_PER_WORKER * workers.workers_max
    present = (None, *roles)
    entered = sum(each.files_max for each in doors if each.role in present)
    entered += sum(each.files_max for each in services if each.role in present)
    return served + heartbeats + made + entered + DISK_FILES + OWN_FILES


def require_open_files(limits: Limits, roles: Iterable[str] = DEFAULT_ROLES) -> int:
    """Let this process open as many files as a host may need, and return how many it may. Raises
    ``InvalidRequest`` where the system does not allow it."""
    needed = files_needed(limits, WorkerLimits(), roles=roles)
    allowed = allow_open_files(needed)
    if allowed < needed:
        raise InvalidRequest(
            f"a host may need {needed} open files at once, and this system allows it {allowed}: raise the "
            "hard limit (`ulimit -Hn`, `LimitNOFILE=` of a systemd unit, `--ulimit nofile=` of a container)"
        )
    return allowed
