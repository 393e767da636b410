"""Leasing: short leases, kept for a while, then revoked or left to end by themselves (A4)."""

from holdfast.authority.contract import (
    Applied,
    LeaseGone,
    LeaseGrant,
    LeaseGranted,
    LeaseKeep,
    LeaseRevoke,
    Put,
    Txn,
)
from holdfast.authority.recipe import Recipe
from holdfast.model.ids import LeaseId
from holdfast.model.units import MILLISECOND
from holdfast.sim.authority.host_node import Actor

KEEP, REVOKE = 0.7, 0.1
"""What becomes of a lease in a round; otherwise it is abandoned."""


class Leasing:
    name = "leasing"
    think_ns = 400 * MILLISECOND

    def __init__(self, actor: Actor) -> None:
        self._actor = actor
        self._lease: LeaseId | None = None

    def round(self) -> Recipe[None]:
        if self._lease is None:
            yield from self._grant()
            return
        choice = self._actor.rng.random()
        if choice < KEEP:
            yield from self._keep(self._lease)
        elif choice < KEEP + REVOKE:
            yield LeaseRevoke(self._lease)
            self._lease = None
        else:
            self._lease = None

    def _grant(self) -> Recipe[None]:
        leases, world = self._actor.stage.leases, self._actor.stage.world
        sent_at = world.now
        granted = yield LeaseGrant(self._actor.rng.randint(1, 2))
        if isinstance(granted, LeaseGranted):
            leases.granted(granted.lease, granted.seconds, sent_at)
            put = yield Txn((), (Put(f"leased/{self._actor.process}", b"", granted.lease),))
            if isinstance(put, Applied):
                self._lease = granted.lease
                self._actor.done(self.name)

    def _keep(self, lease: LeaseId) -> Recipe[None]:
        leases, world = self._actor.stage.leases, self._actor.stage.world
        sent_at = world.now
        leases.tried(lease)
        kept = yield LeaseKeep(lease)
        if isinstance(kept, LeaseGranted):
            leases.granted(lease, kept.seconds, sent_at)
            self._actor.done(self.name)
        elif isinstance(kept, LeaseGone):
            self._lease = None
