"""Chooses where to send requests: to the primary while it serves, else to every other address in turn
(FTC-69, FTC-71).

:class:`KnownHosts` has the addresses of a domain's hosts, as its callers are told.
"""

from collections.abc import Iterable

from holdfast.model.calls import HOSTS_MAX, HostAt
from holdfast.model.ids import HostId
from holdfast.model.reference import Reference


class Targets:
    """The addresses of one group, as one client sees them.

    A round tries every connected host once: the members of the reference, its primary first, then all other
    connected hosts, because any host of the domain may know a newer reference.
    """

    def __init__(self, reference: Reference) -> None:
        self.reference = reference
        self._connected: dict[HostId, None] = {}
        self.failed: dict[HostId, None] = {}
        """The hosts that could not serve in this round."""

    def is_news(self, reference: Reference) -> bool:
        """Whether this is a newer reference of this group. No other may be used (FTC-78)."""
        return reference.group == self.reference.group and reference.version > self.reference.version

    def adopt(self, reference: Reference) -> None:
        """Use *reference* from now on."""
        self.reference = reference
        self.failed.clear()

    def on_connected(self, host: HostId) -> None:
        self._connected[host] = None
        self.failed.pop(host, None)

    def on_disconnected(self, host: HostId) -> None:
        self._connected.pop(host, None)
        self.failed.pop(host, None)
        if self.target() is None:
            # It was the last host of this round; now that it is gone, the others are worth another try.
            self.failed.clear()

    def on_served(self) -> None:
        """Note that somebody takes calls, so hosts that failed before are worth another try."""
        self.failed.clear()

    def on_failed(self, host: HostId) -> bool:
        """Note that the host could not serve. Returns True if that ends the round, so that there is a pause
        before the next."""
        self.failed[host] = None
        if self.target() is not None:
            return False
        self.failed.clear()
        return True

    def target(self) -> HostId | None:
        """Return the first host of this round that is connected and has not failed."""
        primary = self.reference.primary
        if primary in self._connected and primary not in self.failed:
            return primary  # as nearly always
        for host in (*self.reference.hosts, *self._connected):
            if host in self._connected and host not in self.failed:
                return host
        return None

    def connected_members(self) -> list[HostId]:
        return [host for host in self.reference.hosts if host in self._connected]


class KnownHosts:
    """The known hosts, at most :data:`HOSTS_MAX`. Hosts know where the others are; for one that is gone, the
    last address is kept."""

    def __init__(self) -> None:
        self._known: dict[HostId, HostAt] = {}

    def learn(self, hosts: Iterable[HostAt]) -> None:
        """Note that these hosts are in session, as a host says."""
        for each in hosts:
            known = self._known.get(each.host)
            has_room = known is not None or len(self._known) < HOSTS_MAX
            if has_room and (known is None or known.incarnation < each.incarnation):
                self._known[each.host] = each

    def addresses(self, references: Iterable[Reference]) -> list[str]:
        """Return their addresses and those of the members that *references* name, each once."""
        members = (member.address for each in references for member in each.members)
        told = (each.address for each in self._known.values())
        return list(dict.fromkeys((*told, *members)))
