"""The attributes of an entry that was read from the store: each is decoded when somebody asks for it.

A change is about one or two attributes of an entry, and all others are written back as they were read. The
states themselves never change; whoever changes an attribute makes another mapping, which shares the rest.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from holdfast.directory.attribute import AttributeState

_decoder: Final[msgspec.msgpack.Decoder[AttributeState]] = msgspec.msgpack.Decoder(AttributeState)


class _Cell:
    """One attribute: as it was read, decoded, or both. Mappings that share a cell have the same in it."""

    __slots__ = ("raw", "state")

    def __init__(self, raw: msgspec.Raw | None, state: AttributeState | None) -> None:
        self.raw = raw
        self.state = state

    def get(self) -> AttributeState:
        state = self.state
        if state is None:
            assert self.raw is not None, "a cell has one or the other"
            state = self.state = _decoder.decode(self.raw)
        return state


class StoredAttributes(Mapping[str, AttributeState]):
    """Attributes by name, equal to a plain mapping of the same."""

    __slots__ = ("_cells",)

    def __init__(self, cells: dict[str, _Cell]) -> None:
        self._cells = cells

    @classmethod
    def read(cls, raws: Mapping[str, msgspec.Raw]) -> "StoredAttributes":
        return cls({name: _Cell(raw, None) for name, raw in raws.items()})

    def __getitem__(self, name: str) -> AttributeState:
        return self._cells[name].get()

    def get(self, name: str, default: "AttributeState | None" = None) -> "AttributeState | None":  # type: ignore[override]  # the abstract one is generic in its default
        cell = self._cells.get(name)
        return default if cell is None else cell.get()

    def __contains__(self, name: object) -> bool:
        return name in self._cells

    def __iter__(self) -> Iterator[str]:
        return iter(self._cells)

    def __len__(self) -> int:
        return len(self._cells)

    __hash__ = None  # type: ignore[assignment]  # as of every mapping

    def replaced(self, name: str, state: AttributeState) -> "StoredAttributes":
        return StoredAttributes({**self._cells, name: _Cell(None, state)})

    def raws(self) -> dict[str, msgspec.Raw | AttributeState]:
        """What is to be written: what was read, wherever nothing has changed."""
        return {name: cell.get() if cell.raw is None else cell.raw for name, cell in self._cells.items()}

    def differing(self, other: "StoredAttributes") -> list[str]:
        """The names whose states may differ from the other's."""
        mine, its = self._cells, other._cells
        return [each for each in {**mine, **its} if mine.get(each) is not its.get(each)]

    def bytes_most(self) -> int:
        """The values have no more bytes than this. Of what nobody has asked for the encoded form counts."""
        size = 0
        for cell in self._cells.values():
            size += _size(cell.get()) if cell.raw is None else len(cell.raw)
        return size


def _size(state: AttributeState) -> int:
    size = 0
    for slot in state.values.values():
        for head in slot.heads:
            size += len(head.wish.value.content)
    return size


def with_attribute(
    attributes: Mapping[str, AttributeState], name: str, state: AttributeState
) -> Mapping[str, AttributeState]:
    """*attributes* with another state of one of them."""
    if type(attributes) is StoredAttributes:
        return attributes.replaced(name, state)
    return {**attributes, name: state}


def differing(mine: Mapping[str, AttributeState], its: Mapping[str, AttributeState]) -> list[str]:
    """The names of attributes whose states may differ: one that no change was about is still the same
    object."""
    if type(mine) is StoredAttributes and type(its) is StoredAttributes:
        return mine.differing(its)
    return [each for each in dict.fromkeys((*mine, *its)) if mine.get(each) is not its.get(each)]


def bytes_most(attributes: Mapping[str, AttributeState]) -> int:
    if type(attributes) is StoredAttributes:
        return attributes.bytes_most()
    return sum(map(_size, attributes.values()))
