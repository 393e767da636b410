"""Hosts from which this host accepts nothing, because an admin said so: a simulated network partition.

On one machine there is no link to cut, so the receiver drops what arrives, heartbeats and members' messages
alike, and neither side can tell the difference. It ends with the process.
"""

from collections.abc import Iterable

from holdfast.model.ids import HostId


class PartitionFilter:
    """The hosts whose messages this host drops. Its loop and heartbeat thread read it; only the loop
    writes.
    """

    def __init__(self) -> None:
        self._to: tuple[HostId, ...] = ()

    @property
    def to(self) -> tuple[HostId, ...]:
        return self._to

    def begin(self, hosts: Iterable[HostId]) -> None:
        self._to = tuple(sorted({*self._to, *hosts}))

    def end(self, hosts: Iterable[HostId]) -> None:
        self._to = tuple(each for each in self._to if each not in hosts)
