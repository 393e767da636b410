"""One snapshot of the store, as searches see it: entries by name, by index, and below one another.

It sees what is committed, at one moment (G8). It needs the store and the schema, and nothing else of the
master: whoever can read the store can answer searches.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

from holdfast.directory.dn import Dn, rdn_key
from holdfast.directory.entry import decoded_entry
from holdfast.directory.primitives import ROOT, EntryId
from holdfast.directory.replica.maps import ENTRIES, NAMES, SHOWN, name_row
from holdfast.directory.replica.ready import Ready, decoded_ready
from holdfast.directory.replica.shown import Oddity, Shown, decoded_shown, is_suffix
from holdfast.directory.replica.view import EntryView
from holdfast.directory.results import DirectoryError, ResultCode
from holdfast.directory.schema.schema import Schema
from holdfast.directory.store import Reader, prefix_end

VIEWS_MAX: Final = 20_000
"""How many entries are kept ready, with their bytes; about 4 KB each."""
FACES_MAX: Final = 100_000
"""Of how many entries the bytes of answers are kept, without the entries; about 1 KB each."""
OWN_VIEWS_MAX: Final = 100
"""How many a snapshot keeps for itself once others are newer: a search looks at each entry once."""


class Suffix:
    """The name of the tree's top."""

    def __init__(self, text: str, schema: Schema) -> None:
        self.dn = Dn.parse(text)
        if not self.dn.rdns:
            raise DirectoryError(ResultCode.INVALID_DN_SYNTAX, "a suffix has at least one part")
        self.text = str(self.dn)
        self.key = self.dn.key(schema)
        self.rdn_key = rdn_key(self.dn.rdn, schema)

    def covers(self, dn: Dn, schema: Schema) -> bool:
        if len(dn) < len(self.dn):
            return False
        end = dn.rdns[len(dn) - len(self.dn) :]
        return end == self.dn.rdns or Dn(end).key(schema) == self.key

    def key_of(self, dn: Dn, schema: Schema) -> bytes:
        """The key of any name. Most end as the suffix is written, and that part is known."""
        own = len(dn) - len(self.dn)
        if own < 0 or dn.rdns[own:] != self.dn.rdns:
            return dn.key(schema)
        return self.key + Dn(dn.rdns[:own]).key(schema)


class Face:
    """What is kept of an entry for answers: bytes that were sent before, and what says who may have them."""

    __slots__ = ("dn", "dn_key", "encoded", "id", "is_elsewhere", "ready", "view")

    def __init__(
        self,
        entry: EntryId,
        dn: str,
        dn_key: bytes,
        *,
        is_elsewhere: bool = False,
        ready: Ready | None = None,
        view: EntryView | None = None,
    ) -> None:
        self.id = entry
        self.dn = dn
        self.dn_key = dn_key
        self.is_elsewhere = is_elsewhere
        self.encoded: dict[object, bytes] = {}
        """By what was asked for."""
        self.ready = ready
        """What the store has ready of it, until it is let go: to keep it would be to keep two answers."""
        self.view = view
        """The entry itself, until it is let go: to keep it would cost several times as much."""

    def let_go(self) -> None:
        """Keep what was sent, and no more."""
        self.ready = self.view = None


class ViewCache:
    """Entries as they are now, kept from one snapshot to the next as long as they do not change."""

    def __init__(self) -> None:
        self.moment = 0
        """How many transactions are committed: snapshots of other moments keep out."""
        self.views: dict[EntryId, EntryView] = {}
        self.faces: dict[EntryId, Face] = {}
        self.found: dict[bytes, EntryId] = {}
        """Entries by the keys of their names."""
        self.names: dict[EntryId, tuple[str, bytes]] = {}
        """The names of entries, and the keys of these."""

    def advance(
        self, changed: Iterable[EntryId], *, is_tree_changed: bool = False, is_name_changed: bool = False
    ) -> None:
        """A transaction is committed that changed these entries, names, or names with others below them."""
        self.moment += 1
        if is_name_changed:
            self.found.clear()
            self.names.clear()
        if is_tree_changed:
            self.views.clear()
            self.faces.clear()
        for each in changed:
            self.views.pop(each, None)
            self.faces.pop(each, None)


