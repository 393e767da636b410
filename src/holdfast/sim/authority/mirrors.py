"""Mirrors: whoever watches sees every change once, in order, without a gap (A3)."""

from holdfast.authority.contract import Compacted, KeyValue, List, Listed, WatchEvent
from holdfast.authority.recipe import Recipe
from holdfast.model.ids import Revision
from holdfast.model.units import SECOND
from holdfast.sim.authority.host_node import Actor

ANEW = 0.2
"""How often a round ends the watch and begins a new one."""


class Mirror:
    """A copy of all keys below a prefix, kept by a list and a watch from there on."""

    name = "mirror"
    think_ns = 1 * SECOND

    def __init__(self, actor: Actor, prefix: str) -> None:
        self._actor = actor
        self._prefix = prefix
        self._items: dict[str, KeyValue] = {}
        self._seen = Revision(0)
        self._token: str | None = None
        self._begun = 0

    def round(self) -> Recipe[None]:
        if self._token is not None and self._actor.rng.random() < ANEW:
            self._actor.client.unwatch(self._token)
            self._token = None
        if self._token is None:
            listed = yield List(self._prefix)
            if isinstance(listed, Listed):
                self._begin(listed)

    def on_watch(self, token: object, event: WatchEvent) -> None:
        if token != self._token:
            return
        if isinstance(event, Compacted):
            self._actor.stage.world.sometimes("a watch was compacted")
            self._token = None
            return
        expected = self._actor.stage.truth.next_after(self._seen, self._prefix)
        if event != expected:
            said = f"{self._actor.process} after revision {self._seen}: got {event}, due was {expected}"
            self._actor.stage.world.violation("A3", said)
        self._seen = event.revision
        for change in event.changes:
            if change.item is None:
                self._items.pop(change.key, None)
            else:
                self._items[change.key] = change.item

    def check_caught_up(self) -> None:
        """At the end, when all is quiet: nothing is missing."""
        truth = self._actor.stage.truth
        if self._token is None:
            return
        below = {key: item for key, item in truth.items.items() if key.startswith(self._prefix)}
        if self._items != below:
            wrong = [key for key in sorted({*below, *self._items}) if below.get(key) != self._items.get(key)]
            said = f"{self._actor.process} saw up to {self._seen}, but these differ: {wrong[:5]}"
            self._actor.stage.world.violation("A3", said)

    def _begin(self, listed: Listed) -> None:
        self._begun += 1
        self._token = f"{self._prefix} {self._begun}"
        self._items = {item.key: item for item in listed.items}
        self._seen = listed.revision
        self._actor.client.watch(self._prefix, Revision(listed.revision + 1), self._token)
