"""Following what stands below a prefix at the authority: listed once, then watched."""

from collections.abc import Callable
from typing import Generic, TypeVar

from holdfast.authority.contract import Compacted, Events
from holdfast.authority.outcome import Listing, Seen, answering, decoded, read_all
from holdfast.authority.recipe import Authority, perform
from holdfast.model.ids import Revision
from holdfast.node.insisting import insist

Value = TypeVar("Value")


class Following(Generic[Value]):
    """Values of one kind by key. *on_change* is told of each that changed, *on_gone* of each that is gone:
    with True when the authority said that it was removed, with False when a new list merely lacks it."""

    def __init__(
        self,
        authority: Authority,
        prefix: str,
        kind: type[Value],
        on_change: Callable[[str, Seen[Value]], None],
        on_gone: Callable[[str, bool], None],
    ) -> None:
        self._authority = authority
        self._prefix = prefix
        self._kind = kind
        self._on_change = on_change
        self._on_gone = on_gone
        self._seen: dict[str, Seen[Value]] = {}

    async def follow(self) -> None:
        """Follow until cancelled. While the authority is away the last picture stands."""
        while True:
            revision = await self._list()
            await self._watch(Revision(revision + 1))

    async def _list(self) -> Revision:
        recipe = answering(read_all)
        listing: Listing[Value] = await insist(
            lambda: perform(self._authority, recipe(self._prefix, self._kind)), Listing
        )
        found = {seen.key: seen for seen in listing.items}
        for key in [key for key in self._seen if key not in found]:
            del self._seen[key]
            self._on_gone(key, False)
        for seen in found.values():
            self._take(seen)
        return listing.revision

    async def _watch(self, revision: Revision) -> None:
        async for event in self._authority.watch(self._prefix, revision):
            match event:
                case Compacted():
                    return  # too far behind to catch up: list again
                case Events(changes=changes):
                    for changed in changes:
                        if changed.item is not None:
                            self._take(decoded(changed.item, self._kind))
                        elif self._seen.pop(changed.key, None) is not None:
                            self._on_gone(changed.key, True)

    def _take(self, seen: Seen[Value]) -> None:
        if self._seen.get(seen.key) != seen:
            self._seen[seen.key] = seen
            self._on_change(seen.key, seen)
