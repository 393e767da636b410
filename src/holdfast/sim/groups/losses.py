"""Groups in memory that have lost their state and restarted (V4): whether they were right to.

Seen where views are written: nobody who held the state may have been alive when it was given up.
"""

import msgspec

from holdfast.authority import keys
from holdfast.authority.contract import Events
from holdfast.authority.views import View, Why
from holdfast.model.ids import GroupId
from holdfast.sim.authority.truth import Truth
from holdfast.sim.world import World


class Losses:
    """All of a run."""

    def __init__(self, world: World, truth: Truth) -> None:
        self._world = world
        self._views: dict[GroupId, View] = {}
        self.groups: dict[GroupId, None] = {}
        """Of these, what was acknowledged before is not asked for."""
        truth.watchers.append(self._on_commit)

    def _on_commit(self, events: Events) -> bool:
        for change in events.changes:
            if change.item is not None and change.key.startswith(keys.VIEWS):
                view = msgspec.json.decode(change.item.value, type=View)
                if view.cause.why is Why.RESTARTED:
                    self._check(self._views[view.group])
                    self._note(view)
                self._views[view.group] = view
        return True

    def _note(self, view: View) -> None:
        source = self._world.nodes[view.primary].core
        # The process that asked for it may be gone, and the next one not have come to this group yet.
        groups = source.groups if source is not None else None
        housed = groups.housed.get(view.group) if groups is not None else None
        held = housed.member.tail if housed is not None else 0
        self._world.sometimes(f"a group restarted {'from a checkpoint' if held else 'with nothing'}")

    def _check(self, before: View) -> None:
        self.groups[before.group] = None
        for member in before.members:
            core = self._world.nodes[member.host].core
            if core is not None and core.incarnation == member.incarnation:
                said = f"group {before.group} was restarted though {member.host} holds its state"
                self._world.violation("V4", said)
