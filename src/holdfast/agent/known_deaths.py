"""The deaths that an agent has proved, for hosts that hear of them later (K2, K7)."""

from collections import deque
from collections.abc import Iterator
from typing import Final

import msgspec

from holdfast.model.ports import Clock
from holdfast.node.messages import HostDied

DEATHS_KEPT: Final = 256
"""Deaths repeated to a host that subscribes late: more than can happen between two of its connections."""


class KnownDeaths:
    """The newest deaths, each repeated with its age: who hears of an old one must not take it for new."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._deaths: deque[tuple[int, HostDied]] = deque(maxlen=DEATHS_KEPT)

    def add(self, died: HostDied) -> None:
        """Keep a death; one that is now told in full replaces its first word."""
        if (
            self._deaths
            and self._deaths[-1][1].will_be_quoted
            and _is_of_one_process(self._deaths[-1][1], died)
        ):
            self._deaths[-1] = (self._deaths[-1][0], died)
            return
        self._deaths.append((self._clock.now(), died))

    def repeated(self) -> Iterator[HostDied]:
        """Each death, oldest first, with how long ago it was added."""
        now = self._clock.now()
        for at, died in self._deaths:
            yield msgspec.structs.replace(died, age_ns=now - at)


def _is_of_one_process(one: HostDied, other: HostDied) -> bool:
    return (one.host, one.incarnation) == (other.host, other.incarnation)
