"""What hosts and clients do with the authority, one class for each activity.

- Registers: everyone reads and writes them; the reads and transactions must be linearizable.
- Naming: hosts bind, resolve and unbind the same few names, also on behalf of their earlier processes (A7).
- Leasing: hosts take short leases, keep them for a while, then revoke them or let them expire (A4).
- Mirrors: a watcher sees every change once, in order, without a gap (A3).
- Claims: hosts take over groups, and no epoch ever belongs to two hosts (A1, A5, K1).
"""

from collections.abc import Iterable

import msgspec

from holdfast.authority import keys, names
from holdfast.authority.contract import (
    Absent,
    Applied,
    Compacted,
    Compare,
    Equals,
    Get,
    Got,
    KeyValue,
    LeaseGone,
    LeaseGrant,
    LeaseGranted,
    LeaseKeep,
    LeaseRevoke,
    List,
    Listed,
    Put,
    Refused,
    Txn,
    WatchEvent,
)
from holdfast.authority.groups import GroupRecord, Placement, create_group
from holdfast.authority.identity import Identity, read_identity
from holdfast.authority.recipe import InDoubt, NoAnswer, Recipe, Seen
from holdfast.authority.sessions import NoSession, Session
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
from holdfast.model.ids import MILLISECOND, SECOND, Epoch, GroupId, LeaseId, Nonce, Revision
from holdfast.sim.checkers import CompareAndSet, Handle, History, Read, Violation, Write
from holdfast.sim.checkers.linearizability import check
from holdfast.sim.checkers.models import RegisterModel
from holdfast.sim.checkers.unique import check_register
from holdfast.sim.scenarios.authority.host import Actor, HostProcess

WRITTEN, SWAPPED = "written", "swapped"
"""The two kinds of registers: unique writes can be checked quickly, swaps only by a search."""


class Registers:
    """Reads, writes of unique values, and compare-and-set against the value read last."""

    name = "registers"

    def __init__(self, actor: Actor, *, think_ns: int = 60 * MILLISECOND) -> None:
        self.think_ns = think_ns
        self._actor = actor
        self._last: dict[str, str | None] = {}
        self._values = 0

    def round(self) -> Recipe[None]:
        rng = self._actor.rng
        lineage = self._actor.stage.truth.lineage
        kind = rng.choice((WRITTEN, WRITTEN, SWAPPED))
        key = f"registers/{lineage}/{kind}{rng.randrange(2)}"
        if rng.random() < 0.5:
            yield from self._read(key)
        elif kind == WRITTEN:
            yield from self._write(key)
        else:
            yield from self._swap(key)

    def _read(self, key: str) -> Recipe[None]:
        history = self._actor.stage.history()
        handle = history.begin(self._actor.process, key, Read())
        result = yield Get(key)
        if isinstance(result, Got):
            found = None if result.item is None else result.item.value.decode()
            self._last[key] = found
            self._end(history, handle, found)

    def _write(self, key: str) -> Recipe[None]:
        history = self._actor.stage.history()
        value = self._value()
        handle = history.begin(self._actor.process, key, Write(value))
        result = yield Txn((), (Put(key, value.encode()),))
        if isinstance(result, Applied):
            self._end(history, handle, None)
        elif isinstance(result, Refused):
            history.failed(handle)

    def _swap(self, key: str) -> Recipe[None]:
        history = self._actor.stage.history()
        expected, new = self._last.get(key), self._value()
        compare: Compare = Absent(key) if expected is None else Equals(key, expected.encode())
        handle = history.begin(self._actor.process, key, CompareAndSet(expected, new))
        result = yield Txn((compare,), (Put(key, new.encode()),))
        if isinstance(result, Applied | Refused):
            self._last[key] = new if isinstance(result, Applied) else _found(result)
            self._end(history, handle, isinstance(result, Applied))

    def _end(self, history: History, handle: Handle, result: str | bool | None) -> None:
        # An answer from a lineage that has been lost meanwhile proves nothing: its outcome stays unknown.
        if history is self._actor.stage.history():
            history.ok(handle, result)
            self._actor.done(self.name)

    def _value(self) -> str:
        self._values += 1
        return f"{self._actor.process}.{self._values}"


def check_registers(histories: Iterable[History]) -> list[Violation]:
    found: list[Violation] = []
    for history in histories:
        operations = history.operations()
        found += check_register(each for each in operations if WRITTEN in each.key)
        found += check([each for each in operations if SWAPPED in each.key], RegisterModel)
    return found


def _found(refused: Refused) -> str | None:
    (item,) = refused.found
    return None if item is None else item.value.decode()


NAMES = ("north", "south")


class Naming:
    name = "naming"
    think_ns = 250 * MILLISECOND

    def __init__(self, host: HostProcess, former: list[Session]) -> None:
        self._host = host
        self._former = former
        """The sessions of this host, including those of earlier processes, which may send a late unbind."""
        former.append(host.session)

    def round(self) -> Recipe[None]:
        rng = self._host.rng
        name = rng.choice(NAMES)
        choice = rng.random()
        if choice < 0.5:
            yield from self._bind(name)
        elif choice < 0.8:
            yield from self._unbind(name, rng.choice(self._former))
        else:
            answer = yield from names.resolve(name)
            if not isinstance(answer, NoAnswer):
                self._host.done(self.name)

    def _bind(self, name: str) -> Recipe[None]:
        nonce = self._host.nonce()
        while True:
            answer = yield from names.bind(
                name, f"at {self._host.name}", owner=self._host.session, nonce=nonce
            )
            if not isinstance(answer, InDoubt):
                break
            self._host.stage.world.sometimes("a binding in doubt")
        if isinstance(answer, NoSession):
            self._host.ports.stop("the session is gone")
        elif isinstance(answer, Seen | names.Taken):
            self._host.done(self.name)

    def _unbind(self, name: str, owner: Session) -> Recipe[None]:
        nonce = Nonce(f"{owner.host}/{owner.incarnation}/{self._host.nonce().rpartition('/')[2]}")
        answer = yield from names.unbind(name, owner=owner, nonce=nonce)
        while isinstance(answer, InDoubt):
            answer = yield from names.unbind(name, owner=owner, nonce=nonce)
        if not isinstance(answer, NoAnswer):
            self._host.done(self.name)


KEEP, REVOKE = 0.7, 0.1
"""The probabilities that a lease is kept or revoked in a round; otherwise it is abandoned."""


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


ANEW = 0.2
"""The probability that a round ends the watch and begins a new one."""


class Mirror:
    """A copy of all keys below a prefix, kept up to date by a list and a watch from its revision on."""

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
        """Require at the end, when all is quiet, that nothing is missing."""
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


GROUPS = (GroupId(1), GroupId(2))


class Claims:
    """Reads a view and claims the next epoch.

    A claim in doubt is settled by making the same change again (A1, M2).
    """

    name = "claims"
    think_ns = 250 * MILLISECOND

    def __init__(self, host: HostProcess) -> None:
        self._host = host
        self._truth = host.stage.truth
        self._world = host.stage.world

    def round(self) -> Recipe[None]:
        group = self._host.rng.choice(GROUPS)
        standing = self._current_epoch(group)
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

    def _current_epoch(self, group: GroupId) -> Epoch:
        item = self._truth.items.get(keys.view(group))
        return Epoch(0) if item is None else msgspec.json.decode(item.value, type=View).epoch

    def _check_not_stale(self, group: GroupId, before: Epoch, view: View, identity: Identity) -> None:
        """Require that an answer includes what was committed before the question (A5).

        What is below the floor is exempt.
        """
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
