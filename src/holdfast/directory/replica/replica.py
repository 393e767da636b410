"""One replica of one suffix: what clients ask and what other masters send, made durable together.

Rule G1. Entries, what is shown of them, indexes, the changelog and the vector change in one transaction of
the store. A client hears of its change, and another master of what it sent, when that is on the disk.
Searches see what is committed and nothing else.

The replica judges an operation by all that it has accepted before, committed or not: transactions are
committed in their order. A failed commit is the end (D1): nothing is answered any more.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import msgspec

from holdfast.clock import Generator
from holdfast.clock.vector import Vector
from holdfast.directory.conflicts import Conflict, Disputes, conflicts
from holdfast.directory.dn import Dn
from holdfast.directory.entry import EntryState
from holdfast.directory.issuing import Operation, settle
from holdfast.directory.operations import Change
from holdfast.directory.primitives import ENTRY_ID_BYTES, EntryId, MoveEntry, random_id
from holdfast.directory.replica import changelog
from holdfast.directory.replica.derived import DerivedRows
from holdfast.directory.replica.judging import judged
from holdfast.directory.replica.maps import (
    ENTRIES,
    FORMAT,
    FORMATS,
    IDENTITY,
    KEPT,
    LEFT,
    PURGED,
    PURGING,
    REPLICA,
    TRIMMED,
    UPDATES,
    Identity,
    update_row,
)
from holdfast.directory.replica.overlay import Overlay, StoredEntries
from holdfast.directory.replica.purge_slices import PURGE_SLICE, PurgeSlices
from holdfast.directory.replica.seam import ReplicaListener
from holdfast.directory.replica.shown import Oddity
from holdfast.directory.replica.sight import Sight
from holdfast.directory.replica.snapshot import Snapshot, Suffix, ViewCache
from holdfast.directory.replica.transactions import Done, Sequel, Transactions
from holdfast.directory.replica.update import Update, check_update, encoded_update
from holdfast.directory.replica.view import EntryView
from holdfast.directory.resolving import DirectoryState, NeedsInitialisation
from holdfast.directory.results import DirectoryError, ResultCode
from holdfast.directory.schema.schema import Schema
from holdfast.directory.store import Batch, Reader, Store, prefix_end
from holdfast.directory.tree import Tree
from holdfast.model.csn import Csn, parse
from holdfast.model.errors import InvalidRequest, Overloaded, Unavailable, invariant
from holdfast.model.ids import ReplicaId
from holdfast.model.ports import Random, Token, Trace


@dataclass(frozen=True, slots=True)
class ReplicaPorts:
    """What a replica stands on. The generator is its own, and open; the owner drives it."""

    store: Store
    generator: Generator
    random: Random
    trace: Trace


class Replica:
    """A :class:`.ReplicaSeam`, and what the LDAP door asks. The store calls ``on_committed``."""

    def __init__(
        self,
        ports: ReplicaPorts,
        schema: Schema,
        suffix: str,
        *,
        on_failed: Callable[[str], None] = lambda why: None,
        purge_slice: int = PURGE_SLICE,
    ) -> None:
        """*on_failed* is called once, when nothing can be committed any more: the process must end (D1).
        *purge_slice* is how many entries one slice of a purge passes by."""
        self._ports = ports
        self.generator = ports.generator
        self._on_failed = on_failed
        self.schema = schema
        self.suffix_name = Suffix(suffix, schema)
        self._overlay = Overlay(ports.store)
        self._entries = StoredEntries(self._overlay)
        self._state = DirectoryState(self._entries)
        self._tree = Tree()
        self._disputes = Disputes()
        self.sight = Sight(self._state, self._tree, schema, self.suffix_name)
        self._derived = DerivedRows(self._state, self._tree, self._disputes, schema, self._overlay)
        self._purge = PurgeSlices(self._state, self._tree, self._entries, self._overlay, purge_slice)
        self._vector: Vector | None = None
        self._accepted: Vector | None = None
        """The vector with what is on its way."""
        self._trimmed: Vector | None = None
        self._transactions = Transactions(ports.store, self._overlay, ports.generator)
        self._listener: ReplicaListener | None = None
        self._ids = ports.random.stream("directory.entry-ids")
        self.cache = ViewCache()
        self.rules_changed = 0
        """Rises whenever something is committed on which access rules depend."""
        self.failure: str | None = None
        self.gate: Callable[[], None] = lambda: None
        """Raises ``DirectoryError`` while clients may not write here."""

    # --- opening

    def open(self, *, generation: str | None = None) -> None:
        """Read what the store has. *generation* is the mark of new data, for a store that has none.

        Raises ``InvalidRequest`` if the store is of another suffix or layout, or new and there is no mark.
        """
        reader = self._overlay.reader()
        row = reader.get(REPLICA, IDENTITY)
        if row is None:
            if generation is None:
                raise InvalidRequest(f"the store has no data of {self.suffix}: make it with a new generation")
            self._begin(generation)
            return
        identity = msgspec.msgpack.decode(row, type=Identity)
        if identity.format not in FORMATS or Suffix(identity.suffix, self.schema).key != self.suffix_name.key:
            raise InvalidRequest(
                f"the store has data of {identity.suffix} in format {identity.format}, "
                f"not of {self.suffix} in format {FORMAT}"
            )
        self._accepted = self._vector = changelog.vector_in(reader)
        invariant(self._vector is not None, "a store with an identity has a vector")
        trimmed, purged = reader.get(REPLICA, TRIMMED), reader.get(REPLICA, PURGED)
        self._trimmed = Vector.of(identity.generation) if trimmed is None else Vector.parse(trimmed.decode())
        self._state.purged = None if purged is None else Vector.parse(purged.decode())
        for key, value in reader.rows(LEFT):
            self._state.left[EntryId(bytes(key))] = parse(bytes(value).decode())
        for _, value in reader.rows(ENTRIES):
            self._derived.follow(bytes(value))
        self._tree.take_touched()
        newest = None if self._vector is None else self._vector.newest()
        if newest is not None:
            # What is on the disk was seen, whatever the clock's own file says (CSN-19, CSN-20).
            self._ports.generator.observe("own store", newest, override_reason="CSNs of the own store")
        if identity.format != FORMAT:
            self._note_identity(identity.generation)
        if (row := self._overlay.reader().get(REPLICA, PURGING)) is not None:
            self.purge(Vector.parse(row.decode()), None)

    def _begin(self, generation: str) -> None:
        self._accepted = self._vector = self._trimmed = Vector.of(generation)
        self._note_identity(generation)

    def _note_identity(self, generation: str) -> None:
        batch = Batch()
        identity = Identity(suffix=self.suffix, generation=generation)
        batch.put(REPLICA, IDENTITY, msgspec.msgpack.encode(identity))
        self._write(batch)

    @property
    def id(self) -> ReplicaId:
        return self._ports.generator.replica

    @property
    def suffix(self) -> str:
        return self.suffix_name.text

    @property
    def vector(self) -> Vector:
        if self._vector is None:
            raise Unavailable("the replica is not open yet")
        return self._vector

    @property
    def trimmed(self) -> Vector:
        if self._trimmed is None:
            raise Unavailable("the replica is not open yet")
        return self._trimmed

    @property
    def accepted(self) -> Vector:
        """The vector with what is still on its way to the disk."""
        return self.vector if self._accepted is None else self._accepted

    @property
    def pending(self) -> int:
        """How many transactions are on their way to the disk."""
        return len(self._transactions)

    def listen(self, listener: ReplicaListener) -> None:
        self._listener = listener

    # --- clients

    def snapshot(self) -> Snapshot:
        """What is committed now; whoever asks closes it."""
        return Snapshot(self._ports.store.read(), self.schema, self.suffix_name, self.cache)

    def execute(self, request: Change, who: str, done: Done) -> Csn:
        """Judge what a client asks, in the name of *who*, and carry it out; *done* follows when it is on the
        disk. Access was judged before. Raises ``DirectoryError`` if it is refused: then nothing changes."""
        self.gate()
        self._check_room()
        steps = judged(self.sight, request, who, random_id(self._ids.getrandbits(8 * ENTRY_ID_BYTES)))

        def issue(operation: Operation) -> None:
            for step in steps:
                step(operation)

        return self._issue(issue, done)

    def view_now(self, dn: Dn) -> EntryView:
        """An entry as this master sees it, committed or not: what the next operation will meet."""
        entry = self.sight.find(dn)
        shown = self._derived.shown.before(entry)
        state = self._state.entries.get(entry)
        oddity = Oddity.NONE if shown is None else shown.oddity
        return EntryView(self.schema, entry, state, str(dn), dn.key(self.schema), oddity)

    def settle(self, conflict: Conflict, done: Done, *, keep: bool) -> Csn:
        """Resolve a conflict: as it stands, or in favour of what lost."""
        self.gate()
        self._check_room()

        def issue(operation: Operation) -> None:
            operation.changes.extend(settle(self._state, self._tree, conflict, operation.csn, keep=keep))

        return self._issue(issue, done)

    def conflicts(self) -> list[Conflict]:
        """All conflicts that nobody has resolved, as this master sees them."""
        return list(conflicts(self._state, self._tree, self._disputes))

    def _issue(self, issue: Callable[[Operation], None], done: Done) -> Csn:
        generator = self._ports.generator
        try:
            csn = generator.take()
        except (Unavailable, Overloaded) as error:
            raise DirectoryError(
                ResultCode.BUSY, f"no change sequence number can be given: {error}"
            ) from error
        operation = Operation(self._state, self._tree, csn)
        try:
            issue(operation)
            update = Update(tuple(operation.changes))
        except InvalidRequest as error:
            generator.abort(csn)
            if isinstance(error, DirectoryError):
                raise
            raise DirectoryError(ResultCode.UNWILLING_TO_PERFORM, str(error)) from error
        if not update.changes:
            generator.abort(csn)
            raise DirectoryError(ResultCode.UNWILLING_TO_PERFORM, "there is nothing to change")
        self._take((update,), own=csn, done=done)
        return csn

    def _check_room(self) -> None:
        if self.failure is not None:
            raise DirectoryError(ResultCode.UNAVAILABLE, "the store has failed, and the server is ending")
        if self._transactions.is_full:
            raise DirectoryError(ResultCode.BUSY, "too many changes wait for the disk; try again")

    # --- other masters

    def apply(
        self, peer: str, updates: Sequence[Update], token: Token, *, complete_to: Sequence[Csn] = ()
    ) -> None:
        vector = self.accepted
        new = []
        for update in updates:
            check_update(update)
            if vector.covers(update.csn):
                continue
            vector = vector.advanced(update.csn)
            purged = self._state.purged
            if update.csn <= self._state.horizon and not (purged is not None and purged.covers(update.csn)):
                raise NeedsInitialisation(
                    f"the update {update.csn} was never applied here, and state up to {self._state.horizon} "
                    "is purged; initialise the replica that sent it"
                )
            new.append(update)
        marks = [csn for csn in complete_to if csn.replica != self.id and not vector.covers(csn)]
        seen = [update.csn for update in new] + marks
        if seen:
            self._ports.generator.observe(peer, max(seen))
        self._take(tuple(new), tokens=(token,), marks=marks)

    def updates_since(self, vector: Vector) -> changelog.ChangelogReader:
        self.vector.check_generation(vector)
        changelog.check_reaches(self.trimmed, vector)
        reader = self._ports.store.read()
        return changelog.ChangelogReader(reader, changelog.vector_in(reader) or self.vector, vector)

    def heartbeat(self, token: Token) -> Csn:
        csn = self._ports.generator.take()
        self._take((), own=csn, tokens=(token,))
        return csn

    def trim(self, vector: Vector, token: Token) -> int:
        batch = Batch()
        gone = changelog.trim(self._overlay.reader(), vector, batch)
        if gone:
            trimmed = self.trimmed
            self._trimmed = Vector.of(trimmed.generation, (*trimmed, *gone), retired=trimmed.retired)
            batch.put(REPLICA, TRIMMED, self._trimmed.text().encode())
        self._write(batch, Sequel(tokens=(token,)))
        return len(gone)

    def purge(self, vector: Vector, token: Token) -> None:
        batch = Batch()
        self._purge.begin(vector, token, batch)
        self._write(batch)

    @property
    def is_purging(self) -> bool:
        return self._purge.is_under_way

    def purge_on(self) -> None:
        if not self._transactions.is_full:
            batch = Batch()
            tokens = self._purge.go_on(batch)
            self._put_entries(batch)
            if batch.changes:
                self._write(batch, Sequel(tokens=tokens))

    def ensure_purged(self, vector: Vector) -> None:
        """As :meth:`purge`, of a store that was opened: its last purge is done, and seldom lacks anything."""
        if self._state.purged != vector:
            self.purge(vector, None)

    def retire(self, replica: ReplicaId, token: Token) -> None:
        self._accepted = self.accepted.without(replica)
        self._trimmed = self.trimmed.without(replica)
        batch = Batch()
        batch.put(REPLICA, TRIMMED, self._trimmed.text().encode())
        self._write(batch, Sequel(tokens=(token,)))

    def keep(self, rows: Sequence[tuple[bytes, bytes | None]], token: Token) -> None:
        batch = Batch()
        for key, value in rows:
            if value is None:
                batch.erase(KEPT, key)
            else:
                batch.put(KEPT, key, value)
        self._write(batch, Sequel(tokens=(token,)))

    def kept(self, prefix: bytes = b"") -> list[tuple[bytes, bytes]]:
        end = prefix_end(prefix) if prefix else None
        found = self._overlay.reader().rows(KEPT, start=prefix, end=end)
        return [(bytes(key), bytes(value)) for key, value in found]

    def read(self) -> Reader:
        return self._ports.store.read()

    def dump(self) -> bytes:
        return self._state.dump()

    # --- transactions

    def _take(
        self,
        updates: tuple[Update, ...],
        *,
        own: Csn | None = None,
        done: Done | None = None,
        tokens: tuple[Token, ...] = (),
        marks: Iterable[Csn] = (),
    ) -> None:
        """Apply updates to the state, and write all that follows from them in one transaction."""
        batch = Batch()
        before: dict[EntryId, EntryState | None] = {}
        for update in updates:
            for change in update.changes:
                if change.entry not in before:
                    before[change.entry] = self._state.entries.get(change.entry)
                self._state.apply(change)
                if isinstance(change, MoveEntry):
                    for parent in change.leaves:
                        batch.put(LEFT, parent, self._state.left[parent].text().encode())
            batch.put(UPDATES, update_row(update.csn), encoded_update(update))
        disputed = self._derived.follow_changes(before, {update.csn.replica for update in updates})
        consequences = self._derived.write(before, batch)
        for entry in (*disputed, *consequences.odd):
            # The same text at every master that has the same changes.
            name = f"{bytes(entry).hex()}-{self._state.entries[entry].modified}"
            self._ports.trace.note("directory_conflict", conflict=name)
        self._put_entries(batch)
        csns = [update.csn for update in updates] + list(marks) + ([] if own is None else [own])
        vector = self.accepted
        self._accepted = Vector.of(vector.generation, (*vector, *csns), retired=vector.retired)
        sequel = Sequel(
            updates=updates,
            own=own,
            done=done,
            tokens=tokens,
            changed=tuple(before),
            consequences=consequences,
        )
        self._write(batch, sequel)

    def _put_entries(self, batch: Batch) -> None:
        for entry, row in self._entries.take_changed():
            if row is None:
                batch.erase(ENTRIES, entry)
            else:
                batch.put(ENTRIES, entry, row)

    def _write(self, batch: Batch, sequel: Sequel | None = None) -> None:
        self._transactions.write(batch, self.accepted, sequel or Sequel())

    def on_committed(self, token: Token, ok: bool) -> None:
        """The store has committed a transaction, or never will."""
        if self.failure is not None:
            return
        if not ok:
            self._fail("a transaction could not be committed")
            return
        self._vector, sequel = self._transactions.take_committed(token)
        follows = sequel.consequences
        self.cache.advance(
            sequel.changed,
            is_tree_changed=follows.is_tree_changed,
            is_name_changed=follows.is_name_changed,
        )
        if follows.touches_rules:
            self.rules_changed += 1
        if sequel.own is not None:
            self._ports.generator.commit(sequel.own)
            if sequel.done is not None:
                sequel.done(sequel.own)
        if self._listener is not None:
            if sequel.updates:
                self._listener.on_committed(sequel.updates, is_own=sequel.own is not None)
            for each in sequel.tokens:
                self._listener.on_applied(each)

    def close(self) -> None:
        self._overlay.close()

    def _fail(self, why: str) -> None:
        self.failure = why
        self._ports.trace.note("directory_store_failed", why=why)
        if self._listener is not None:
            self._listener.on_failed(why)
        self._on_failed(why)
