"""Which ports the processes of a machine listen on, if they are to be fixed (`holdfast up --port-base N`).

==================  ==========================================
N                   the agent
N + 1               the embedded authority
N + 10 + 10 * slot  a host: hosts, clients and people call here
one more            the host's heartbeats
two more            the host's HTTP
three more          files between hosts
four more           replication between masters of a directory
five more           LDAP
six more            LDAPS
seven more          streams, by TCP and UDP
==================  ==========================================

Each host has a slot, which stays its own for as long as the machine has the host: firewalls and service
files name these ports. Without a base, processes take free ports and remember them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from holdfast.model.ids import HostId

AGENT: Final = 0
AUTHORITY: Final = 1
FIRST_HOST: Final = 10
PER_HOST: Final = 10
"""More than a host listens on today, so that a later door needs no other table."""
PORT_MAX: Final = 65_535
BASE_MIN: Final = 1_024
"""The ports below are for processes with special rights."""


@dataclass(frozen=True, slots=True)
class HostPorts:
    """The ports of one host; 0 stands for any that is free."""

    native: int = 0
    heartbeats: int = 0
    http: int = 0
    shipping: int = 0
    directory: int = 0
    ldap: int = 0
    ldaps: int = 0
    streams: int = 0


ANY: Final = HostPorts()


def host_ports(base: int, slot: int) -> HostPorts:
    first = base + FIRST_HOST + PER_HOST * slot
    return HostPorts(*range(first, first + 8))


def slots(known: Mapping[HostId, int], hosts: Iterable[HostId]) -> dict[HostId, int]:
    """A slot for each of *hosts*: the one that it has, or the lowest that nobody has."""
    wanted = list(hosts)
    found = {host: known[host] for host in wanted if host in known}
    for host in wanted:
        if host not in found:
            taken = set(found.values())
            found[host] = next(slot for slot in range(len(wanted)) if slot not in taken)
    return found


def why_not(base: int, slots_max: int) -> str:
    """Why *base* cannot be the base of a machine with so many hosts; empty if it can."""
    highest = PORT_MAX - FIRST_HOST - PER_HOST * slots_max
    if base and not BASE_MIN <= base <= highest:
        return f"ports cannot begin at {base}: {BASE_MIN} to {highest} leave room for all hosts"
    return ""
