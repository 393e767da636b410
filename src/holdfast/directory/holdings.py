"""The files of all suffixes below one directory, as ``directory init``, ``serve`` and ``import`` make them.

The first suffix has the directory itself, each further one a place below it, as on a host of a domain. Each
is a :class:`.Master` of its own, with its own number, clock and store.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from holdfast.directory.dn import Dn
from holdfast.directory.hosting.places import further_place, places, why_none
from holdfast.directory.master import About, read_about
from holdfast.directory.replica.snapshot import Suffix
from holdfast.directory.schema.standard import standard_schema
from holdfast.model.errors import InvalidRequest


class Holding(NamedTuple):
    """One suffix, and where its files are or shall be."""

    place: Path
    about: About


def holdings_of(directory: Path) -> tuple[Holding, ...]:
    """What *directory* holds, the first suffix first. Raises ``InvalidRequest`` if that cannot be read."""
    found = [(each, read_about(each)) for each in places(directory)]
    return tuple(Holding(place, about) for place, about in found if about is not None)


def the_holding(directory: Path, wanted: str | None) -> Holding:
    """The suffix *wanted*, or the only one there is. Raises ``InvalidRequest`` if that is not clear."""
    found = holdings_of(directory)
    if not found:
        raise InvalidRequest(why_none(directory))
    if wanted is not None:
        key = _key(wanted)
        for each in found:
            if _key(each.about.suffix) == key:
                return each
        raise InvalidRequest(f"{directory} holds {names_of(found)}, not {wanted}")
    if len(found) > 1:
        raise InvalidRequest(f"{directory} holds several suffixes; say --suffix: {names_of(found)}")
    return found[0]


def holding_above(found: Iterable[Holding], name: str) -> Holding | None:
    """The nearest suffix above *name*, of those that were *found*; None if it is below none."""
    schema, dn = standard_schema(), Dn.parse(name)
    suffixes = [(Suffix(each.about.suffix, schema), each) for each in found]
    above = [each for each in suffixes if each[0].covers(dn, schema)]
    return max(above, key=lambda each: len(each[0].dn))[1] if above else None


def new_holdings(
    directory: Path, found: tuple[Holding, ...], suffixes: Iterable[str], replica: int | None
) -> tuple[Holding, ...]:
    """What is to be made so that *directory* holds these *suffixes* besides those that were *found* there.
    All have one number, if none is named that of those that are there."""
    known = {_key(each.about.suffix) for each in found}
    if replica is None:
        replica = found[0].about.replica if found else 1
    made: list[Holding] = []
    for suffix in suffixes:
        if (key := _key(suffix)) in known:
            continue
        known.add(key)
        place = further_place(directory, suffix) if found or made else directory
        made.append(Holding(place, About(suffix=suffix, replica=replica)))
    return tuple(made)


def is_same(suffix: str, other: str) -> bool:
    return _key(suffix) == _key(other)


def names_of(found: Iterable[Holding]) -> str:
    return ", ".join(each.about.suffix for each in found)


def _key(suffix: str) -> bytes:
    return Suffix(suffix, standard_schema()).key
