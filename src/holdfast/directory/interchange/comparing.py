"""Whether two masters have the same, told apart from what is only on its way.

Masters are compared by what each shows at one moment. While changes travel, those moments differ without
anything being wrong. So a difference counts only if it was there, the same on both sides, at a moment *and*
at a later one when both had all that either had at the first: then no change that could explain it is under
way. Where both have the same changes at one moment, every difference counts at once.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from msgspec import Struct

from holdfast.clock.vector import Vector

DIGEST_BYTES: Final = 16

Facts = tuple[str, bytes]
"""What is compared of an entry: its name, and a digest of its attributes."""


class Moment(Struct, frozen=True):
    """What one master showed, and what it had."""

    entries: dict[str, Facts]
    """By entryUUID."""
    before: Vector
    """What it had at least: read before the entries were."""
    after: Vector
    """What it had at most: read after them."""


class Difference(Struct, frozen=True):
    """One entry that two masters show otherwise."""

    entry: str
    left: Facts | None
    right: Facts | None

    def __str__(self) -> str:
        if self.left is None and self.right is not None:
            return f"{self.right[0]} ({self.entry}) is at the second alone"
        if self.right is None and self.left is not None:
            return f"{self.left[0]} ({self.entry}) is at the first alone"
        if self.left is not None and self.right is not None and self.left[0] != self.right[0]:
            return f"{self.entry} is {self.left[0]} at the first and {self.right[0]} at the second"
        return f"{self.left[0] if self.left else self.entry} ({self.entry}) has other attributes"


class Comparison(Struct, frozen=True):
    """What came of one look."""

    entries: int
    real: tuple[Difference, ...]
    """Differences that no change under way can explain."""
    open: tuple[Difference, ...]
    """Differences that may go by themselves."""


def facts(dn: str, attributes: Mapping[str, Iterable[bytes]]) -> Facts:
    """What is compared of an entry. The order of attributes and values does not count, nor does case in
    attributes' names."""
    digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for name in sorted(attributes, key=str.lower):
        for value in sorted(attributes[name]):
            for part in (name.lower().encode(), value):
                digest.update(len(part).to_bytes(4, "big") + part)
    return dn, digest.digest()


def differences(left: Moment, right: Moment) -> Iterator[Difference]:
    for entry in sorted({**left.entries, **right.entries}):
        one, other = left.entries.get(entry), right.entries.get(entry)
        if one != other:
            yield Difference(entry, one, other)


class Comparing:
    """Looks again and again, until nothing is open."""

    def __init__(self) -> None:
        self._before: list[tuple[Vector, dict[str, Difference]]] = []

    def look(self, left: Moment, right: Moment) -> Comparison:
        """Compare what both show now. Raises ``DifferentGeneration`` for masters of different data."""
        both = left.after.merged(right.after)
        found = {each.entry: each for each in differences(left, right)}
        count = len({**left.entries, **right.entries})
        if left.before == left.after == right.before == right.after:
            return Comparison(count, tuple(found.values()), ())
        explained = [
            known
            for needed, known in self._before
            if left.before.covers_all(needed) and right.before.covers_all(needed)
        ]
        real = {
            entry: each
            for entry, each in found.items()
            if any(known.get(entry) == each for known in explained)
        }
        self._before.append((both, found))
        del self._before[:-MOMENTS_MAX]
        return Comparison(
            count, tuple(real.values()), tuple(each for entry, each in found.items() if entry not in real)
        )


MOMENTS_MAX: Final = 8
"""How many earlier looks are remembered: the latest that both have caught up with is the one that counts."""
