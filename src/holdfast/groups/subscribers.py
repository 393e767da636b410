"""Clients that want to be told when a group or a host moves: a failover is over for them when it is over."""

from collections.abc import Iterable
from itertools import islice
from typing import Final

from holdfast.authority.sessions import Session
from holdfast.groups.ports import ClientPort
from holdfast.model.calls import HOSTS_MAX, NO_FRAME, HostAt, Redirected, Whereabouts
from holdfast.model.ids import GroupId
from holdfast.model.reference import Reference

FOLLOWERS_MAX: Final = 10_000
"""Of one group at one host; a client beyond finds the new primary by asking, as it always can."""
FOLLOWED_MAX: Final = 20_000
"""Groups that one client follows at one host; of the others it hears by asking, too."""


class GroupSubscribers:
    """By group."""

    def __init__(self) -> None:
        self._clients: dict[GroupId, dict[ClientPort, None]] = {}
        self._groups: dict[ClientPort, dict[GroupId, None]] = {}

    @property
    def count(self) -> int:
        """How many groups have followers."""
        return len(self._clients)

    def add(self, group: GroupId, client: ClientPort) -> None:
        clients, groups = self._clients.get(group, {}), self._groups.get(client, {})
        if len(clients) < FOLLOWERS_MAX and len(groups) < FOLLOWED_MAX:
            self._clients.setdefault(group, clients)[client] = None
            self._groups.setdefault(client, groups)[group] = None

    def forget(self, group: GroupId) -> None:
        """It was removed."""
        for client in self._clients.pop(group, {}):
            del self._groups[client][group]
            if not self._groups[client]:
                del self._groups[client]

    def on_gone(self, client: ClientPort) -> None:
        """Its connection has ended."""
        for group in self._groups.pop(client, {}):
            del self._clients[group][client]
            if not self._clients[group]:
                del self._clients[group]

    def tell(self, reference: Reference) -> None:
        """The group is served here, in this view."""
        for client in list(self._clients.get(reference.group, ())):
            client.send(Redirected(NO_FRAME, reference))


class HostSubscribers:
    """Clients that want to know where the hosts listen: one that is connected to a single host finds the
    others when it goes."""

    def __init__(self) -> None:
        self._clients: dict[ClientPort, None] = {}
        self._known = Whereabouts(())

    def add(self, client: ClientPort) -> None:
        if len(self._clients) < FOLLOWERS_MAX:
            self._clients[client] = None
        client.send(self._known)

    def on_gone(self, client: ClientPort) -> None:
        """Its connection has ended."""
        self._clients.pop(client, None)

    def tell(self, sessions: Iterable[Session]) -> None:
        """These hosts are in session now."""
        hosts = (HostAt(each.host, each.incarnation, each.address) for each in sessions)
        known = Whereabouts(tuple(islice(hosts, HOSTS_MAX)))
        if known != self._known:
            self._known = known
            for client in list(self._clients):
                client.send(known)
