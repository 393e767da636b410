"""Which peer is which replica: no two may share an id (CSN-40)."""

from holdfast.clock.errors import DuplicateReplica
from holdfast.model.ids import ReplicaId


class Sessions:
    """The replica ids of the peers in session with this server."""

    def __init__(self, own: ReplicaId) -> None:
        self._own = own
        self._replicas: dict[str, ReplicaId] = {}

    def check(self, peer: str, replica: ReplicaId) -> None:
        """Raises :class:`DuplicateReplica` when *replica* is this server or another peer in session."""
        if replica == self._own:
            raise DuplicateReplica(peer, replica, "this server")
        for other, taken in self._replicas.items():
            if taken == replica and other != peer:
                raise DuplicateReplica(peer, replica, f"peer {other}")

    def begin(self, peer: str, replica: ReplicaId) -> None:
        self._replicas[peer] = replica

    def end(self, peer: str) -> None:
        self._replicas.pop(peer, None)
