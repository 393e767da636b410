"""What the authority has really committed, as an observer next to its store sees it, and the rules for it.

:class:`Truth` records every revision when its commit has returned, and checks it by the rules. When the store
is opened again, it must contain exactly these revisions, and at most the result of a commit that was in
progress.

:class:`LeaseBook` records who was promised which lease, and when the authority ended it (A4).

:class:`Rules` contains what every committed revision must respect, whoever requested it: A5, A7, V2, V5, V6,
T2, T3. Each rule sees the items before the revision and the revision itself. The rules do not trust the
recipes that made the change: they know only the records, and which numbers were issued in the whole run.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import msgspec

from holdfast.authority import keys
from holdfast.authority.contract import Events, KeyValue, List, Listed, Request, Result
from holdfast.authority.control_records import Member, Status, TermRecord, Transaction
from holdfast.authority.identity import Floors, Identity
from holdfast.authority.names import Entry
from holdfast.authority.recipe import Guard
from holdfast.authority.server import STALL_NS, TICK_NS
from holdfast.authority.sessions import HostRecord, Session
from holdfast.authority.sqlite import SqliteStore
from holdfast.authority.stores import StoreRecord
from holdfast.authority.views import View
from holdfast.model.ids import SECOND, LeaseId, Revision
from holdfast.sim.engine.world import World

Record = TypeVar("Record")
Items = Mapping[str, KeyValue]


class Revised:
    """One revision and the items before it, as records."""

    def __init__(self, before: Items, events: Events) -> None:
        self._before = before
        self._changes = {change.key: change.item for change in events.changes}

    def keys(self, prefix: str) -> list[str]:
        return [key for key in self._changes if key.startswith(prefix)]

    def has(self, key: str) -> bool:
        return key in self._changes

    def before(self, key: str, kind: type[Record]) -> Record | None:
        return _decoded(self._before.get(key), kind)

    def after(self, key: str, kind: type[Record]) -> Record | None:
        return _decoded(self._changes[key] if key in self._changes else self._before.get(key), kind)

    def floors(self) -> Floors:
        identity = self.before(keys.IDENTITY, Identity)
        return Floors() if identity is None else identity.floors

    def is_alive(self, entry: Entry) -> bool:
        session = self.before(keys.session(entry.host), Session)
        return session is not None and session.incarnation == entry.incarnation


class Rules:
    """Checks revisions in order. *report* is called for each broken rule."""

    def __init__(self, report: Callable[[str, str], None]) -> None:
        self._report = report
        self._issued: dict[tuple[str, str, int], str] = {}
        """Every number issued in the run, with the nonce of the change that got it."""
        self._decisions: dict[int, Status] = {}
        self._dead: dict[str, str] = {}

    def never_applies(self, nonce: str, said: str) -> None:
        """Record that someone was told definitely that the change with this nonce has not been made (A1)."""
        self._dead[nonce] = said

    def winner(self, what: str, name: str, number: int) -> str | None:
        """Return the nonce of the change to which that number was issued."""
        return self._issued.get((what, name, number))

    def highest(self, what: str) -> int:
        return max((number for kind, _, number in self._issued if kind == what), default=0)

    def decision(self, cas: int) -> Status | None:
        """Return how that transaction ended, or None."""
        return self._decisions.get(cas)

    def restored(self) -> None:
        """Forget decisions of the lost part of the history, which may now be decided differently.

        Issued numbers stay.
        """
        self._decisions.clear()

    def judge(self, before: Items, events: Events) -> None:
        revised = Revised(before, events)
        for key in revised.keys(keys.VIEWS):
            self._view(revised, key)
        for key in revised.keys("hosts/"):
            self._incarnation(revised, key)
        for key in revised.keys("stores/"):
            self._opening(revised, key)
        for key in revised.keys(keys.NAMES):
            self._name(revised, key)
        if revised.keys(keys.CONTROL):
            self._term(revised)
            self._transaction(revised)
            self._membership(revised)

    # --- numbers that are issued once

    def _view(self, revised: Revised, key: str) -> None:
        view, before = revised.after(key, View), revised.before(key, View)
        if view is None:
            return
        if view.nonce in self._dead:
            self._report("A1", f"{view} was applied after its writer was told: {self._dead[view.nonce]}")
        if before is not None and view.epoch <= before.epoch:
            self._report("V1", f"epoch {view.epoch} of group {view.group} follows {before.epoch}")
        if view.epoch <= revised.floors().epoch:
            self._report("A5", f"epoch {view.epoch} of group {view.group} is not above the floor")
        self._issue("epoch", str(view.group), view.epoch, view.nonce, "A5")

    def _incarnation(self, revised: Revised, key: str) -> None:
        record, before = revised.after(key, HostRecord), revised.before(key, HostRecord)
        if record is None:
            self._report("V2", f"{key} was removed: its incarnations could be issued again")
            return
        if before is not None and record.incarnation <= before.incarnation:
            self._report("V2", f"incarnation {record.incarnation} of {record.host} is not new")
        self._issue("incarnation", record.host, record.incarnation, record.nonce, "V2")

    def _opening(self, revised: Revised, key: str) -> None:
        record, before = revised.after(key, StoreRecord), revised.before(key, StoreRecord)
        if record is None:
            self._report("V5", f"{key} was removed: its openings could be numbered again")
            return
        if before is not None and record.opening <= before.opening:
            self._report("V5", f"opening {record.opening} of {record.store} follows {before.opening}")
        self._issue("opening", record.store, record.opening, record.nonce, "V5")

    def _issue(self, what: str, name: str, number: int, nonce: str, rule: str) -> None:
        holder = self._issued.setdefault((what, name, number), nonce)
        if holder != nonce:
            self._report(rule, f"{what} {number} of {name} was issued to {holder} and to {nonce}")

    # --- names

    def _name(self, revised: Revised, key: str) -> None:
        before, after = revised.before(key, Entry), revised.after(key, Entry)
        if before is None:
            return
        if after is None:
            guard = revised.after(keys.NAME_GUARD, Guard)
            remover = "nobody" if guard is None else owner_of(guard.nonce)
            if remover != f"{before.host}/{before.incarnation}":
                self._report("A7", f"{remover} removed {before}")
        elif (after.host, after.incarnation) != (before.host, before.incarnation) and revised.is_alive(
            before
        ):
            self._report("A7", f"{after} was bound over the living {before}")

    # --- the control plane

    def _term(self, revised: Revised) -> None:
        if not revised.has(keys.TERM):
            return
        before, after = revised.before(keys.TERM, TermRecord), revised.after(keys.TERM, TermRecord)
        if after is None or (before is not None and after.term <= before.term):
            self._report("T2", f"{after} follows {before}")
            return
        left = revised.after(keys.LAST_TRANSACTION, Transaction)
        if left is not None and left.status is Status.INITIAL:
            self._report("N-3", f"term {after.term} began and left {left} open")
        if after.coordinator is not None:
            self._eligible(revised, after)

    def _eligible(self, revised: Revised, term: TermRecord) -> None:
        assert term.coordinator is not None
        member = revised.before(keys.member(term.coordinator.host), Member)
        committed = revised.before(keys.COMMITTED, Transaction)
        if member is None or member.incarnation != term.coordinator.incarnation:
            self._report("IM-35", f"{term} elected a host that is no member")
        elif committed is not None and (
            member.context_cas != committed.cas
            or member.host not in [each.host for each in committed.participants]
        ):
            self._report("IM-35", f"{term} elected {member}, the committed context is {committed}")

    def _transaction(self, revised: Revised) -> None:
        before = revised.before(keys.LAST_TRANSACTION, Transaction)
        after = revised.after(keys.LAST_TRANSACTION, Transaction)
        if not revised.has(keys.LAST_TRANSACTION) or after is None:
            return
        term = revised.before(keys.TERM, TermRecord)
        current = 0 if term is None else term.term
        if before is None or after.cas != before.cas:
            self._created(before, after, current, revised.floors().cas)
        elif before.status is not Status.INITIAL:
            self._report("N-2", f"{before} was decided, and became {after}")
        elif after.status is Status.COMMIT and (after.term != current or revised.has(keys.TERM)):
            self._report("N-2", f"{after} was committed in term {current}")
        if after.status is not Status.INITIAL and self._decisions.setdefault(after.cas, after.status) != (
            after.status
        ):
            self._report("N-2", f"transaction {after.cas} was decided twice, now as {after.status}")

    def _created(self, before: Transaction | None, after: Transaction, current: int, floor: int) -> None:
        if before is not None and before.status is Status.INITIAL:
            self._report("N-2", f"{after} was created while {before} was open")
        if after.cas <= max(floor, 0 if before is None else before.cas):
            self._report("A5", f"the CAS of {after} is not new")
        if after.term != current:
            self._report("N-2", f"{after} was created in term {current}")

    def _membership(self, revised: Revised) -> None:
        open_one = revised.before(keys.LAST_TRANSACTION, Transaction)
        if revised.has(keys.MEMBERSHIP_GUARD) and open_one is not None and open_one.status is Status.INITIAL:
            self._report("IM-34", f"somebody joined or left while {open_one} was open")


def owner_of(nonce: str) -> str:
    """Return the process (host/incarnation) that made a nonce."""
    return nonce.rpartition("/")[0]


def _decoded(item: KeyValue | None, kind: type[Record]) -> Record | None:
    return None if item is None else msgspec.json.decode(item.value, type=kind)


class Truth:
    """The committed history, across restarts and restorations of the authority."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.rules = Rules(world.violation)
        self.items: dict[str, KeyValue] = {}
        self.revision = Revision(0)
        self.lineage = 0
        """The number of restorations so far: what was written before one may be gone after it."""
        self.is_committing = False
        """Whether a commit is in progress. A crash inside a commit leaves this set; the commit may or may not
        have happened."""
        self.watchers: list[Callable[[Events], bool]] = []
        """Called with each revision; one that returns False is not called again."""
        self._log: list[Events] = []
        self._revisions: list[int] = []

    def commit(self, fresh: Iterable[Events]) -> None:
        """Record revisions that the store reports as durable."""
        self.is_committing = False
        for events in fresh:
            self._append(events)
            self.watchers = [watcher for watcher in self.watchers if watcher(events)]

    def opened(self, store: "ObservedStore") -> None:
        """Check the opened store: it contains what it had committed, and nothing that was not requested."""
        found = store.contents()
        if store.revision < self.revision:
            self._world.violation("A6", f"revision {self.revision} was committed, {store.revision} is there")
        elif store.revision > self.revision and not self.is_committing and self.revision:
            self._world.violation("A6", f"revision {store.revision} is there and was never committed")
        else:
            self.commit(store.history(max(Revision(self.revision + 1), store.oldest), 1_000_000))
            self._compare(found)

    def restored(self, found: dict[str, KeyValue], events: Events) -> None:
        """Record that an operator replaced the store by an old copy and restored it.

        It continues with *found*.
        """
        self.lineage += 1
        self.is_committing = False
        self.items = {item.key: item for item in found.values()}
        self.rules.restored()
        self._log.append(events)
        self._revisions.append(events.revision)
        self.revision = events.revision

    def put_back(self) -> None:
        """Record that an operator replaced the store by an old copy without restoring.

        Only the content of the copy counts now.
        """
        self.lineage += 1
        self.is_committing = False
        self.items, self.revision = {}, Revision(0)
        self.rules = Rules(self._world.violation)
        self._log, self._revisions = [], []

    def next_after(self, revision: int, prefix: str) -> Events | None:
        """Return the first revision after *revision* with changes below *prefix*, and those changes."""
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
    """A store that reports its commits to the truth, and ended leases to the lease book."""

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
        """Return every item in the file."""
        (listed,) = super().apply([List("")], now_ns=0)
        assert isinstance(listed, Listed)
        return {item.key: item for item in listed.items}


