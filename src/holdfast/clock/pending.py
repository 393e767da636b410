"""Pending lists: which committed changes of a replica may be sent (CSN-52..54).

A vector says "everything up to here", so a change may be sent, and counted in a vector, only when no
smaller CSN of the same replica is still in flight. Aborted ones hold nobody up.
"""

from contextlib import AbstractContextManager, nullcontext
from heapq import heappop, heappush
from typing import Final

from holdfast.model.csn import Csn
from holdfast.model.errors import InvalidRequest, Overloaded
from holdfast.model.ids import ReplicaId

PENDING_MAX: Final = 200_000
"""CSNs known and not yet drained; beyond it something holds the list up, and it must be looked at."""


class PendingList:
    """The CSNs of one replica, from assigned (or received) to drained as sendable, in order.

    For the server's own replica register ``assigned``, ``committed`` and ``aborted`` with the generator.
    They run outside its lock, so with several threads a CSN may be committed here before a smaller one is
    even known here: then drain with ``below=generator.oldest_in_flight()``, read *after* the commits.
    """

    def __init__(self, replica: ReplicaId, *, lock: AbstractContextManager[object] | None = None) -> None:
        self.replica = replica
        self._lock = lock or nullcontext()
        self._is_committed: dict[Csn, bool] = {}
        """Every CSN that is pending."""
        self._order: list[Csn] = []
        """A heap of them; aborted ones linger until they come up."""

    def __len__(self) -> int:
        return len(self._is_committed)

    def assigned(self, csn: Csn, _argument: object = None) -> None:
        """*csn* is in flight: assigned here, or received and not yet durable."""
        if csn.replica != self.replica:
            raise InvalidRequest(f"CSN {csn} is not of replica {self.replica}")
        with self._lock:
            if csn in self._is_committed:
                raise InvalidRequest(f"CSN {csn} is pending already")
            if len(self._is_committed) >= PENDING_MAX:
                raise Overloaded(f"{PENDING_MAX} CSNs of replica {self.replica} are pending")
            self._is_committed[csn] = False
            heappush(self._order, csn)

    def committed(self, csn: Csn, _argument: object = None) -> None:
        """The change of *csn* is durable."""
        with self._lock:
            self._require_in_flight(csn)
            self._is_committed[csn] = True

    def aborted(self, csn: Csn, _argument: object = None) -> None:
        """*csn* will never be committed; nobody waits for it."""
        with self._lock:
            self._require_in_flight(csn)
            del self._is_committed[csn]

    def take_sendable(self, *, below: Csn | None = None) -> list[Csn]:
        """Drain, in order, the committed CSNs that no smaller one in flight holds up.

        The last of them is what the vector may say of this replica.
        """
        sendable: list[Csn] = []
        with self._lock:
            while self._order and (below is None or self._order[0] < below):
                csn = self._order[0]
                if self._is_committed.get(csn) is False:
                    break
                heappop(self._order)
                if self._is_committed.pop(csn, None):
                    sendable.append(csn)
        return sendable

    def _require_in_flight(self, csn: Csn) -> None:
        if self._is_committed.get(csn) is not False:
            raise InvalidRequest(f"CSN {csn} is not in flight: it has ended, or was never assigned")
