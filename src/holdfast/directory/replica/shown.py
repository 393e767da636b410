"""What is shown of the tree, kept beside the state, so that a search needs the store alone.

A row for each visible entry says below whom and under which name it is shown, and what is odd about it. It
says nothing of the names above it, so that renaming the top of a large subtree changes one row. All of it is
derived from the tree (G6) and changes in the same transaction as the entries (G1).
"""

from collections.abc import Iterable
from enum import IntFlag
from typing import Final

import msgspec
from msgspec import Struct

from holdfast.directory.dn import parse_rdn, rdn_key
from holdfast.directory.primitives import ROOT, EntryId
from holdfast.directory.replica.maps import NAMES, SHOWN, name_row
from holdfast.directory.replica.overlay import Overlay
from holdfast.directory.results import DirectoryError
from holdfast.directory.schema.schema import Schema
from holdfast.directory.store import Batch
from holdfast.directory.tree import Tree


class Oddity(IntFlag):
    """What is shown of an entry besides what its own state says."""

    NONE = 0
    GLUE = 1
    """It was removed, or has not arrived, and is shown for its children's sake."""
    LACKS_NAME = 2
    """Another entry has its name."""
    MISPLACED = 4
    """It is not where it was moved to, since that would close a cycle."""


class Shown(Struct, frozen=True, array_like=True):
    """Where a visible entry is shown."""

    parent: EntryId
    name: str
    """Its RDN as text."""
    key: bytes
    """Its RDN's key."""
    oddity: int = 0


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final[msgspec.msgpack.Decoder[Shown]] = msgspec.msgpack.Decoder(Shown)

encoded_shown: Final = _encoder.encode
decoded_shown: Final = _decoder.decode


def shown_now(tree: Tree, schema: Schema, entry: EntryId) -> Shown | None:
    """What the tree shows of an entry; None if it is not visible."""
    if not tree.is_visible(entry):
        return None
    oddity = Oddity.NONE
    if entry in tree.glue:
        oddity |= Oddity.GLUE
    if entry in tree.broken:
        oddity |= Oddity.MISPLACED
    own = tree.own_name(entry)
    if own is not None and tree.has_its_name(entry):
        return Shown(tree.parent(entry), own.text, own.key, int(oddity))
    if own is not None:
        oddity |= Oddity.LACKS_NAME
    name = tree.name(entry)
    return Shown(tree.parent(entry), name, key_of(schema, name), int(oddity))


def key_of(schema: Schema, name: str) -> bytes:
    """The key of a name that the server itself put together. Another master's schema may have allowed one
    that cannot be read here; then its bytes are its key."""
    try:
        return rdn_key(parse_rdn(name), schema)
    except DirectoryError:
        return name.lower().encode() + b"\x00"


class ShownRows:
    """Keeps the rows in step with the tree."""

    def __init__(self, tree: Tree, schema: Schema, overlay: Overlay) -> None:
        self._tree = tree
        self._schema = schema
        self._overlay = overlay

    def before(self, entry: EntryId) -> Shown | None:
        """What the rows say."""
        row = self._overlay.get(SHOWN, entry)
        return None if row is None else decoded_shown(row)

    def write(
        self, touched: Iterable[EntryId], others: Iterable[EntryId], batch: Batch
    ) -> dict[EntryId, tuple[Shown | None, Shown | None]]:
        """Write what has changed of the entries that the tree *touched*, but for the rows of those that are
        shown, which have their values too; return what was shown of each, and what is now. Of *others* the
        same is shown as before."""
        looked = {each: (self.before(each), shown_now(self._tree, self._schema, each)) for each in touched}
        changed = {each: pair for each, pair in looked.items() if pair[0] != pair[1]}
        # Names are given back before they are taken: of two entries that swap theirs neither loses its row.
        for before, _ in changed.values():
            if before is not None:
                batch.erase(NAMES, name_row(before.parent, before.key))
        for each, (_, now) in changed.items():
            if now is None:
                batch.erase(SHOWN, each)
            else:
                batch.put(NAMES, name_row(now.parent, now.key), each)
        for each in others:
            if each not in looked:
                now = shown_now(self._tree, self._schema, each)
                looked[each] = (now, now)
        return looked


def is_suffix(shown: Shown, suffix_key: bytes) -> bool:
    """Whether this is the entry that the suffix itself names."""
    return shown.parent == ROOT and shown.key == suffix_key
