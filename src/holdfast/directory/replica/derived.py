"""What follows from changed entries: rows of what is shown, and indexes, kept in step with the state."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from holdfast.directory.conflicts import Disputes
from holdfast.directory.entry import EntryState, decoded_entry, is_surely_of, placed_entry
from holdfast.directory.primitives import EntryId, Value
from holdfast.directory.replica.access import RULE_ATTRIBUTES
from holdfast.directory.replica.indexes import write_difference
from holdfast.directory.replica.maps import SHOWN
from holdfast.directory.replica.overlay import Overlay
from holdfast.directory.replica.ready import READY_BYTES_MAX, decoded_ready, ready, renewed
from holdfast.directory.replica.shown import Shown, ShownRows, encoded_shown
from holdfast.directory.replica.view import visible_values
from holdfast.directory.resolving import DirectoryState
from holdfast.directory.schema.schema import Schema
from holdfast.directory.store import Batch
from holdfast.directory.tree import Tree
from holdfast.model.ids import ReplicaId


@dataclass(frozen=True, slots=True)
class Consequences:
    """What a transaction changed besides its entries' own values."""

    is_name_changed: bool = False
    """Whether an entry is shown elsewhere, under another name, no longer or for the first time."""
    is_tree_changed: bool = False
    """Whether names changed that other entries are below."""
    touches_rules: bool = False
    """Whether access rules may have changed."""
    odd: tuple[EntryId, ...] = ()
    """Entries that lost their name, became glue, or are not where they were moved to."""


NO_CONSEQUENCES: Final = Consequences()


class DerivedRows:
    """Writes, with changed entries, all that is derived from them (G1, G6)."""

    def __init__(
        self, state: DirectoryState, tree: Tree, disputes: Disputes, schema: Schema, overlay: Overlay
    ) -> None:
        self._state = state
        self._tree = tree
        self._disputes = disputes
        self._schema = schema
        self._overlay = overlay
        self.shown = ShownRows(tree, schema, overlay)

    def follow(self, row: bytes) -> None:
        """Let the tree and the disputes know an entry of the store. There are many, and hardly any in which
        several masters' changes stand side by side: the others' attributes are not looked at."""
        entry = placed_entry(row)
        self._tree.update(entry)
        if not is_surely_of(entry.modified.replica, row):
            self._disputes.update(decoded_entry(row))

    def follow_changes(
        self, before: dict[EntryId, EntryState | None], writers: Collection[ReplicaId]
    ) -> list[EntryId]:
        """Let the tree and the disputes follow changes that *writers* made of the entries in *before*; return
        those into which conflicts came."""
        writer = next(iter(writers)) if len(writers) == 1 else None
        disputed = []
        for entry, was in before.items():
            state = self._state.entries[entry]
            if not state.is_shown_as(was):
                self._tree.update(state)
            if was is not None and writer is not None and self._disputes.is_of(writer, was):
                continue  # a master knows its own changes
            if self._disputes.update(state):
                disputed.append(entry)
        return disputed

    def write(self, before: dict[EntryId, EntryState | None], batch: Batch) -> Consequences:
        """The tree has followed the changes of the entries in *before*, which has their states before
        them."""
        is_name_changed = is_tree_changed = touches_rules = False
        odd = []
        for entry, (was, now) in self.shown.write(self._tree.take_touched(), before, batch).items():
            state = self._state.entries.get(entry)
            old_state = before.get(entry, state)
            words = None
            if was == now and state is not None and old_state is not None:
                # What no change was about has the rows that it had.
                words = state.changed_words(old_state)
            old = {} if was is None else visible_values(old_state, was.oddity, words)
            new = {} if now is None else visible_values(state, now.oddity, words)
            write_difference(self._schema, entry, old, new, batch)
            if now is not None and (was != now or (entry in before and words != {})):
                self._write_shown(entry, now, state, words, new, batch)
            if was != now:
                is_name_changed = True
                if now is not None and state is not None and now.oddity & ~(was.oddity if was else 0):
                    odd.append(entry)
                # An entry without anyone below it changes no name but its own.
                is_tree_changed = is_tree_changed or entry not in before or self._tree.has_children(entry)
            touches_rules = touches_rules or any(
                old.get(each) != new.get(each) or (was != now and each in new) for each in RULE_ATTRIBUTES
            )
        return Consequences(is_name_changed, is_tree_changed, touches_rules or is_tree_changed, tuple(odd))

    def _write_shown(
        self,
        entry: EntryId,
        now: Shown,
        state: EntryState | None,
        words: Collection[str] | None,
        values: Mapping[str, Sequence[Value]],
        batch: Batch,
    ) -> None:
        """The row of an entry that is shown; *values* are all, or those of the attributes that changed."""
        if words is not None:
            known = self._overlay.get(SHOWN, entry)
            before = None if known is None else decoded_ready(known)
            row = None if before is None else renewed(self._schema, before, words, values)
            if row is not None:
                if row != before:
                    batch.put(SHOWN, entry, encoded_shown(row))
                return
        size = 0 if state is None else state.bytes_most()
        if words is not None and size <= READY_BYTES_MAX:
            values = visible_values(state, now.oddity)
        batch.put(SHOWN, entry, encoded_shown(ready(self._schema, now, _contents(values), size)))


def _contents(values: Mapping[str, Sequence[Value]]) -> dict[str, list[bytes]]:
    return {name: [each.content for each in found] for name, found in values.items()}
