"""What every committed revision must respect, whoever asked for it: A5, A7, V2, V5, V6, T2, T3.

Each rule sees the items before the revision and the revision itself. The rules do not trust the recipes that
made the change: they know the records only, and what was issued in the whole run.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar

import msgspec

from holdfast.authority import keys
from holdfast.authority.contract import Events, KeyValue
from holdfast.authority.identity import Floors, Identity
from holdfast.authority.names import Entry
from holdfast.authority.outcome import Guard
from holdfast.authority.sessions import HostRecord, Session
from holdfast.authority.standing import Member, Status, TermRecord, Transaction
from holdfast.authority.stores import StoreRecord
from holdfast.authority.views import View

Record = TypeVar("Record")
Items = Mapping[str, KeyValue]


class Revised:
    """One revision and what stood before it, as records."""

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
    """Judges revisions in order. *report* is told of each broken rule."""

    def __init__(self, report: Callable[[str, str], None]) -> None:
        self._report = report
        self._issued: dict[tuple[str, str, int], str] = {}
        """Every number issued in the run, with the nonce of whoever got it."""
        self._decisions: dict[int, Status] = {}
        self._dead: dict[str, str] = {}

    def never_applies(self, nonce: str, said: str) -> None:
        """Somebody was told definitely that the change with this nonce has not been made (A1)."""
        self._dead[nonce] = said

    def winner(self, what: str, name: str, number: int) -> str | None:
        """The nonce to which that number was issued."""
        return self._issued.get((what, name, number))

    def highest(self, what: str) -> int:
        return max((number for kind, _, number in self._issued if kind == what), default=0)

    def decision(self, cas: int) -> Status | None:
        """How that transaction has ended, if it has."""
        return self._decisions.get(cas)

    def restored(self) -> None:
        """What a lost part of the history decided may be decided otherwise now; numbers stay issued."""
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
    """The process (host/incarnation) that made a nonce."""
    return nonce.rpartition("/")[0]


def _decoded(item: KeyValue | None, kind: type[Record]) -> Record | None:
    return None if item is None else msgspec.json.decode(item.value, type=kind)
