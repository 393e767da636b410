"""An entry as clients see it: user attributes, and what the server says of it.

Creation and modification times are those of the entry's CSNs, so all masters show the same.
"""

from collections.abc import Container, Iterator
from datetime import UTC, datetime
from typing import Final

from holdfast.directory.conflicts import entry_conflicts
from holdfast.directory.dn import ROOT as ROOT_DN
from holdfast.directory.dn import Dn
from holdfast.directory.entry import EntryState
from holdfast.directory.primitives import EntryId, Value, uuid_text
from holdfast.directory.replica.shown import Oddity
from holdfast.directory.results import DirectoryError
from holdfast.directory.schema.checking import classes_of, structural_class
from holdfast.directory.schema.schema import Schema
from holdfast.model.csn import ZERO, Csn

Attributes = dict[str, tuple[bytes, ...]]

GLUE_CLASSES: Final = (
    Value(b"2.5.6.0", b"top"),
    Value(b"2.25.201733915087124226513986227104352196921.101", b"glue"),
)
SUBSCHEMA_DN: Final = "cn=subschema"
REFERRAL: Final = b"referral"
"""The class of entries that stand for others elsewhere (RFC 3296)."""


def visible_values(
    state: EntryState | None, oddity: int, words: Container[str] | None = None
) -> dict[str, tuple[Value, ...]]:
    """The values that clients see, by the attribute's name in changes. Of glue that is its name alone. With
    *words*, of these attributes at least."""
    if state is not None and not oddity & Oddity.GLUE:
        return state.values(words)
    required = {} if state is None else state.required()
    values = {name: tuple(found[key] for key in sorted(found)) for name, found in required.items()}
    return {**values, "objectclass": GLUE_CLASSES}


class EntryView:
    """One visible entry in one snapshot."""

    # A view does not keep the entry's state, which is several times as large: many views are kept.
    __slots__ = (
        "_added",
        "_disputes",
        "_modified",
        "_operational",
        "attributes",
        "dn",
        "dn_key",
        "encoded",
        "id",
        "is_elsewhere",
        "oddity",
        "schema",
    )

    def __init__(
        self,
        schema: Schema,
        entry: EntryId,
        state: EntryState | None,
        dn: str,
        dn_key: bytes,
        oddity: int,
    ) -> None:
        self.schema = schema
        self.id = entry
        self._added = ZERO if state is None else state.added
        self._modified = ZERO if state is None else state.modified
        self._disputes = tuple(disputes(state, oddity))
        self.dn = dn
        self.dn_key = dn_key
        self.oddity = oddity
        self.encoded: dict[object, bytes] = {}
        """What a face made of it before, by what was asked for."""
        self.attributes: Attributes = {}
        """The user attributes, as the schema spells them."""
        stored: Attributes = {}
        for name, values in visible_values(state, oddity).items():
            described = schema.find(name)
            contents = tuple(each.content for each in values)
            if described is None:
                self.attributes[name] = contents
            elif described.type.is_operational:
                stored[described.name] = contents
            else:
                self.attributes[described.name] = contents
        self._operational = stored
        self.is_elsewhere = "aliasedObjectName" in self.attributes or any(
            each.lower() == REFERRAL for each in self.attributes.get("objectClass", ())
        )
        """Whether a search that meets it may have to look elsewhere: an alias or a referral."""

    @property
    def name(self) -> Dn:
        try:
            return Dn.parse(self.dn)
        except DirectoryError:
            return ROOT_DN

    def operational(self) -> Attributes:
        """What the server says of the entry; subordinates are counted by the snapshot."""
        found: Attributes = {
            "entryUUID": (uuid_text(self.id).encode(),),
            "entryDN": (self.dn.encode(),),
            "subschemaSubentry": (SUBSCHEMA_DN.encode(),),
        }
        classes, _ = classes_of(self.schema, self.attributes.get("objectClass", ()))
        structural = structural_class(classes)
        if structural is not None:
            found["structuralObjectClass"] = (structural.name.encode(),)
        if self._added != ZERO:
            found["createTimestamp"] = (generalized_time(self._added),)
            found["modifyTimestamp"] = (generalized_time(self._modified),)
            found["lastModifiedCSN"] = (self._modified.operation.text().encode(),)
        if self._disputes:
            found["conflict"] = self._disputes
        found.update(self._operational)
        return found

    def everything(self) -> Attributes:
        """All attributes, for a filter to look at."""
        return {**self.attributes, **self.operational()}


def disputes(state: EntryState | None, oddity: int) -> Iterator[bytes]:
    """What masters did at once with an entry, of which not all could be, for people to read."""
    if oddity & Oddity.LACKS_NAME:
        yield b"name: another entry has the name that this one was given"
    if oddity & Oddity.MISPLACED:
        yield b"cycle: it was moved below an entry that was moved below it"
    if oddity & Oddity.GLUE:
        yield b"glue: it was removed, and has entries below it of which its removal did not know"
    elif state is not None and _may_be_disputed(state):
        for each in entry_conflicts(state):
            lost = f"{each.lost.change} of {each.attribute}" if each.attribute else each.lost.change
            yield f"{each.kind}: {lost} {each.lost.csn} lost to {each.kept.csn}".encode()


def _may_be_disputed(state: EntryState) -> bool:
    """Whether anything of an entry was written to by someone who did not know of another: a quick look, since
    hardly any was."""
    return (
        len(state.name.heads) > 1
        or len(state.place.heads) > 1
        or any(
            each.removal.heads or any(len(slot.heads) > 1 for slot in each.values.values())
            for each in state.attributes.values()
        )
    )


def generalized_time(csn: Csn) -> bytes:
    return datetime.fromtimestamp(csn.timestamp, UTC).strftime("%Y%m%d%H%M%SZ").encode()
