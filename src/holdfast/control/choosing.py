"""Where a member is placed: never two in one location, far from the others, where there is the least to do.

FTC-134, FTC-170. A location is written from the widest region to the narrowest (``hall1/rack2/host3``); two
places that share more of its beginning fail together more likely.
"""

from collections.abc import Collection, Iterable, Mapping

from holdfast.control.wishes import HostFact
from holdfast.model.ids import HostId
from holdfast.model.properties import is_within


def choose(
    candidates: Iterable[HostFact],
    beside: Iterable[HostFact],
    load: Mapping[HostId, int],
    *,
    locations: Collection[str] = (),
) -> HostFact | None:
    """The best place for one more member *beside* those there are; None when there is none.

    *load*: how many members each host has. *locations*: the only ones allowed, if any is named; a host is in
    a location that its own lies within.
    """
    taken = [each.location for each in beside]
    fit = [
        each
        for each in candidates
        if each.location not in taken
        and (not locations or any(is_within(each.location, region) for region in locations))
    ]
    return min(
        fit,
        key=lambda each: (
            max((shared(each.location, other) for other in taken), default=0),
            sum(shared(each.location, other) for other in taken),
            load.get(each.host, 0),
            each.host,
        ),
        default=None,
    )


def choose_many(
    count: int,
    candidates: Iterable[HostFact],
    beside: Iterable[HostFact],
    load: Mapping[HostId, int],
    *,
    locations: Collection[str] = (),
) -> list[HostFact]:
    """As many as there are places for, at most *count*, the best first."""
    left, placed = list(candidates), list(beside)
    chosen: list[HostFact] = []
    while len(chosen) < count:
        best = choose(left, placed, load, locations=locations)
        if best is None:
            break
        left.remove(best)
        placed.append(best)
        chosen.append(best)
    return chosen


def shared(one: str, other: str) -> int:
    """How many parts two locations have in common, from the widest on."""
    count = 0
    for mine, theirs in zip(one.split("/"), other.split("/"), strict=False):
        if mine != theirs:
            break
        count += 1
    return count