class Snapshot:
    """What is committed at one moment. Close it soon."""

    def __init__(
        self, reader: Reader, schema: Schema, suffix: Suffix, cache: ViewCache | None = None
    ) -> None:
        self.reader = reader
        self.schema = schema
        self.suffix = suffix
        self._cache = cache
        self._moment = 0 if cache is None else cache.moment
        self._own: dict[EntryId, EntryView] = {}
        self._names: dict[EntryId, tuple[str, bytes]] = {}

    def close(self) -> None:
        self.reader.close()

    # --- by name

    def top(self) -> EntryId | None:
        """The suffix's own entry."""
        row = self.reader.get(NAMES, name_row(ROOT, self.suffix.rdn_key))
        return None if row is None else EntryId(row)

    def find(self, dn: Dn, key: bytes | None = None) -> EntryId:
        """The entry of a name, whose *key* may be known. Raises ``DirectoryError`` with the part of it that
        exists."""
        cache = self._cache if self._cache is not None and self._cache.moment == self._moment else None
        if cache is None or key is None:
            return self._find(dn)
        known = cache.found.get(key)
        if known is None:
            known = self._find(dn)
            if len(cache.found) >= VIEWS_MAX:
                cache.found.clear()
            cache.found[key] = known
        return known

    def _find(self, dn: Dn) -> EntryId:
        depth = len(dn) - len(self.suffix.dn)
        if depth < 0 or not self.suffix.covers(dn, self.schema):
            raise DirectoryError(ResultCode.NO_SUCH_OBJECT, "the name is below no suffix that is here")
        top = self.top()
        if top is None:
            raise DirectoryError(ResultCode.NO_SUCH_OBJECT, "the suffix has no entry yet")
        found = top
        for at in range(depth - 1, -1, -1):
            key = rdn_key(dn.rdns[at], self.schema)
            row = self.reader.get(NAMES, name_row(found, key))
            if row is None and found == top:
                row = self.reader.get(NAMES, name_row(ROOT, key))
            if row is None:
                raise DirectoryError(
                    ResultCode.NO_SUCH_OBJECT, "there is no such entry", matched_dn=self.dn(found)[0]
                )
            found = EntryId(row)
        return found

    def shown(self, entry: EntryId) -> Shown | None:
        row = self.reader.get(SHOWN, entry)
        return None if row is None else decoded_shown(row)

    def dn(self, entry: EntryId) -> tuple[str, bytes]:
        """The whole name of a visible entry, and its key."""
        cache = self._cache
        names = cache.names if cache is not None and cache.moment == self._moment else self._names
        known = names.get(entry)
        if known is not None:
            return known
        way: list[tuple[EntryId, Shown]] = []
        each = entry
        above = (self.suffix.text, self.suffix.key)
        while each != ROOT:
            known = names.get(each)
            if known is not None:
                above = known
                break
            shown = self.shown(each)
            if shown is None:
                break  # a parent that is not visible cannot be: the row of its child says otherwise
            way.append((each, shown))
            each = shown.parent
        for each, shown in reversed(way):
            if not is_suffix(shown, self.suffix.rdn_key):
                above = (f"{shown.name},{above[0]}", above[1] + shown.key)
            if len(names) < VIEWS_MAX:
                names[each] = above
        return above

    # --- entries

    def view(self, entry: EntryId) -> EntryView | None:
        """A visible entry; None if there is none of that id."""
        cache = self._cache
        views = cache.views if cache is not None and cache.moment == self._moment else self._own
        found = views.get(entry) or self.made(entry)
        if found is not None and entry not in views:
            _make_room(views, VIEWS_MAX if views is not self._own else OWN_VIEWS_MAX)
            views[entry] = found
        return found

    def made(self, entry: EntryId) -> EntryView | None:
        """As :meth:`view`, and nothing is kept of it."""
        shown = self.shown(entry)
        if shown is None:
            return None
        row = self.reader.get(ENTRIES, entry)
        name, key = self.dn(entry)
        state = None if row is None else decoded_entry(row)
        return EntryView(self.schema, entry, state, name, key, shown.oddity)

    def face(self, entry: EntryId) -> Face | None:
        """What answers need of a visible entry; None if there is none of that id."""
        cache = self._cache
        faces = cache.faces if cache is not None and cache.moment == self._moment else None
        found = None if faces is None else faces.get(entry)
        if found is None and (found := self._face(entry)) is not None and faces is not None:
            _make_room(faces, FACES_MAX)
            faces[entry] = found
        return found

    def _face(self, entry: EntryId) -> Face | None:
        row = self.reader.get(SHOWN, entry)
        if row is None:
            return None
        ready = decoded_ready(row)
        if ready.kind and ready.schema == self.schema.mark and not is_suffix(ready, self.suffix.rdn_key):
            above, key = self.dn(ready.parent)
            return Face(entry, f"{ready.name},{above}", key + ready.key, ready=ready)
        view = self.made(entry)
        assert view is not None, "it is shown"
        return Face(entry, view.dn, view.dn_key, is_elsewhere=view.is_elsewhere, view=view)

    def children(self, entry: EntryId) -> Iterator[EntryId]:
        """The visible entries directly below another, by name. Below the suffix's own stand also those that
        have no other place."""
        yield from self._below(entry)
        if entry == self.top():
            for each in self._below(ROOT):
                if each != entry:
                    yield each

    def _below(self, parent: EntryId) -> Iterator[EntryId]:
        for _, value in self.reader.rows(NAMES, start=parent, end=prefix_end(parent)):
            yield EntryId(bytes(value))

    def has_children(self, entry: EntryId) -> bool:
        return next(self.children(entry), None) is not None

    def subtree(self, entry: EntryId) -> Iterator[EntryId]:
        """The entry and all below it, parents first."""
        levels: list[Iterator[EntryId]] = [iter((entry,))]
        while levels:
            each = next(levels[-1], None)
            if each is None:
                levels.pop()
            else:
                yield each
                levels.append(self.children(each))

    def is_odd(self, entry: EntryId) -> bool:
        shown = self.shown(entry)
        return shown is not None and shown.oddity != Oddity.NONE


def _make_room(kept: dict[EntryId, Any], most: int) -> None:
    """Forget some of those that were kept first, if there are so many."""
    if len(kept) >= most:
        for each in list(islice(kept, most // 8)):
            del kept[each]
