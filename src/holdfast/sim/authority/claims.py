"""Claims: hosts take over groups, and one epoch is never two hosts' (A1, A5, K1)."""

import msgspec

from holdfast.authority import keys
from holdfast.authority.groups import GroupRecord, Placement, create_group
from holdfast.authority.identity import Identity, read_identity
from holdfast.authority.outcome import InDoubt, Seen
from holdfast.authority.recipe import Recipe
from holdfast.authority.views import (
    Lost,
    NoGroup,
    View,
    ViewChange,
    ViewMember,
    change_view,
    next_epoch,
    read_view,
)
from holdfast.model.ids import Epoch, GroupId
from holdfast.model.units import MILLISECOND
from holdfast.sim.authority.host_node import HostProcess

GROUPS = (GroupId(1), GroupId(2))


class Claims:
    """Reads a view and claims the next epoch; a doubt is settled by the same change again (A1, M2)."""

    name = "claims"
    think_ns = 250 * MILLISECOND

    def __init__(self, host: HostProcess) -> None:
        self._host = host
        self._truth = host.stage.truth
        self._world = host.stage.world

    def round(self) -> Recipe[None]:
        group = self._host.rng.choice(GROUPS)
        standing = self._standing_epoch(group)
        found = yield from read_view(group)
        if isinstance(found, NoGroup):
            yield from self._create(group)
        elif isinstance(found, Seen):
            identity = yield from read_identity()
            if isinstance(identity, Seen):
                self._check_not_stale(group, standing, found.value, identity.value)
                yield from self._claim(found, identity)

    def _create(self, group: GroupId) -> Recipe[None]:
        host, nonce = self._host, self._host.nonce()
        placement = Placement(host=host.name, store=host.file.record.store)
        record = GroupRecord(
            group=group, class_name="simulated", style="active", members=(placement,), nonce=nonce
        )
        answer = yield from create_group(record, host.name, (self._member(),))
        if isinstance(answer, Seen):
            self._host.done(self.name)

    def _claim(self, found: Seen[View], identity: Seen[Identity]) -> Recipe[None]:
        view = View(
            group=found.value.group,
            epoch=next_epoch(found.value, identity.value),
            primary=self._host.name,
            members=(self._member(),),
            nonce=self._host.nonce(),
        )
        answer = yield from change_view(ViewChange(found, view), identity=identity)
        while isinstance(answer, InDoubt):
            self._world.sometimes("a claim in doubt")
            answer = yield from change_view(ViewChange(found, view), identity=identity)
        if isinstance(answer, Seen):
            self._won(view)
        elif isinstance(answer, Lost):
            self._truth.rules.never_applies(view.nonce, f"{answer}")

    def _won(self, view: View) -> None:
        holder = self._truth.rules.winner("epoch", str(view.group), view.epoch)
        if holder != view.nonce:
            self._world.violation("A1", f"{view} was told it stands; the epoch is {holder}'s")
        self._host.done(self.name)

    def _standing_epoch(self, group: GroupId) -> Epoch:
        item = self._truth.items.get(keys.view(group))
        return Epoch(0) if item is None else msgspec.json.decode(item.value, type=View).epoch

    def _check_not_stale(self, group: GroupId, before: Epoch, view: View, identity: Identity) -> None:
        """What stood before the question was asked must be in the answer, or below the floor (A5)."""
        if max(view.epoch, identity.floors.epoch) < before:
            self._world.violation("A5", f"group {group} had epoch {before}, then {view.epoch} was read")

    def _member(self) -> ViewMember:
        record = self._host.file.record
        return ViewMember(
            host=self._host.name,
            store=record.store,
            incarnation=self._host.session.incarnation,
            opening=record.opening,
        )
