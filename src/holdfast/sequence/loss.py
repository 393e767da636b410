"""Whether a group's state is gone with the processes that held it (V4)."""

from holdfast.model.ids import Epoch
from holdfast.sequence.beats import NOBODY
from holdfast.sequence.footing import Footing
from holdfast.sequence.ports import Me
from holdfast.sequence.standing import is_volatile


class Loss:
    """What this member knows of it."""

    def __init__(self, on: Footing) -> None:
        self._on = on
        self._said_in = Epoch(0)

    @property
    def is_total(self) -> bool:
        """Whether every listed process of a group in memory is known to be gone, and the state with them: it
        is unavailable until a forced recovery."""
        listed = self._on.standing.listed
        return bool(listed) and all(is_volatile(each.store) and self._is_gone(each) for each in listed)

    def say_once(self) -> None:
        """Tell of a total loss, once for each view."""
        epoch = self._on.standing.epoch
        if self._said_in != epoch and self.is_total:
            self._said_in = epoch
            self._on.note("lost", epoch=epoch)
            self._on.ports.on_lost(self._on.group)

    def _is_gone(self, member: Me) -> bool:
        """A later process of a host begins only when the earlier one is gone (V2, K2)."""
        on = self._on
        if member.host == on.me.host:
            return member.incarnation < on.me.incarnation
        latest = on.ports.leases.latest_beat(member.host)[0]
        return latest > member.incarnation or on.dead.get(member.host, NOBODY) >= member.incarnation
