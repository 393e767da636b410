"""What follows from changed entries: rows of what is shown, and indexes, kept in step with the state."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from holdfast.directory.conflicts import Disputes
from holdfast.directory.entry import EntryState
from holdfast.directory.primitives import EntryId
from holdfast.directory.replica.access import RULE_ATTRIBUTES
from holdfast.directory.replica.indexes import write_difference
from holdfast.directory.replica.overlay import Overlay
from holdfast.directory.replica.shown import ShownRows
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
        self.shown = ShownRows(tree, schema, overlay)

    def follow(self, entry: EntryState) -> bool:
        """Let the tree and the disputes follow an entry's state; whether conflicts came into it."""
        self._tree.update(entry)
        return self._disputes.update(entry)

    def follow_changes(
        self, before: dict[EntryId, EntryState | None], writers: Collection[ReplicaId]
    ) -> list[EntryId]:
        """As :meth:`follow`, after changes that *writers* made of the entries in *before*; return those into
        which conflicts came."""
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
