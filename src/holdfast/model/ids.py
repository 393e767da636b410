"""Types for ids and positions, one for each so that they cannot be confused, and units of time.

Time is counted in integer nanoseconds.
"""

from typing import Final, NewType

HostId = NewType("HostId", str)
"""A host's name in its domain. Hosts are known by id, never by address."""

AgentId = NewType("AgentId", str)
"""The name of the supervisor of one machine."""

GroupId = NewType("GroupId", int)
"""The number of a group, issued once by the authority and never reused (V6)."""

StoreId = NewType("StoreId", str)
"""The identity of one store on one disk; a wiped or copied disk gets a new one (V5)."""

Opening = NewType("Opening", int)
"""How often a store has been opened; increased at the authority before the store is used (V5)."""

Incarnation = NewType("Incarnation", int)
"""The number of one process of a host, issued by the authority; no two processes share one (V2)."""

Epoch = NewType("Epoch", int)
"""The number of a group's view. Receivers refuse older ones."""

Term = NewType("Term", int)
"""The number of a coordinator's election."""

Position = NewType("Position", int)
"""The number of an operation in a group's sequence; the first is 1."""

ClientId = NewType("ClientId", str)
"""Identifies one connection of one process to a domain; with a number, it identifies a request."""

Revision = NewType("Revision", int)
"""The authority's counter, which grows by one with every change that it applies."""

LeaseId = NewType("LeaseId", int)
"""The number of a lease at the authority; 0 means none."""

Nonce = NewType("Nonce", str)
"""A writer's mark on its change, by which it recognises that change later (A1)."""

ReplicaId = NewType("ReplicaId", int)
"""The 16-bit number of a master in CSNs."""


MICROSECOND: Final = 1_000
MILLISECOND: Final = 1_000_000
SECOND: Final = 1_000_000_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
