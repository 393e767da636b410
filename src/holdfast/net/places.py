"""The places of a server: how many peers of each kind it serves at once (N2).

Hosts, agents and admins have places that no client can take, so that however many clients come, hosts reach
each other and a failover takes no longer. No client takes all the places of clients either.
"""

from collections import Counter

from holdfast.net.frame import Reason, Why
from holdfast.net.handshake import PeerIdentity, Role
from holdfast.net.limits import Limits


class Places:
    """The places of one server. A peer takes one after it has proved who it is."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._members = 0
        self._clients: Counter[str] = Counter()

    def take(self, peer: PeerIdentity) -> Reason | None:
        """Give *peer* a place; return why there is none, if so."""
        limits = self._limits
        if peer.role is not Role.CLIENT:
            if self._members >= limits.members_max:
                return _full(f"{self._members} hosts, agents and admins are connected here")
            self._members += 1
            return None
        if self._clients.total() >= limits.connections_max:
            return _full(f"{limits.connections_max} clients are connected here")
        if self._clients[peer.id] >= limits.of_one_client_max:
            return _full(f"client {peer.id} has {limits.of_one_client_max} connections here")
        self._clients[peer.id] += 1
        return None

    def leave(self, peer: PeerIdentity) -> None:
        """Free the place of *peer*."""
        if peer.role is not Role.CLIENT:
            self._members -= 1
            return
        self._clients[peer.id] -= 1
        if not self._clients[peer.id]:
            del self._clients[peer.id]


def _full(text: str) -> Reason:
    return Reason(Why.TOO_MANY_CONNECTIONS, text)
