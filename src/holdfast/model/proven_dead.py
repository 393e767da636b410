"""Which processes are proven dead, as far as one host knows, and when a proof counts no more (K2, K7).

A proof of death is acted on at once (K2). It can still be false: its agent was deceived, or the proof was
forged. A process that is heard afterwards lives, so its proof counts no more. *Without it:* a host whose
death was reported while it lived stays out of every group until its process ends; and where the proof named
a process that is started later, until all others have ended.

Each process is remembered by itself, not the highest number alone. *Without it:* the false death of process
1,000,000 hides the true deaths of all that come before it.
"""

from collections.abc import Callable
from typing import Final

from holdfast.model.ids import HostId, Incarnation
from holdfast.model.ports import Clock

PROOFS_KEPT: Final = 16
"""How many proofs are remembered for each host: its views name far fewer processes at a time."""

HeardAt = Callable[[HostId, Incarnation], int | None]
"""When that process was last heard, by this host's clock; None if it never was, or not lately."""


class ProvenDead:
    """The proofs of death that one host was given."""

    def __init__(self, clock: Clock, heard_at: HeardAt, late_ns: int) -> None:
        """*late_ns*: a message of a dead process may arrive this long after the proof."""
        self._clock = clock
        self._heard_at = heard_at
        self.late_ns = late_ns
        self._proofs: dict[HostId, dict[Incarnation, int]] = {}

    def on_proof(self, host: HostId, incarnation: Incarnation) -> None:
        """Note a proof that this process is dead. One that was given before counts from then on: a proof that
        is repeated is no new one."""
        proofs = self._proofs.setdefault(host, {})
        proofs.setdefault(incarnation, self._clock.now())
        if len(proofs) > PROOFS_KEPT:
            del proofs[next(iter(proofs))]

    def is_any(self) -> bool:
        """Whether there is any proof at all."""
        return bool(self._proofs)

    def is_dead(self, host: HostId, incarnation: Incarnation) -> bool:
        """Whether exactly this process is proven dead and was not heard since."""
        proven_at = self._proofs.get(host, {}).get(incarnation)
        return proven_at is not None and not self._is_contradicted(host, incarnation, proven_at)

    def is_refuted(self, host: HostId, incarnation: Incarnation) -> bool:
        """Whether this process was proven dead, and lives."""
        proven_at = self._proofs.get(host, {}).get(incarnation)
        return proven_at is not None and self._is_contradicted(host, incarnation, proven_at)

    def is_gone(self, host: HostId, incarnation: Incarnation) -> bool:
        """Whether this process is dead, or silent while a later process of its host is proven dead: a later
        one starts only after the earlier one is gone (V2, K2)."""
        if self.is_dead(host, incarnation):
            return True
        if all(later <= incarnation for later in self._proofs.get(host, {})):
            return False
        heard_at = self._heard_at(host, incarnation)
        return heard_at is None or self._clock.now() - heard_at > self.late_ns

    def _is_contradicted(self, host: HostId, incarnation: Incarnation, proven_at: int) -> bool:
        heard_at = self._heard_at(host, incarnation)
        return heard_at is not None and heard_at > proven_at + self.late_ns
