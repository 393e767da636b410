"""What a replica knows that belongs to no entry, as the first record of an export with state::

    dn: cn=replica,cn=config
    objectClass: replica
    replicaSuffix: dc=example,dc=com
    replicaVector: 2f6c 03626325e00010001             the data's generation, each master's newest change
    purgedVector: 2f6c 03626325e00010001              state that only older changes needed is gone
    leftCSN: 8c5a... 069abc00100000001                a parent that an entry was moved away from, and when

Whoever reads an export knows by this record which changes it has, and that all its entries have their state.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from holdfast.clock.vector import Vector
from holdfast.directory.interchange.entry_text import read_uuid
from holdfast.directory.ldif import EntryRecord, InvalidLdif, write_line
from holdfast.directory.primitives import EntryId, uuid_text
from holdfast.model.csn import Csn, parse
from holdfast.model.errors import InvalidRequest

REPLICA_DN: Final = "cn=replica,cn=config"


class ReplicaText(Struct, frozen=True, kw_only=True):
    """What the record says."""

    suffix: str
    vector: Vector
    purged: Vector | None = None
    left: Mapping[EntryId, Csn] = {}


def replica2str(replica: ReplicaText) -> bytes:
    lines = [
        write_line("dn", REPLICA_DN.encode()),
        write_line("objectClass", b"replica"),
        write_line("replicaSuffix", replica.suffix.encode()),
        write_line("replicaVector", replica.vector.text().encode()),
    ]
    if replica.purged is not None:
        lines.append(write_line("purgedVector", replica.purged.text().encode()))
    for entry, csn in sorted(replica.left.items()):
        lines.append(write_line("leftCSN", f"{uuid_text(entry)} {csn}".encode()))
    return b"".join(lines) + b"\n"


def is_replica(record: object) -> bool:
    return isinstance(record, EntryRecord) and record.dn.lower() == REPLICA_DN


def str2replica(record: EntryRecord) -> ReplicaText:
    """Raises ``InvalidLdif`` with the number of the record's line."""
    values = {
        each.description.lower(): [value.decode("utf-8", "replace") for value in each.values]
        for each in record.attributes
    }
    try:
        (suffix,) = values["replicasuffix"]
        (vector,) = values["replicavector"]
        purged = values.get("purgedvector", [])
        left = {}
        for text in values.get("leftcsn", ()):
            entry, _, csn = text.partition(" ")
            left[read_uuid(entry)] = parse(csn)
        return ReplicaText(
            suffix=suffix,
            vector=Vector.parse(vector),
            purged=Vector.parse(purged[0]) if purged else None,
            left=left,
        )
    except (InvalidRequest, ValueError, KeyError) as error:
        raise InvalidLdif(record.line, f"what {REPLICA_DN} says cannot be read: {error}") from error
