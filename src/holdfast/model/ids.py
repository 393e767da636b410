"""Ids and positions, each a type of its own so that one cannot be passed for another.

Time is counted in integer nanoseconds; these name the larger units.
"""

from typing import Final, NewType

HostId = NewType("HostId", str)
"""A host's name in its domain. Hosts are known by id, never by address."""

AgentId = NewType("AgentId", str)
"""The supervisor of one machine."""

GroupId = NewType("GroupId", int)
"""Number of a group, issued once by the authority and never reused (V6)."""

StoreId = NewType("StoreId", str)
"""Identity of one store on one disk; a wiped or copied disk gets a new one (V5)."""

Opening = NewType("Opening", int)
"""How often a store has been opened; raised at the authority before it is used (V5)."""

Incarnation = NewType("Incarnation", int)
"""Number of one process of a host, issued by the authority; no two processes share one (V2)."""

Epoch = NewType("Epoch", int)
"""Number of a group's view. Receivers refuse older ones."""

Term = NewType("Term", int)
"""Number of a coordinator's election."""

Position = NewType("Position", int)
"""Number of an operation in a group's sequence; the first is 1."""

ClientId = NewType("ClientId", str)
"""One connection of one process to a domain; with a number, the id of a request."""

Revision = NewType("Revision", int)
"""The authority's own counter: one more for every change it applies."""

LeaseId = NewType("LeaseId", int)
"""A lease at the authority; 0 stands for none."""

Nonce = NewType("Nonce", str)
"""A writer's mark on its change, by which it recognises that change later (A1)."""

ReplicaId = NewType("ReplicaId", int)
"""The 16-bit number of a master in CSNs."""


MICROSECOND: Final = 1_000
MILLISECOND: Final = 1_000_000
SECOND: Final = 1_000_000_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
