"""The maps of a replica's store: what stands under which key.

==============  ================================  ============================================================
map             key                               value
==============  ================================  ============================================================
``entries``     entryUUID                         the entry's whole state, tombstones included
``shown``       entryUUID                         below whom, and under which name, a visible entry is shown,
                                                  and its attributes as answers have them
``names``       parent's entryUUID, name          the entryUUID of the visible entry of that name
``index``       attribute, kind, key, entryUUID   nothing: the entry has such a value
``updates``     replica, T, S                     the update of that CSN: the changelog
``left``        entryUUID of a parent             when an entry was last moved away from it (G7)
``replica``     words                             identity, vector, what was trimmed and purged
``kept``        replication's own                 replication's own
==============  ================================  ============================================================
"""

import hashlib
from typing import Final

from msgspec import Struct

from holdfast.directory.primitives import EntryId
from holdfast.directory.store import MapName
from holdfast.model.csn import Csn
from holdfast.model.ids import ReplicaId

ENTRIES: Final = "entries"
SHOWN: Final = "shown"
NAMES: Final = "names"
INDEX: Final = "index"
UPDATES: Final = "updates"
LEFT: Final = "left"
REPLICA: Final = "replica"
KEPT: Final = "kept"

MAPS: Final[tuple[MapName, ...]] = (ENTRIES, SHOWN, NAMES, INDEX, UPDATES, LEFT, REPLICA, KEPT)

FORMAT: Final = 2
"""The number of this layout. Of a store in format 1, which has no answers ready, entries get theirs when they
change; who knows format 1 alone refuses this, since he would change entries and not their answers."""
FORMATS: Final = (1, FORMAT)

IDENTITY: Final = b"identity"
VECTOR: Final = b"vector"
TRIMMED: Final = b"trimmed"
PURGED: Final = b"purged"
CSNSTATE: Final = b"csnstate"
"""In the map of replication's own rows: the state of the generator's entry (CSN-43)."""
PURGING: Final = b"purging"
"""Until where a purge is on its way that takes several transactions."""


class Identity(Struct, frozen=True, kw_only=True):
    """Which data these are."""

    format: int = FORMAT
    suffix: str
    generation: str


NAME_KEY_MAX: Final = 400
"""How long a name's key stands in a key of the store; a longer one ends in its digest."""
INDEX_KEY_MAX: Final = 380
ATTRIBUTE_KEY_MAX: Final = 64
_DIGEST: Final = 32


def bounded(key: bytes, most: int) -> bytes:
    """The key, if it is short enough; else its beginning, so that order is kept roughly, and its digest."""
    return key if len(key) <= most else key[: most - _DIGEST] + hashlib.sha256(key).digest()


def name_row(parent: EntryId, key: bytes) -> bytes:
    return parent + bounded(key, NAME_KEY_MAX)


def update_row(csn: Csn) -> bytes:
    """By replica, and then in order: what a consumer lacks of one replica is a range."""
    return b"%b%b%b" % (
        csn.replica.to_bytes(2, "big"),
        csn.timestamp.to_bytes(4, "big"),
        csn.sequence.to_bytes(2, "big"),
    )


def updates_of(replica: ReplicaId) -> tuple[bytes, bytes | None]:
    """Where the updates of one replica begin and end."""
    after = None if replica == 0xFFFF else (replica + 1).to_bytes(2, "big")
    return replica.to_bytes(2, "big"), after


EQUALITY: Final = b"="
PIECES: Final = b"*"
PRESENCE: Final = b"?"


def index_prefix(attribute: str, kind: bytes) -> bytes:
    """All rows of one index of one attribute type, which is named by the lower case of its first name."""
    return bounded(attribute.encode(), ATTRIBUTE_KEY_MAX) + b"\x00" + kind


def index_value(key: bytes) -> bytes:
    """A value's key so that it ends visibly, and the order of values is the order of rows."""
    return bounded(key.replace(b"\x00", b"\x00\xff"), INDEX_KEY_MAX) + b"\x00\x01"
