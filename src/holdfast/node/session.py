"""A host's session with the authority: opened once, kept alive, put back when its lease was lost.

Losing the authority stops nothing: a host without its session goes on and tries again (a restarted
authority lets no session expire for one full lease, A4). Only one thing ends it: that a later process of
the same host has begun (V2).

Who else is in the domain: the sessions at the authority, listed once and then watched.

Which authority a domain has: the embedded one at its address, or etcd at its endpoints.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import msgspec
import structlog

from holdfast.authority import keys
from holdfast.authority.contract import Compacted, Events, LeaseGone, LeaseGrant, LeaseGranted, LeaseKeep
from holdfast.authority.driver import RETRY_S, insist
from holdfast.authority.recipe import Authority, Listing, Recipe, Seen, decoded, perform
from holdfast.authority.remote import RemoteAuthority
from holdfast.authority.sessions import (
    NoSession,
    Session,
    close_session,
    list_sessions,
    open_session,
    resume_session,
)
from holdfast.model.code import Code
from holdfast.model.errors import InvalidRequest, Rejected
from holdfast.model.ids import HostId, LeaseId, Nonce, Revision
from holdfast.net import Address, ConnectionSettings
from holdfast.node.layout import Description

LEASE_S: Final = 6
"""Of a session. No failover waits for it (A3); it only decides when a silent host leaves the list."""
KEEP_ALIVE_S: Final = LEASE_S / 3

log = structlog.get_logger("holdfast.session")
Attempt = Callable[[], Recipe[object]]
"""One way to change the session, to be tried as often as its outcome is in doubt."""


class Replaced(Rejected):
    """Raised when a later process of this host has begun: it is the host now."""

    code = "replaced"


class SessionKeeper:
    """Opens one session and keeps it. *nonces* gives a fresh one for every change."""

    def __init__(self, authority: Authority, nonces: Callable[[], Nonce]) -> None:
        self._authority = authority
        self._nonces = nonces
        self._lease = LeaseId(0)
        self._session: Session | None = None
        self._woken = asyncio.Event()
        self._is_missed = False
        self._is_news = False
        """The session says more than the authority knows."""
        self.is_held = False
        """The authority confirmed the session when it was last asked."""

    @property
    def session(self) -> Session:
        if self._session is None:
            raise Rejected("the session has not been opened")
        return self._session

    async def open(
        self,
        host: HostId,
        *,
        address: str,
        heartbeat_address: str,
        agent_address: str,
        details: dict[str, str] | None = None,
    ) -> Session:
        """Open the session, however long the authority takes to answer."""

        def attempt(lease: LeaseId) -> Attempt:
            # A nonce per lease: under the old nonce a session whose lease ended unseen would stay gone.
            return partial(
                open_session,
                host,
                lease=lease,
                address=address,
                nonce=self._nonces(),
                heartbeat_address=heartbeat_address,
                agent_address=agent_address,
                details=details,
            )

        self._session = await self._under_a_lease(attempt)
        return self._session

    async def keep(self) -> None:
        """Keep the session until cancelled. Raises :class:`Replaced` when it is a later process's turn."""
        while True:
            # Not heard: again at once. The lease runs on, and would end before the next turn's answer.
            is_missed = await self._is_missed_within(KEEP_ALIVE_S if self.is_held else RETRY_S)
            if self._is_news:
                await self._announced()
            result = await self._authority.ask(LeaseKeep(self._lease))
            if is_missed or isinstance(result, LeaseGone):
                self.is_held = False
                log.warning("the authority lost the session; putting it back")
                await self._under_a_lease(lambda lease: partial(resume_session, self.session, lease=lease))
            else:
                self.is_held = isinstance(result, LeaseGranted)

    def announce(self, codes: Mapping[str, Code]) -> None:
        """Let others know which classes are here, as they are here (E7); it is told in a moment."""
        if self._session is not None and self._session.codes != codes:
            self._session = msgspec.structs.replace(self._session, codes=dict(codes))
            self._is_news = True
            self._woken.set()

    def check(self, sessions: Mapping[HostId, Session]) -> None:
        """Compare with what the authority lists now; a session that is not there is put back.

        A lease alone does not tell: in an authority whose file was replaced it may be somebody else's.
        """
        if self._session is None:
            return
        found = sessions.get(self._session.host)
        if found is None or msgspec.structs.replace(found, codes=self._session.codes) != self._session:
            self._is_missed = True
            self._woken.set()

    async def close(self) -> None:
        """Let the authority forget this process at once; if it does not answer, the lease will."""
        if self._session is None:
            return
        session = self._session
        await perform(self._authority, close_session(session.host, session.incarnation, nonce=self._nonces()))
        self.is_held = False

    async def _is_missed_within(self, seconds: float) -> bool:
        """Whether the session was missed; sooner, when there is news of it."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        self._woken.clear()
        is_missed, self._is_missed = self._is_missed, False
        return is_missed

    async def _announced(self) -> None:
        """Let the session say what it says here, under the lease that it has."""
        session = self.session
        change = partial(self._perform, partial(resume_session, session, lease=self._lease))
        outcome = await insist(change, Seen, NoSession, LeaseGone)
        # Else it is put back with all that it says, or a later process has begun: both show at once.
        self._is_news = isinstance(outcome, Seen) and session is not self._session

    async def _under_a_lease(self, attempt: Callable[[LeaseId], Attempt]) -> Session:
        while True:
            granted = await insist(partial(self._authority.ask, LeaseGrant(LEASE_S)), LeaseGranted)
            # Again while the outcome is in doubt: a recipe is idempotent by its nonce (A1).
            change = partial(self._perform, attempt(granted.lease))
            outcome = await insist(change, Seen, NoSession, LeaseGone)
            if isinstance(outcome, NoSession):
                raise Replaced(
                    f"a later process of {outcome.host} has begun, or the authority was put back to an "
                    "older state and has forgotten this one"
                )
            if isinstance(outcome, Seen):
                self._lease = granted.lease
                self.is_held = True
                session: Session = outcome.value
                return session
            await asyncio.sleep(RETRY_S)

    async def _perform(self, attempt: Attempt) -> object:
        return await perform(self._authority, attempt())


class SessionPeers:
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


def connect_authority(description: Description, endpoint: ConnectionSettings) -> Authority:
    """A client of the domain's authority; it connects by itself and stays connected."""
    if description.authority_address is not None:
        return RemoteAuthority(Address.parse(description.authority_address), endpoint)
    if description.etcd_endpoints:
        # Imported only by domains on etcd: the embedded one needs no HTTP client.
        from holdfast.authority.etcd import EtcdAuthority

        return EtcdAuthority(description.etcd_endpoints, prefix=f"{description.domain}/")
    raise InvalidRequest("the domain's description names no authority")
