"""What concerns every member of a host: told to a few at a time, and the host goes on with its work between.

A host has thousands of members. Told to all of them in one go, the death of another host would keep this one
for seconds from everything else: heartbeats, calls, the election of a coordinator.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Final

from holdfast.housing.housed import Housed
from holdfast.model.ids import GroupId, HostId

AT_ONCE: Final = 128

Soon = Callable[[Callable[[], None]], None]
Tell = Callable[[Housed], None]


class Tidings:
    """To the members of one host."""

    def __init__(self, housed: Mapping[GroupId, Housed], soon: Soon) -> None:
        self._housed = housed
        self._soon = soon

    def tell(self, about: HostId, tell: Tell) -> None:
        """First those whose primary is on that host: nobody serves them. Who has left meanwhile is told
        nothing; who comes meanwhile must learn it otherwise."""
        members = list(self._housed.values())
        served = [each for each in members if each.view is None or each.view.primary != about]
        unserved = [each for each in members if each.view is not None and each.view.primary == about]
        self._tell_some(iter((*unserved, *served)), tell)

    def _tell_some(self, members: Iterator[Housed], tell: Tell) -> None:
        some = list(islice(members, AT_ONCE))
        for housed in some:
            if self._housed.get(housed.group) is housed:
                tell(housed)
        if len(some) == AT_ONCE:
            self._soon(lambda: self._tell_some(members, tell))
