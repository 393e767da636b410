"""Clients that want to be told when a group moves: so a failover is over for them as soon as it is over."""

from typing import Final

from holdfast.housing.ports import Client
from holdfast.model.calls import NO_FRAME, Redirected
from holdfast.model.ids import GroupId
from holdfast.model.reference import Reference

FOLLOWERS_MAX: Final = 10_000
"""Of one group at one host; a client beyond finds the new primary by asking, as it always can."""


class Followers:
    """By group."""

    def __init__(self) -> None:
        self._clients: dict[GroupId, dict[Client, None]] = {}
        self._groups: dict[Client, dict[GroupId, None]] = {}

    def add(self, group: GroupId, client: Client) -> None:
        known = self._clients.setdefault(group, {})
        if len(known) < FOLLOWERS_MAX:
            known[client] = None
            self._groups.setdefault(client, {})[group] = None

    def on_gone(self, client: Client) -> None:
        """Its connection has ended."""
        for group in self._groups.pop(client, {}):
            del self._clients[group][client]
            if not self._clients[group]:
                del self._clients[group]

    def tell(self, reference: Reference) -> None:
        """The group is served here, in this view."""
        for client in list(self._clients.get(reference.group, ())):
            client.send(Redirected(NO_FRAME, reference))
