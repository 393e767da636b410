"""One search of one client, done a little at a time: limits, pages, sorting, referrals.

A page goes on with the same walk over the same snapshot, so that a client sees one state of the directory
however long it takes (G8), and each entry once; the walk waits in :class:`Pages` between two requests.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from holdfast.directory.operations import SearchRequest
from holdfast.directory.replica.access import INTERNAL, SECRET, Identity
from holdfast.directory.replica.searching import base_of, found, subordinates
from holdfast.directory.replica.snapshot import Snapshot
from holdfast.directory.replica.view import EntryView
from holdfast.directory.results import DirectoryError, ResultCode
from holdfast.ldap.controls import (
    MANAGE_DSA_IT,
    PAGED_RESULTS,
    SORT_REQUEST,
    PagedResults,
    RequestControls,
    SortResult,
    write_paged_results,
    write_sort_result,
)
from holdfast.ldap.encoding import envelope, operation_bytes
from holdfast.ldap.messages import SUCCESS, Control, Result, SearchResultDone, SearchResultReference
from holdfast.ldap.rendering import Selection, rendered
from holdfast.ldap.service import NamedDn, Service
from holdfast.ldap.sorting import Order, in_order, orders, sort_keys

SEARCH_CONTROLS: Final = (PAGED_RESULTS, SORT_REQUEST, MANAGE_DSA_IT)
SLICE_BYTES: Final = 64 << 10
"""How many bytes of answers a search writes before others have their turn."""
SLICE_STEPS: Final = 64
"""How many entries it writes before others have their turn; it also stops where the walk pauses."""


@dataclass(slots=True)
class Walk:
    """What is left of a search: an iterator over a snapshot, and how it is to be answered."""

    snapshot: Snapshot
    views: Iterator[EntryView | None]
    request: SearchRequest
    selection: Selection
    sort: SortResult | None
    shows_referrals: bool
    identity: Identity
    size_left: int | None
    """How many entries may still be returned; None if any number."""
    is_used: float = 0.0
    ahead: EntryView | None = None
    """An entry that was found and belongs to the next page."""


class SearchTask:
    """A search under way. ``step`` appends what there is to send to *out* and says whether it has ended."""

    def __init__(
        self, service: Service, message_id: int, walk: Walk, page: int | None, deadline: float
    ) -> None:
        self.message_id = message_id
        self.walk: Walk | None = walk
        self._service = service
        self._page = page
        self._deadline = deadline

    def step(self, out: list[bytes], keep: Callable[[Walk], bytes]) -> bool:
        """Go on for a while. *keep* takes the walk of a page that is full, and returns its cookie."""
        walk = self.walk
        if walk is None:
            return True
        written = 0
        try:
            for _ in range(SLICE_STEPS):
                view = walk.ahead if walk.ahead is not None else next(walk.views)
                walk.ahead = None
                if view is None:
                    if self._service.ports.now() > self._deadline:
                        self._end(out, Result(ResultCode.TIME_LIMIT_EXCEEDED, "", "the search took too long"))
                        return True
                    return False
                if self._page == 0:
                    walk.ahead = view
                    self._end_page(out, keep)
                    return True
                if walk.size_left == 0:
                    self._end(out, Result(ResultCode.SIZE_LIMIT_EXCEEDED, "", "there are more entries"))
                    return True
                written += self._send(out, walk, view)
                if written > SLICE_BYTES:
                    return False
        except StopIteration:
            self._end(out, SUCCESS)
            return True
        except DirectoryError as error:
            self._end(out, Result.of(error))
            return True
        return False

    def _send(self, out: list[bytes], walk: Walk, view: EntryView) -> int:
        if self._page is not None:
            self._page -= 1
        if walk.size_left is not None:
            walk.size_left -= 1
        if walk.shows_referrals:
            data = rendered(view, walk.selection, lambda each: subordinates(walk.snapshot, each))
        else:
            urls = referrals_of(view)
            data = (
                operation_bytes(SearchResultReference(urls))
                if urls
                else rendered(view, walk.selection, lambda each: subordinates(walk.snapshot, each))
            )
        out.append(envelope(self.message_id, data))
        return len(data)

    def _end(self, out: list[bytes], result: Result) -> None:
        walk = self.walk
        controls = []
        if walk is not None and walk.sort is not None:
            controls.append(write_sort_result(walk.sort))
        if self._page is not None:
            controls.append(write_paged_results(PagedResults(0)))
        self._done(out, result, controls)
        self.close()

    def _end_page(self, out: list[bytes], keep: Callable[[Walk], bytes]) -> None:
        walk, self.walk = self.walk, None
        controls = []
        if walk is not None:
            if walk.sort is not None:
                controls.append(write_sort_result(walk.sort))
            controls.append(write_paged_results(PagedResults(0, keep(walk))))
        self._done(out, SUCCESS, controls)

    def _done(self, out: list[bytes], result: Result, controls: list[Control]) -> None:
        out.append(envelope(self.message_id, operation_bytes(SearchResultDone(result)), tuple(controls)))

    def close(self) -> None:
        """Give the snapshot back, whether or not the search has ended."""
        if self.walk is not None:
            self._service.release(self.walk.snapshot)
            self.walk = None


def referrals_of(view: EntryView) -> tuple[str, ...]:
    """Where a referral entry points to; empty for every other entry."""
    if not view.is_elsewhere:
        return ()
    return tuple(each.decode("utf-8", "replace") for each in view.operational().get("ref", ()))


def begin(
    service: Service, identity: Identity, request: SearchRequest, named: NamedDn, controls: RequestControls
) -> Walk:
    """The walk of a new search. Raises ``DirectoryError``; then no snapshot is held."""
    rules = named.context.rules
    sees_all = rules.is_administrator(identity, named.key)
    selection = service.selection(request.attributes, types_only=request.types_only, sees_all=sees_all)

    def readable(view: EntryView) -> bool:
        return rules.may_read(identity, view.dn_key)

    snapshot = service.snapshot(named.context)
    try:
        try:
            base = base_of(snapshot, named.dn, named.key, request.dereference, readable)
        except DirectoryError as error:
            if identity.is_anonymous and not rules.reads_everything:
                error.matched_dn = ""
            raise
        if not controls.manage_dsa_it and (urls := referrals_of(base)):
            raise Referral(urls)
        hidden = () if sees_all else (*SECRET, *INTERNAL)
        views = found(snapshot, base, request.scope, request.filter, readable, hidden)
        sort = None
        if controls.sort is not None:
            wanted = orders(controls.sort, service.schema)
            if isinstance(wanted, SortResult):
                if SORT_REQUEST in controls.critical:
                    raise DirectoryError(
                        ResultCode.UNAVAILABLE_CRITICAL_EXTENSION,
                        f"results cannot be sorted by {wanted.description}",
                    )
                sort = wanted
            else:
                sort = SortResult(ResultCode.SUCCESS)
                views = _sorted(service, snapshot, views, wanted)
    except BaseException:
        service.release(snapshot)
        raise
    limits = [each for each in (request.size_limit,) if each]
    if not sees_all and controls.paged is None:
        limits.append(service.limits.size)
    return Walk(
        snapshot, views, request, selection, sort, controls.manage_dsa_it, identity, min(limits, default=None)
    )


def _sorted(
    service: Service, snapshot: Snapshot, views: Iterator[EntryView | None], wanted: list[Order]
) -> Iterator[EntryView | None]:
    kept = []
    for view in views:
        if view is None:
            yield None
            continue
        kept.append((view, sort_keys(view, wanted, snapshot.schema)))
        if len(kept) > service.limits.sorted:
            raise DirectoryError(
                ResultCode.ADMIN_LIMIT_EXCEEDED, f"at most {service.limits.sorted} entries can be sorted"
            )
    yield from in_order(kept, wanted)


class Referral(DirectoryError):
    """Raised when what a client asked for is elsewhere."""

    code = "referral"

    def __init__(self, urls: tuple[str, ...]) -> None:
        super().__init__(ResultCode.REFERRAL, "the entry is elsewhere")
        self.urls = urls


class Pages:
    """The walks of one connection that wait for their client to ask for the next page."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._walks: dict[bytes, Walk] = {}

    def keep(self, walk: Walk) -> bytes:
        service = self._service
        if service.pages >= service.limits.pages and not self._walks:
            service.release(walk.snapshot)
            raise DirectoryError(ResultCode.BUSY, "too many paged searches wait for their clients")
        while self._walks and (
            len(self._walks) >= service.limits.pages_each or service.pages >= service.limits.pages
        ):
            self._drop(next(iter(self._walks)))
        cookie = service.ports.random_bytes(16)
        walk.is_used = service.ports.now()
        self._walks[cookie] = walk
        service.pages += 1
        return cookie

    def take(self, cookie: bytes, request: SearchRequest, identity: Identity) -> Walk:
        """The walk of a cookie, if the request is the one that it was given for (RFC 2696)."""
        walk = self._walks.get(cookie)
        if walk is None or walk.identity != identity:
            raise DirectoryError(
                ResultCode.UNWILLING_TO_PERFORM, "that page is not kept any more: begin the search again"
            )
        if walk.request != request:
            raise DirectoryError(
                ResultCode.UNWILLING_TO_PERFORM, "a page is asked for with the same search as the one before"
            )
        del self._walks[cookie]
        self._service.pages -= 1
        return walk

    def expire(self, now: float) -> None:
        """Give up walks whose clients have not asked for long."""
        for cookie, walk in list(self._walks.items()):
            if now - walk.is_used > self._service.limits.page_idle_s:
                self._drop(cookie)

    def close(self) -> None:
        for cookie in list(self._walks):
            self._drop(cookie)

    def _drop(self, cookie: bytes) -> None:
        self._service.release(self._walks.pop(cookie).snapshot)
        self._service.pages -= 1
