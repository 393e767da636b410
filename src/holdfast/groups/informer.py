"""Keeps a local copy of everything below a prefix at the authority: it lists the values once, then watches
them."""

from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

from holdfast.authority.contract import Compacted, WatchEvent
from holdfast.authority.recipe import Listing, NoAnswer, Recipes, Seen, answering, decoded, read_all
from holdfast.groups.ports import MakeTimers, Watch
from holdfast.model.ids import MILLISECOND, Revision

RETRY_NS: Final = 200 * MILLISECOND
"""The pause before the authority is asked again. It is asked without end, because losing it stops nothing
here."""

Value = TypeVar("Value")


class Informer(Generic[Value]):
    """The values of one kind below a prefix, by key. *on_change* is called for each value that changed,
    *on_gone* for each that is gone: with True if the authority said that it was removed, with False if a new
    listing merely lacks it. *on_listed* is called after all existing values have been passed on.

    While the authority is unreachable, the last known values stay.
    """

    def __init__(
        self,
        watch: Watch,
        recipes: Recipes,
        timers: MakeTimers,
        prefix: str,
        kind: type[Value],
        on_change: Callable[[str, Seen[Value]], None],
        on_gone: Callable[[str, bool], None],
        on_listed: Callable[[], None] = lambda: None,
    ) -> None:
        self._watch = watch
        self._recipes = recipes
        self._timers = timers(self._on_timer)
        self._prefix = prefix
        self._kind = kind
        self._on_change = on_change
        self._on_gone = on_gone
        self._tell_listed = on_listed
        self._seen: dict[str, Seen[Value]] = {}

    def start(self) -> None:
        recipe = answering(read_all)
        self._recipes.start(recipe(self._prefix, self._kind), self._on_listed)

    def _on_timer(self, tag: Hashable) -> None:
        self.start()

    def _on_listed(self, listing: Listing[Value] | NoAnswer) -> None:
        if isinstance(listing, NoAnswer):
            self._timers.set(RETRY_NS, "list")
            return
        found = {seen.key: seen for seen in listing.items}
        for key in [key for key in self._seen if key not in found]:
            del self._seen[key]
            self._on_gone(key, False)
        for seen in found.values():
            self._take(seen)
        self._watch(self._prefix, Revision(listing.revision + 1), self._on_event)
        self._tell_listed()

    def _on_event(self, event: WatchEvent) -> None:
        if isinstance(event, Compacted):
            self.start()  # the watch is too far behind to catch up
            return
        for changed in event.changes:
            if changed.item is not None:
                self._take(decoded(changed.item, self._kind))
            elif self._seen.pop(changed.key, None) is not None:
                self._on_gone(changed.key, True)

    def _take(self, seen: Seen[Value]) -> None:
        if self._seen.get(seen.key) != seen:
            self._seen[seen.key] = seen
            self._on_change(seen.key, seen)
