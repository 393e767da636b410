"""Entries as bytes of search results: which attributes a client asked for and may see, encoded once.

What was made of an entry is kept with it, by what was asked for, as long as the entry does not change.
"""

from collections.abc import Callable, Sequence
from typing import Final

from holdfast.directory.replica.access import INTERNAL, SECRET
from holdfast.directory.replica.ready import HIDES, Ready, parts_of
from holdfast.directory.replica.view import Attributes, EntryView
from holdfast.directory.schema.schema import Schema
from holdfast.ldap.encoding import entry_bytes

ALL_USER: Final = "*"
ALL_OPERATIONAL: Final = "+"
NO_ATTRIBUTES: Final = "1.1"

ENCODED_MAX: Final = 8
"""In how many ways one entry is kept encoded: programs ask in a few ways, again and again."""

CHOSEN_MAX: Final = 1_000
"""Of how many names of attributes it is known whether a search wants them."""
COUNTED: Final = ("hasSubordinates", "numSubordinates")


class Selection:
    """What one search wants of each entry. Equal requests give equal selections."""

    def __init__(
        self, schema: Schema, attributes: tuple[str, ...], *, types_only: bool, sees_all: bool
    ) -> None:
        self.key = (attributes, types_only, sees_all)
        self._schema = schema
        self._types_only = types_only
        self._hidden = () if sees_all else (*SECRET, *INTERNAL)
        self.all_user = not attributes or ALL_USER in attributes
        self.all_operational = ALL_OPERATIONAL in attributes
        words = [each for each in attributes if each not in (ALL_USER, ALL_OPERATIONAL, NO_ATTRIBUTES)]
        found = [schema.find(each) for each in words]
        self._named = [each for each in found if each is not None]
        names = [each.type.name for each in self._named]
        self.wants_operational = self.all_operational or any(each.type.is_operational for each in self._named)
        self._is_ready = not (types_only or self.wants_operational)
        self._chosen: dict[bytes, bool] = {}
        self._sees_all = sees_all
        self.counted = tuple(each for each in COUNTED if each in names) or (
            COUNTED[:1] if self.all_operational else ()
        )

    def of(self, user: Attributes, operational: Attributes) -> list[tuple[str, tuple[bytes, ...]]]:
        """The chosen attributes, in the entry's order."""
        chosen = []
        for attributes, is_all in ((user, self.all_user), (operational, self.all_operational)):
            for name, values in attributes.items():
                if name.partition(";")[0] in self._hidden:
                    continue
                if is_all or (self._named and self._is_named(name)):
                    chosen.append((name, () if self._types_only else values))
        return chosen

    def of_ready(self, ready: Ready) -> bytes | None:
        """The chosen ones of what the store has ready, as bytes; None if there is more to it."""
        if not self._is_ready or (self._sees_all and ready.kind == HIDES):
            return None
        if self.all_user:
            return ready.attributes
        chosen = self._chosen
        parts = []
        for name, part in parts_of(ready.attributes).items():
            is_chosen = chosen.get(name)
            if is_chosen is None:
                if len(chosen) >= CHOSEN_MAX:
                    chosen.clear()
                is_chosen = chosen[name] = bool(self._named) and self._is_named(name.decode())
            if is_chosen:
                parts.append(part)
        return b"".join(parts)

    def _is_named(self, name: str) -> bool:
        found = self._schema.find(name)
        return found is not None and any(each.covers(found) for each in self._named)


def rendered(
    view: EntryView, selection: Selection, counted: Callable[[EntryView], Attributes] | None = None
) -> bytes:
    """The operation bytes of a search result entry. *counted* tells how many entries are below it."""
    known = view.encoded.get(selection.key)
    if known is not None:
        return known
    operational: Attributes = view.operational() if selection.wants_operational else {}
    if selection.counted and counted is not None:
        found = counted(view)
        operational = {**operational, **{name: found[name] for name in selection.counted}}
    data = encoded(view.dn, selection.of(view.attributes, operational))
    # How many are below an entry changes without the entry.
    if not selection.counted:
        if len(view.encoded) >= ENCODED_MAX:
            view.encoded.clear()
        view.encoded[selection.key] = data
    return data


def encoded(dn: str, attributes: Sequence[tuple[str, tuple[bytes, ...]]]) -> bytes:
    return entry_bytes(dn.encode(), tuple((name.encode(), values) for name, values in attributes))
