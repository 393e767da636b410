"""Who else is in the domain: the sessions at the authority, listed once and then watched."""

from collections.abc import Callable, Mapping

from holdfast.authority import keys
from holdfast.authority.contract import Compacted, Events
from holdfast.authority.outcome import Listing, decoded
from holdfast.authority.recipe import Authority, perform
from holdfast.authority.sessions import Session, list_sessions
from holdfast.model.ids import HostId, Revision
from holdfast.node.insisting import insist


class Peers:
    """The live sessions by host, this host's own among them. *on_change* is told of every new picture."""

    def __init__(self, authority: Authority, on_change: Callable[[Mapping[HostId, Session]], None]) -> None:
        self._authority = authority
        self._on_change = on_change
        self._sessions: dict[HostId, Session] = {}

    async def follow(self) -> None:
        """Follow the sessions until cancelled. While the authority is away the last picture stands."""
        while True:
            revision = await self._list()
            await self._watch(Revision(revision + 1))

    async def _list(self) -> Revision:
        listing: Listing[Session] = await insist(lambda: perform(self._authority, list_sessions()), Listing)
        self._sessions = {seen.value.host: seen.value for seen in listing.items}
        self._on_change(dict(self._sessions))
        return listing.revision

    async def _watch(self, revision: Revision) -> None:
        events = self._authority.watch(keys.SESSIONS, revision)
        async for event in events:
            match event:
                case Compacted():
                    return  # too far behind to catch up: list again
                case Events(changes=changes):
                    for changed in changes:
                        if changed.item is None:
                            self._sessions.pop(HostId(changed.key.removeprefix(keys.SESSIONS)), None)
                        else:
                            session = decoded(changed.item, Session).value
                            self._sessions[session.host] = session
                    self._on_change(dict(self._sessions))
