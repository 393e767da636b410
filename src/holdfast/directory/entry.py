"""The state of one entry: all that masters know of it, apart from what others' entries make of it.

Existence, name, parent and each value have CSNs of their own, so that changes of different things merge. An
entry that was removed keeps its state (a tombstone), for what may still arrive, until it is purged. Where
the entry is visible, and under which name, also depends on other entries: see :mod:`.tree`.
"""

import re
from collections.abc import Container, Iterator, Mapping
from functools import cache
from operator import itemgetter
from typing import Any, Final

import msgspec
from msgspec import Struct, structs

from holdfast.directory.attribute import AttributeState, joined_seen, slot_key
from holdfast.directory.primitives import EntryId, Name, Value
from holdfast.directory.seen import NOTHING, Seen
from holdfast.directory.slot import Slot, Write
from holdfast.directory.stored_attributes import StoredAttributes, bytes_most, differing
from holdfast.model.csn import ZERO, Csn
from holdfast.model.ids import ReplicaId


class Place(Struct, frozen=True, array_like=True, gc=False):
    """A parent, and the one below which the entry was seen before; None in the place where it was added."""

    parent: EntryId
    before: EntryId | None = None


class Removal(Struct, frozen=True, array_like=True, gc=False):
    """The end of an entry: the youngest of its removals, and what all of them had seen of it."""

    csn: Csn
    seen: Seen

    def joined(self, other: "Removal | None") -> "Removal":
        return self if other is None else Removal(max(self.csn, other.csn), self.seen.joined(other.seen))


class EntryState(Struct, frozen=True, array_like=True, gc=False):
    """What is known of one entry. Values that never change cannot form a cycle, and nobody looks for one
    among the many that are made and dropped (``gc=False``, as of all that it is made of)."""

    id: EntryId
    added: Csn = ZERO
    """When it was added: the source's dncsn. ZERO while only later changes of it have arrived."""
    modified: Csn = ZERO
    """The youngest change of it: the source's lastModifiedCSN."""
    name: Slot[Name] = Slot()
    place: Slot[Place] = Slot()
    removal: Removal | None = None
    attributes: Mapping[str, AttributeState] = {}

    @property
    def is_live(self) -> bool:
        return self.added != ZERO and self.removal is None

    def required(self) -> dict[str, dict[bytes, Value]]:
        """The values of the entry's name, by attribute and slot."""
        found: dict[str, dict[bytes, Value]] = {}
        if self.name.winner is not None:
            for each in self.name.winner.wish.values:
                key = slot_key(each.value, is_single=each.is_single)
                found.setdefault(each.attribute, {})[key] = each.value
        return found

    def values(self, words: Container[str] | None = None) -> dict[str, tuple[Value, ...]]:
        """The visible values, by attribute, sorted by key: those of its name among them. With *words*, of
        the attributes that are one of these, whatever their options."""
        required = self.required()
        visible = {}
        names = dict.fromkeys((*self.attributes, *required))
        chosen = names if words is None else [each for each in names if each.partition(";")[0] in words]
        for attribute in sorted(chosen):
            state = self.attributes.get(attribute, NO_ATTRIBUTE)
            values = state.visible(required.get(attribute, NONE_REQUIRED))
            if values:
                visible[attribute] = values
        return visible

    def changed_words(self, before: "EntryState") -> dict[str, None] | None:
        """The attributes, without their options, whose values may differ from those *before*; None if all
        may, because the name does."""
        if self.name is not before.name:
            return None
        changed = differing(self.attributes, before.attributes)
        return dict.fromkeys([each.partition(";")[0] for each in changed])

    def is_shown_as(self, before: "EntryState | None") -> bool:
        """Whether nothing has changed of it on which its place in the tree depends. What no change was about
        is still the same object."""
        return (
            before is not None
            and self.name is before.name
            and self.place is before.place
            and self.removal is before.removal
            and self.added is before.added
        )

    def bytes_most(self) -> int:
        """No more bytes than this has what is visible of it: counted at once, without asking who won."""
        named = () if self.name.winner is None else self.name.winner.wish.values
        return sum([len(each.value.content) for each in named]) + bytes_most(self.attributes)

    def seen(self) -> Seen:
        """All that a removal of the entry made now replaces."""
        parts = (each.seen() for each in self.attributes.values())
        removed = NOTHING if self.removal is None else self.removal.seen
        whole = removed.joined(self.name.seen()).joined(self.place.seen()).joined(joined_seen(parts))
        return whole.including([csn for csn in (self.added, self.modified) if csn != ZERO])

    def heads(self) -> Iterator[tuple[str, bytes, Write[Any]]]:
        """Every change of the entry that no other has superseded, with its attribute and slot, if any."""
        for head in self.name.heads:
            yield "", b"name", head
        for place in self.place.heads:
            yield "", b"place", place
        for attribute in sorted(self.attributes):
            state = self.attributes[attribute]
            for removal in state.removal.heads:
                yield attribute, REMOVAL, removal
            for key in sorted(state.values):
                for value in state.values[key].heads:
                    yield attribute, key, value

    def unseen_by_removal(self) -> Iterator[tuple[str, bytes, Write[Any]]]:
        """The changes of a removed entry of which none that removed it knew."""
        if self.removal is not None:
            seen = self.removal.seen
            yield from (each for each in self.heads() if not seen.covers(each[2].csn))


