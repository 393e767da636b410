"""Hosts from which this one takes nothing, because an admin said so: a cut to try things with.

On one machine there is no link to cut; so the receiver drops what comes, heartbeats and members' messages
alike, and neither side can tell the difference. It ends with the process.
"""

from collections.abc import Iterable

from holdfast.model.ids import HostId


class PartitionFilter:
    """To whom a host is deaf. Read by the host's loop and by its heart's thread, written by the first."""

    def __init__(self) -> None:
        self._to: tuple[HostId, ...] = ()

    @property
    def to(self) -> tuple[HostId, ...]:
        return self._to

    def begin(self, hosts: Iterable[HostId]) -> None:
        self._to = tuple(sorted({*self._to, *hosts}))

    def end(self, hosts: Iterable[HostId]) -> None:
        self._to = tuple(each for each in self._to if each not in hosts)
