"""Searches: which entries of a snapshot a request finds.

A search is a generator, so that its driver decides how much of it happens before others have their turn: it
yields each entry that matches, and None whenever it has looked at some that do not.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from holdfast.directory.dn import ROOT, Dn, is_below
from holdfast.directory.filters.evaluation import matcher
from holdfast.directory.filters.filter import And, Filter, Not, Or, Present
from holdfast.directory.operations import AliasDereferencing, Scope
from holdfast.directory.primitives import EntryId
from holdfast.directory.replica.planning import candidates, described_in, looks_at_names, parts_of
from holdfast.directory.replica.snapshot import Snapshot
from holdfast.directory.replica.view import Attributes, EntryView
from holdfast.directory.results import DirectoryError, ResultCode
from holdfast.directory.schema.schema import Schema

PAUSE_AFTER: Final = 32
"""How many entries are looked at before others may have their turn: about a millisecond's work. With a filter
of many parts it is fewer."""
ALIASES_MAX: Final = 16
"""How many aliases may lead to one another before it counts as a loop."""

Readable = Callable[[EntryView], bool]
"""Whether whoever asks may know of an entry."""


def base_of(
    snapshot: Snapshot, dn: Dn, key: bytes, dereference: AliasDereferencing, readable: Readable
) -> EntryView:
    """The entry at which a search begins. What the client may not read is as if it were not there."""
    view = _readable_view(snapshot, dn, key, readable)
    if dereference in (AliasDereferencing.FINDING_BASE, AliasDereferencing.ALWAYS):
        for _ in range(ALIASES_MAX):
            target = view.attributes.get("aliasedObjectName")
            if not target:
                return view
            name = Dn.parse(target[0].decode("utf-8", "replace"))
            view = _readable_view(snapshot, name, name.key(snapshot.schema), readable)
        raise DirectoryError(ResultCode.LOOP_DETECT, f"more than {ALIASES_MAX} aliases lead to one another")
    return view


def _readable_view(snapshot: Snapshot, dn: Dn, key: bytes, readable: Readable) -> EntryView:
    view = snapshot.view(snapshot.find(dn, key))
    if view is None or not readable(view):
        raise DirectoryError(ResultCode.NO_SUCH_OBJECT, "there is no such entry")
    return view


def found(
    snapshot: Snapshot,
    base: EntryView,
    scope: Scope,
    filter_: Filter,
    readable: Readable,
    hidden: tuple[str, ...] = (),
) -> Iterator[EntryView | None]:
    """The entries of the scope that match, and None now and then. What a filter says of *hidden* attributes
    is undefined: nobody finds out by asking what must not be seen."""
    filter_ = without(filter_, hidden, snapshot.schema) if hidden else filter_
    is_everything = isinstance(filter_, Present) and filter_.description.lower() == "objectclass"
    is_planned = scope is not Scope.BASE and not is_everything
    plan = candidates(filter_, snapshot.schema, snapshot.reader) if is_planned else None
    is_in_scope = _in_scope(snapshot, base, scope)
    entries: Iterable[EntryId]
    if plan is None:
        entries, check_scope, check_filter = _scope(snapshot, base, scope), False, not is_everything
    else:
        entries, check_scope, check_filter = plan.entries, True, not plan.is_exact
    is_match = Question(filter_, snapshot, hidden) if check_filter else None
    pause_after = max(1, PAUSE_AFTER // (1 + parts_of(filter_) // 8)) if check_filter else PAUSE_AFTER
    for looked, entry in enumerate(entries, start=1):
        if looked % pause_after == 0:
            yield None
        view = snapshot.view(entry)
        if (
            view is not None
            and (not check_scope or is_in_scope(view))
            and readable(view)
            and (is_match is None or is_match(view))
        ):
            yield view


def _scope(snapshot: Snapshot, base: EntryView, scope: Scope) -> Iterable[EntryId]:
    match scope:
        case Scope.BASE:
            return (base.id,)
        case Scope.ONE_LEVEL:
            return snapshot.children(base.id)
        case Scope.SUBTREE:
            return snapshot.subtree(base.id)
        case Scope.SUBORDINATES:
            return (each for each in snapshot.subtree(base.id) if each != base.id)


def _in_scope(snapshot: Snapshot, base: EntryView, scope: Scope) -> Callable[[EntryView], bool]:
    key = base.dn_key
    match scope:
        case Scope.SUBTREE:
            return lambda view: is_below(view.dn_key, key)
        case Scope.SUBORDINATES:
            return lambda view: view.id != base.id and is_below(view.dn_key, key)
        case Scope.ONE_LEVEL:
            return lambda view: (
                view.id != base.id and is_below(view.dn_key, key) and _is_child(snapshot, view, key)
            )
        case Scope.BASE:
            return lambda view: view.id == base.id


def _is_child(snapshot: Snapshot, view: EntryView, key: bytes) -> bool:
    shown = snapshot.shown(view.id)
    return shown is not None and view.dn_key == key + shown.key


class Question:
    """A filter, prepared once, asked of entries with what it needs to know of them."""

    def __init__(self, filter_: Filter, snapshot: Snapshot, hidden: tuple[str, ...] = ()) -> None:
        self._matcher = matcher(filter_, snapshot.schema)
        self._snapshot = snapshot
        looks_at_all = any(each is None for each in described_in(filter_, snapshot.schema))
        self._hidden = hidden if looks_at_all else ()
        self._is_operational, self._is_counted = needs(filter_, snapshot.schema)
        self._is_about_names = looks_at_names(filter_)

    def __call__(self, view: EntryView) -> bool:
        attributes: Attributes = view.everything() if self._is_operational else view.attributes
        if self._is_counted:
            attributes = {**attributes, **subordinates(self._snapshot, view)}
        if self._hidden:
            attributes = {name: values for name, values in attributes.items() if name not in self._hidden}
        return self._matcher(attributes, view.name if self._is_about_names else ROOT) is True


def needs(filter_: Filter, schema: Schema) -> tuple[bool, bool]:
    """Whether a filter looks at what the server says of an entry, and at how many are below it."""
    described = list(described_in(filter_, schema))
    is_operational = any(each is None or each.type.is_operational for each in described)
    counted = ("hasSubordinates", "numSubordinates")
    return is_operational, any(each is not None and each.type.name in counted for each in described)


def without(filter_: Filter, hidden: tuple[str, ...], schema: Schema) -> Filter:
    """The filter with the parts about *hidden* attributes undefined."""
    if not any(each is not None and each.type.name in hidden for each in described_in(filter_, schema)):
        return filter_
    match filter_:
        case And(operands):
            return And(tuple(without(each, hidden, schema) for each in operands))
        case Or(operands):
            return Or(tuple(without(each, hidden, schema) for each in operands))
        case Not(operand):
            return Not(without(operand, hidden, schema))
        case _:
            return UNDEFINED


UNDEFINED: Final = Present("")
"""A part that is about no attribute there is."""


def subordinates(snapshot: Snapshot, view: EntryView) -> Attributes:
    """How many entries are directly below one."""
    count = sum(1 for _ in snapshot.children(view.id))
    return {
        "hasSubordinates": (b"TRUE" if count else b"FALSE",),
        "numSubordinates": (str(count).encode(),),
    }