LATE_NS: Final = 3 * SECOND
"""The longest time that a keep-alive may take to arrive."""


@dataclass(slots=True)
class _Page:
    seconds: int
    kept_at: int
    """When the last confirmed keep-alive was sent."""
    tried_at: int
    expired_at: int | None = None


class LeaseBook:
    """The record of leases. Times are the world's: no node's clock is trusted."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._pages: dict[LeaseId, _Page] = {}
        self._started_at = 0

    def authority_started(self) -> None:
        self._started_at = self._world.now

    def restored(self) -> None:
        """Record that an old copy of the authority's file is in place.

        Leases that ended since that copy are valid again.
        """
        for page in self._pages.values():
            page.expired_at = None

    def granted(self, lease: LeaseId, seconds: int, sent_at: int) -> None:
        page = self._pages.setdefault(lease, _Page(seconds, sent_at, self._world.now))
        page.kept_at = max(page.kept_at, sent_at)
        page.tried_at = self._world.now
        self._check(lease, page)

    def tried(self, lease: LeaseId) -> None:
        if lease in self._pages:
            self._pages[lease].tried_at = self._world.now

    def expired(self, leases: list[LeaseId]) -> None:
        """Record that the authority has ended these leases because no keep-alive came."""
        for lease in leases:
            page = self._pages.get(lease)
            if self._world.now < self._started_at + (0 if page is None else page.seconds * SECOND):
                self._world.violation("A4", f"lease {lease} expired right after the authority's restart")
            if page is not None:
                page.expired_at = self._world.now
                self._check(lease, page)

    def check_silent(self, standing: list[LeaseId]) -> None:
        """Require that no lease that is still valid has been silent for more than its time and the slack."""
        for lease in standing:
            page = self._pages.get(lease)
            if page is None:
                continue
            slack = page.seconds * SECOND // 50 + LATE_NS + STALL_NS + 2 * TICK_NS
            quiet_since = max(page.tried_at, self._started_at)
            if self._world.now > quiet_since + page.seconds * SECOND + slack:
                silent_s = (self._world.now - quiet_since) / SECOND
                self._world.violation("A4", f"lease {lease} stands after {silent_s:.1f} s of silence")

    def _check(self, lease: LeaseId, page: _Page) -> None:
        if page.expired_at is not None and page.expired_at < page.kept_at + page.seconds * SECOND:
            early_s = (page.kept_at + page.seconds * SECOND - page.expired_at) / SECOND
            self._world.violation("A4", f"lease {lease} expired {early_s:.3f} s before its time")
