"""Where one more member of a group is best placed: far from its others, and where the load is lowest.

Never two in one location, far from the other members, where the load is lowest (FTC-134, FTC-170). A location
is written from the widest region to the narrowest (``hall1/rack2/host3``). The longer the common beginning of
two locations, the more likely they fail together.
"""

from collections.abc import Collection, Iterable, Mapping

from holdfast.control.replication.spec import HostFact
from holdfast.model.ids import HostId
from holdfast.model.properties import is_within


def choose(
    candidates: Iterable[HostFact],
    beside: Iterable[HostFact],
    load: Mapping[HostId, int],
    *,
    locations: Collection[str] = (),
    busy: Collection[HostId] = (),
) -> HostFact | None:
    """Return the best host for one more member *beside* the existing ones, or None if there is none.

    *load* has the number of members of each host. *locations* are the only ones allowed, if any are named; a
    host is in a location if its own location lies within it. *busy* hosts come after others that are as far
    away, and before nearer ones: it is better to wait for such a host than to put two members close together.
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
            each.host in busy,
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
    busy: Collection[HostId] = (),
) -> list[HostFact]:
    """Return up to *count* hosts for further members, the best first."""
    left, placed = list(candidates), list(beside)
    chosen: list[HostFact] = []
    while len(chosen) < count:
        best = choose(left, placed, load, locations=locations, busy=busy)
        if best is None:
            break
        left.remove(best)
        placed.append(best)
        chosen.append(best)
    return chosen


def shared(one: str, other: str) -> int:
    """Return how many parts two locations have in common, from the widest on."""
    count = 0
    for mine, theirs in zip(one.split("/"), other.split("/"), strict=False):
        if mine != theirs:
            break
        count += 1
    return count