REMOVAL: Final = b"-"
"""Stands for the removal of a whole attribute where a slot's key is expected; no value's key begins so."""

NO_ATTRIBUTE: Final = AttributeState()
NONE_REQUIRED: Final[dict[bytes, Value]] = {}

_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(EntryState)


class _Glanced(Struct, frozen=True, array_like=True, gc=False):
    """An entry's bytes, of which attributes are left as they are."""

    id: EntryId
    added: Csn
    modified: Csn
    name: Slot[Name]
    place: Slot[Place]
    removal: Removal | None
    attributes: dict[str, msgspec.Raw]


_glancer: Final = msgspec.msgpack.Decoder(_Glanced)


def encoded_entry(entry: EntryState) -> bytes:
    """The entry's bytes: equal states give equal bytes."""
    if type(entry.attributes) is StoredAttributes:
        fields = (entry.id, entry.added, entry.modified, entry.name, entry.place, entry.removal)
        return _encoder.encode((*fields, _sorted(entry.attributes.raws())))
    return _encoder.encode(structs.replace(entry, attributes=_sorted(entry.attributes)))


def _sorted(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes and their values in order; those that were read from the store have it."""
    return {
        attribute: AttributeState(state.removal, dict(sorted(state.values.items())))
        if isinstance(state, AttributeState) and len(state.values) > 1
        else state
        for attribute, state in sorted(attributes.items(), key=itemgetter(0))
    }


def decoded_entry(data: bytes) -> EntryState:
    return _decoder.decode(data)


def glanced_entry(data: bytes) -> EntryState:
    """As :func:`decoded_entry`, for who is likely to look at a few attributes alone."""
    seen = _glancer.decode(data)
    attributes = StoredAttributes.read(seen.attributes)
    return EntryState(seen.id, seen.added, seen.modified, seen.name, seen.place, seen.removal, attributes)


class _Placed(Struct, frozen=True, array_like=True, gc=False):
    """An entry's bytes, of which the attributes are passed over."""

    id: EntryId
    added: Csn
    modified: Csn
    name: Slot[Name]
    place: Slot[Place]
    removal: Removal | None
    attributes: msgspec.Raw


_placer: Final = msgspec.msgpack.Decoder(_Placed)


def placed_entry(data: bytes) -> EntryState:
    """An entry without its attributes, which takes a fifth of the time: for the tree."""
    seen = _placer.decode(data)
    return EntryState(seen.id, seen.added, seen.modified, seen.name, seen.place, seen.removal)


@cache
def _of_others(replica: ReplicaId) -> re.Pattern[bytes]:
    """Whatever may be a CSN that is not ZERO, nor of *replica*, in an entry's bytes: an array of four, whose
    first is a number of 32 bits; one that looks otherwise is found as well, and whatever else looks alike."""
    own = re.escape(_encoder.encode(replica))
    number = rb"(?:[\x00-\x7f]|\xcc.|\xcd..)"
    return re.compile(
        rb"\x94(?:(?!\xce|\x00\x00\x00\x00)|\xce.{4}" + number + rb"(?!" + own + rb"))", re.DOTALL
    )


def is_surely_of(replica: ReplicaId, data: bytes) -> bool:
    """Whether all changes that an entry's bytes tell of are of one master: seen without decoding them, so a
    few are held for others' that are not."""
    return _of_others(replica).search(data) is None
