"""Tells clients when a group or a host moves, so that they notice the end of a failover at once."""

from collections.abc import Iterable
from itertools import islice
from typing import Final

from holdfast.authority.sessions import Session
from holdfast.groups.ports import ClientPort
from holdfast.model.calls import HOSTS_MAX, NO_FRAME, HostAt, Redirected, Whereabouts
from holdfast.model.ids import GroupId
from holdfast.model.reference import Reference

FOLLOWERS_MAX: Final = 10_000
"""The most followers of one group at one host. Further clients find the new primary by asking, as any client
can."""
FOLLOWED_MAX: Final = 20_000
"""The most groups that one client follows at one host. It finds the others by asking."""


class GroupSubscribers:
    """The clients that follow each group."""

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
        """Forget the followers of a removed group."""
        for client in self._clients.pop(group, {}):
            del self._groups[client][group]
            if not self._groups[client]:
                del self._groups[client]

    def on_gone(self, client: ClientPort) -> None:
        """Forget a client whose connection has ended."""
        for group in self._groups.pop(client, {}):
            del self._clients[group][client]
            if not self._clients[group]:
                del self._clients[group]

    def tell(self, reference: Reference) -> None:
        """Tell the group's followers that it is served here, in this view."""
        for client in list(self._clients.get(reference.group, ())):
            client.send(Redirected(NO_FRAME, reference))


class HostSubscribers:
    """The clients that want to know where the hosts listen. A client with a connection to a single host can
    thus find the others when that one goes."""

    def __init__(self) -> None:
        self._clients: dict[ClientPort, None] = {}
        self._known = Whereabouts(())

    def add(self, client: ClientPort) -> None:
        if len(self._clients) < FOLLOWERS_MAX:
            self._clients[client] = None
        client.send(self._known)

    def on_gone(self, client: ClientPort) -> None:
        """Forget a client whose connection has ended."""
        self._clients.pop(client, None)

    def tell(self, sessions: Iterable[Session]) -> None:
        """Tell the clients which hosts are in session now, if that has changed."""
        hosts = (HostAt(each.host, each.incarnation, each.address) for each in sessions)
        known = Whereabouts(tuple(islice(hosts, HOSTS_MAX)))
        if known != self._known:
            self._known = known
            for client in list(self._clients):
                client.send(known)
