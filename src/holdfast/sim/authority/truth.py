"""What the authority has really committed, as an observer beside its store sees it.

Every revision is recorded when its commit has returned, and judged by the rules. When the store is
opened again it must hold exactly that, and beyond it at most what a commit under way had reached.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence

from holdfast.authority.contract import Events, KeyValue, List, Listed, Request, Result
from holdfast.authority.sqlite import SqliteStore
from holdfast.model.ids import LeaseId, Revision
from holdfast.sim.authority.rules import Rules
from holdfast.sim.world import World


class Truth:
    """The committed history, across restarts and restorations of the authority."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.rules = Rules(world.violation)
        self.items: dict[str, KeyValue] = {}
        self.revision = Revision(0)
        self.lineage = 0
        """Counts restorations: what was written before one may be gone after it."""
        self.is_committing = False
        """A crash inside a commit leaves this set; the commit may or may not have happened."""
        self.watchers: list[Callable[[Events], bool]] = []
        """Told of each revision; one that answers False is told no more."""
        self._log: list[Events] = []
        self._revisions: list[int] = []

    def commit(self, fresh: Iterable[Events]) -> None:
        """These revisions are durable now, says the store."""
        self.is_committing = False
        for events in fresh:
            self._append(events)
            self.watchers = [watcher for watcher in self.watchers if watcher(events)]

    def opened(self, store: "ObservedStore") -> None:
        """The store was opened: it must hold what it had committed, and nothing it was not asked to."""
        found = store.contents()
        if store.revision < self.revision:
            self._world.violation("A6", f"revision {self.revision} was committed, {store.revision} is there")
        elif store.revision > self.revision and not self.is_committing and self.revision:
            self._world.violation("A6", f"revision {store.revision} is there and was never committed")
        else:
            self.commit(store.history(max(Revision(self.revision + 1), store.oldest), 1_000_000))
            self._compare(found)

    def restored(self, found: dict[str, KeyValue], events: Events) -> None:
        """An operator put back an old copy and restored it; it goes on with *found*."""
        self.lineage += 1
        self.is_committing = False
        self.items = {item.key: item for item in found.values()}
        self.rules.restored()
        self._log.append(events)
        self._revisions.append(events.revision)
        self.revision = events.revision

    def put_back(self) -> None:
        """An operator put back an old copy without a word to anybody: what it holds is all there is."""
        self.lineage += 1
        self.is_committing = False
        self.items, self.revision = {}, Revision(0)
        self.rules = Rules(self._world.violation)
        self._log, self._revisions = [], []

    def next_after(self, revision: int, prefix: str) -> Events | None:
        """The first revision past *revision* that changed something below *prefix*, with those changes."""
        for events in self._log[bisect_right(self._revisions, revision) :]:
            changes = tuple(change for change in events.changes if change.key.startswith(prefix))
            if changes:
                return Events(events.revision, changes)
        return None

    def _append(self, events: Events) -> None:
        if events.revision != self.revision + 1 and self.revision:
            self._world.violation("A3", f"revision {events.revision} follows {self.revision}")
        self.rules.judge(self.items, events)
        for change in events.changes:
            if change.item is None:
                self.items.pop(change.key, None)
            else:
                self.items[change.key] = change.item
        self._log.append(events)
        self._revisions.append(events.revision)
        self.revision = events.revision

    def _compare(self, found: dict[str, KeyValue]) -> None:
        if found != self.items:
            wrong = [key for key in sorted({*found, *self.items}) if found.get(key) != self.items.get(key)]
            self._world.violation("A6", f"after opening, these keys are not as committed: {wrong[:5]}")


class ObservedStore(SqliteStore):
    """A store that tells the truth what it commits, and the lease book which leases end."""

    truth: Truth
    leases_ended: Callable[[list[LeaseId]], None]

    def apply(self, requests: Sequence[Request], now_ns: int) -> list[Result]:
        self.truth.is_committing = True
        return super().apply(requests, now_ns)

    def expire(self, now_ns: int) -> list[LeaseId]:
        self.truth.is_committing = True
        ended = super().expire(now_ns)
        self.leases_ended(ended)
        return ended

    def take_events(self) -> list[Events]:
        fresh = super().take_events()
        self.truth.commit(fresh)
        return fresh

    def contents(self) -> dict[str, KeyValue]:
        """Every item, as the file has it."""
        (listed,) = super().apply([List("")], now_ns=0)
        assert isinstance(listed, Listed)
        return {item.key: item for item in listed.items}
