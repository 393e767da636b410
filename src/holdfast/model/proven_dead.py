"""Which processes are proven dead, as far as one host knows, and when a proof counts no more (K2, K7).

A proof of death is acted on at once (K2). It can still be false: its agent was deceived, or the proof was
forged. A process that is heard afterwards lives, so its proof counts no more. *Without it:* a host whose
death was reported while it lived stays out of every group until its process ends; and where the proof named
a process that is started later, until all others have ended.

Agents repeat the deaths that they know, to every host that connects anew, so a false proof comes again long
after everybody has seen that it was false; but not those who have just begun. A proof therefore has an age.
One that is old, and one about a process that outlived another, are *doubted*: they count when the process has
been silent for as long as a lease lasts. *Without it:* a host that was restarted is told again of the death
of a primary that lives, and claims, while that primary still answers reads by its leases.

Each process is remembered by itself, not the highest number alone. *Without it:* the false death of process
1,000,000 hides the true deaths of all that come before it. And what follows from a number follows only if the
authority has issued it. *Without it:* the same false death proves that all processes before it are gone, and
a group in memory is given up though they hold its state.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from holdfast.model.ids import HostId, Incarnation
from holdfast.model.ports import Clock

PROOFS_KEPT: Final = 16
"""How many proofs are remembered for each host: its views name far fewer processes at a time."""

HeardAt = Callable[[HostId, Incarnation], int | None]
"""When that process was last heard, by this host's clock; None if it never was, or not lately."""


@dataclass(frozen=True, slots=True)
class _Proof:
    died_at: int
    told_at: int
    is_doubted: bool


class ProvenDead:
    """The proofs of death that one host was given."""

    def __init__(self, clock: Clock, heard_at: HeardAt, late_ns: int) -> None:
        """*late_ns*: a message of a dead process may arrive this long after the proof."""
        self._clock = clock
        self._heard_at = heard_at
        self.late_ns = late_ns
        self._proofs: dict[HostId, dict[Incarnation, _Proof]] = {}
        self._issued: dict[HostId, Incarnation] = {}
        self.is_any = False
        """Whether there is any proof at all."""

    def tolerate(self, late_ns: int) -> None:
        """From now on a message may arrive this long after the proof."""
        self.late_ns = late_ns

    def on_proof(self, host: HostId, incarnation: Incarnation, age_ns: int = 0) -> None:
        """Note a proof that this process died *age_ns* ago. One that only repeats an earlier proof is no new
        one."""
        self.is_any = True
        proofs = self._proofs.setdefault(host, {})
        now = self._clock.now()
        died_at = now - max(0, age_ns)
        known = proofs.get(incarnation)
        if known is None:
            proofs[incarnation] = _Proof(died_at, now, is_doubted=age_ns > self.late_ns)
        elif died_at > known.died_at + self.late_ns and self._is_contradicted(host, incarnation, known):
            proofs[incarnation] = _Proof(died_at, now, is_doubted=True)
        if len(proofs) > PROOFS_KEPT:
            del proofs[next(iter(proofs))]

    def on_issued(self, processes: Iterable[tuple[HostId, Incarnation]]) -> None:
        """Note processes that the authority has listed: these numbers, and all below, were issued."""
        for host, incarnation in processes:
            self._issued[host] = max(incarnation, self._issued.get(host, incarnation))

    def is_dead(self, host: HostId, incarnation: Incarnation) -> bool:
        """Whether exactly this process is proven dead and was not heard since."""
        proof = self._proofs.get(host, {}).get(incarnation)
        if proof is None or self._is_contradicted(host, incarnation, proof):
            return False
        if not proof.is_doubted:
            return True
        heard_at = self._heard_at(host, incarnation)
        last = proof.told_at if heard_at is None else max(proof.told_at, heard_at)
        return self._clock.now() - last > self.late_ns

    def is_refuted(self, host: HostId, incarnation: Incarnation) -> bool:
        """Whether this process was proven dead, and lives."""
        proof = self._proofs.get(host, {}).get(incarnation)
        return proof is not None and self._is_contradicted(host, incarnation, proof)

    def is_gone(self, host: HostId, incarnation: Incarnation) -> bool:
        """Whether this process is dead, or silent while a later process of its host is proven dead: a later
        one starts only after the earlier one is gone (V2, K2)."""
        if self.is_dead(host, incarnation):
            return True
        if not self._is_followed(host, incarnation):
            return False
        heard_at = self._heard_at(host, incarnation)
        return heard_at is None or self._clock.now() - heard_at > self.late_ns

    def _is_followed(self, host: HostId, incarnation: Incarnation) -> bool:
        """Whether a later process of that host is proven dead that there was."""
        issued = self._issued.get(host, incarnation)
        return any(incarnation < later <= issued for later in self._proofs.get(host, {}))

    def _is_contradicted(self, host: HostId, incarnation: Incarnation, proof: _Proof) -> bool:
        heard_at = self._heard_at(host, incarnation)
        return heard_at is not None and heard_at > proof.died_at + self.late_ns
