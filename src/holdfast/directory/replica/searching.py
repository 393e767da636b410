"""Searches: which entries of a snapshot a request finds.

A search is a generator, so that its driver decides how much of it happens before others have their turn: it
yields each entry that matches, and None whenever it has looked at some that do not.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from holdfast.directory.dn import ROOT, Dn, is_below
from holdfast.directory.filters.evaluation import matcher
from holdfast.directory.filters.filter import PRESENT_CLASS, Filter
from holdfast.directory.operations import AliasDereferencing, Scope, SearchRequest
from holdfast.directory.primitives import EntryId
from holdfast.directory.replica.planning import candidates, described_in, looks_at_names
from holdfast.directory.replica.snapshot import Snapshot
from holdfast.directory.replica.view import Attributes, EntryView
from holdfast.directory.results import DirectoryError, ResultCode
from holdfast.directory.schema.schema import Schema

PAUSE_AFTER: Final = 32
"""How many entries are looked at before others may have their turn: about a millisecond's work."""
ALIASES_MAX: Final = 16
"""How many aliases may lead to one another before it counts as a loop."""

Readable = Callable[[EntryView], bool]
"""Whether whoever asks may know of an entry."""


def base_of(snapshot: Snapshot, request: SearchRequest, readable: Readable) -> EntryView:
    """The entry at which a search begins. What the client may not read is as if it were not there."""
    view = _readable_view(snapshot, Dn.parse(request.base), readable)
    if request.dereference in (AliasDereferencing.FINDING_BASE, AliasDereferencing.ALWAYS):
        for _ in range(ALIASES_MAX):
            target = view.attributes.get("aliasedObjectName")
            if not target:
                return view
            view = _readable_view(snapshot, Dn.parse(target[0].decode("utf-8", "replace")), readable)
        raise DirectoryError(ResultCode.LOOP_DETECT, f"more than {ALIASES_MAX} aliases lead to one another")
    return view


def _readable_view(snapshot: Snapshot, dn: Dn, readable: Readable) -> EntryView:
    view = snapshot.view(snapshot.find(dn))
    if view is None or not readable(view):
        raise DirectoryError(ResultCode.NO_SUCH_OBJECT, "there is no such entry")
    return view


def found(
    snapshot: Snapshot, base: EntryView, scope: Scope, filter_: Filter, readable: Readable
) -> Iterator[EntryView | None]:
    """The entries of the scope that match, and None now and then."""
    plan = None if scope is Scope.BASE else candidates(filter_, snapshot.schema, snapshot.reader)
    is_in_scope = _in_scope(snapshot, base, scope)
    entries: Iterable[EntryId]
    if plan is None or filter_ == PRESENT_CLASS:
        entries, check_scope, check_filter = _scope(snapshot, base, scope), False, filter_ != PRESENT_CLASS
    else:
        entries, check_scope, check_filter = plan.entries, True, not plan.is_exact
    is_match = Question(filter_, snapshot) if check_filter else None
    for looked, entry in enumerate(entries, start=1):
        if looked % PAUSE_AFTER == 0:
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

    def __init__(self, filter_: Filter, snapshot: Snapshot) -> None:
        self._matcher = matcher(filter_, snapshot.schema)
        self._snapshot = snapshot
        self._is_operational, self._is_counted = needs(filter_, snapshot.schema)
        self._is_about_names = looks_at_names(filter_)

    def __call__(self, view: EntryView) -> bool:
        attributes: Attributes = view.everything() if self._is_operational else view.attributes
        if self._is_counted:
            attributes = {**attributes, **subordinates(self._snapshot, view)}
        return self._matcher(attributes, view.name if self._is_about_names else ROOT) is True


def needs(filter_: Filter, schema: Schema) -> tuple[bool, bool]:
    """Whether a filter looks at what the server says of an entry, and at how many are below it."""
    described = list(described_in(filter_, schema))
    is_operational = any(each is None or each.type.is_operational for each in described)
    counted = ("hasSubordinates", "numSubordinates")
    return is_operational, any(each is not None and each.type.name in counted for each in described)


def subordinates(snapshot: Snapshot, view: EntryView) -> Attributes:
    """How many entries are directly below one."""
    count = sum(1 for _ in snapshot.children(view.id))
    return {
        "hasSubordinates": (b"TRUE" if count else b"FALSE",),
        "numSubordinates": (str(count).encode(),),
    }
