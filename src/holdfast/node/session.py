"""A host's session with the authority, the sessions of other hosts, and the connection to the authority.

:class:`SessionKeeper` opens the host's session once, keeps it alive, and restores it if its lease was lost.
Losing the authority stops nothing: a host without its session goes on and tries again (a restarted authority
lets no session expire for one full lease, A4). Only one thing ends the host: a later process of the same host
has begun (V2). :class:`SessionPeers` lists the sessions of the domain once and then watches them.
:func:`connect_authority` connects to the embedded authority at its address, or to etcd at its endpoints.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
import structlog

from holdfast.authority import keys
from holdfast.authority.client import ClientConfig
from holdfast.authority.contract import LeaseGone, LeaseGrant, LeaseGranted, LeaseKeep
from holdfast.authority.driver import RETRY_S, followed, insist
from holdfast.authority.move.connecting import connect_place
from holdfast.authority.move.follower import FollowerConfig
from holdfast.authority.move.following import Backend, FollowingAuthority
from holdfast.authority.move.place import Place
from holdfast.authority.move.place_file import Whereabouts, write_whereabouts
from holdfast.authority.move.seat import SeenSeat
from holdfast.authority.recipe import Authority, Recipe, Seen, perform
from holdfast.authority.sessions import (
    NoSession,
    Session,
    close_session,
    open_session,
    resume_session,
)
from holdfast.model.code import Code
from holdfast.model.errors import InvalidRequest, Rejected
from holdfast.model.host_roles import DEFAULT_ROLES
from holdfast.model.ids import HostId, LeaseId, Nonce
from holdfast.net import Address, ConnectionSettings, Role
from holdfast.node.endpoints import expecting
from holdfast.node.layout import Description, Layout

LEASE_S: Final = 6
"""A session's lease. No failover waits for it (A3); it only decides when a silent host leaves the list."""
KEEP_ALIVE_S: Final = LEASE_S / 3

log = structlog.get_logger("holdfast.session")
Attempt = Callable[[], Recipe[object]]
"""A change of the session that is repeated while its outcome is in doubt."""


class Replaced(Rejected):
    """Raised when a later process of this host has begun and has taken its place."""

    code = "replaced"


class SessionKeeper:
    """Opens one session and keeps it. *nonces* supplies a fresh nonce for every change."""

    def __init__(self, authority: Authority, nonces: Callable[[], Nonce]) -> None:
        self._authority = authority
        self._nonces = nonces
        self._lease = LeaseId(0)
        self._session: Session | None = None
        self._woken = asyncio.Event()
        self._is_missed = False
        self._is_news = False
        """Whether the session holds changes that the authority does not know yet."""
        self.is_held = False
        """Whether the authority confirmed the session when it was last asked."""

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
        agent: str = "",
        details: dict[str, str] | None = None,
        roles: tuple[str, ...] = DEFAULT_ROLES,
    ) -> Session:
        """Open the session, however long the authority takes to answer."""

        def attempt(lease: LeaseId) -> Attempt:
            # Each lease gets its own nonce: if a lease ended unnoticed, the old nonce would not bring the
            # session back.
            return partial(
                open_session,
                host,
                lease=lease,
                address=address,
                nonce=self._nonces(),
                heartbeat_address=heartbeat_address,
                agent_address=agent_address,
                agent=agent,
                details=details,
                roles=roles,
            )

        self._session = await self._under_a_lease(attempt)
        return self._session

    async def keep(self) -> None:
        """Keep the session until cancelled. Raises :class:`Replaced` once a later process has begun."""
        while True:
            # If the authority did not answer, ask again at once: the lease would end before the next
            # regular turn.
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
        """Publish in the session, within a moment, the code of each class that this host has (E7)."""
        if self._session is not None and self._session.codes != codes:
            self._session = msgspec.structs.replace(self._session, codes=dict(codes))
            self._is_news = True
            self._woken.set()

    def check(self, sessions: Mapping[HostId, Session]) -> None:
        """Compare the session with the authority's current list, and restore it if it is missing or
        different.

        The lease alone proves nothing: after the authority's file was replaced, it may belong to somebody
        else.
        """
        if self._session is None:
            return
        found = sessions.get(self._session.host)
        if found is None or msgspec.structs.replace(found, codes=self._session.codes) != self._session:
            self._is_missed = True
            self._woken.set()

    async def close(self) -> None:
        """Remove the session from the authority at once; if there is no answer, the lease ends it."""
        if self._session is None:
            return
        session = self._session
        await perform(self._authority, close_session(session.host, session.incarnation, nonce=self._nonces()))
        self.is_held = False

    async def _is_missed_within(self, seconds: float) -> bool:
        """Wait so long, or until there is news; returns whether the session was found missing."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        self._woken.clear()
        is_missed, self._is_missed = self._is_missed, False
        return is_missed

    async def _announced(self) -> None:
        """Write the session's new contents to the authority under its current lease."""
        session = self.session
        change = partial(self._perform, partial(resume_session, session, lease=self._lease))
        outcome = await insist(change, Seen, NoSession, LeaseGone)
        # Otherwise the session is restored with its full contents, or a later process has begun: both show
        # at once.
        self._is_news = isinstance(outcome, Seen) and session is not self._session

    async def _under_a_lease(self, attempt: Callable[[LeaseId], Attempt]) -> Session:
        while True:
            granted = await insist(partial(self._authority.ask, LeaseGrant(LEASE_S)), LeaseGranted)
            # Repeat while the outcome is in doubt: the nonce makes a recipe idempotent (A1).
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
    """The live sessions by host, including this host's own. *on_change* is called with every new state."""

    def __init__(self, authority: Authority, on_change: Callable[[Mapping[HostId, Session]], None]) -> None:
        self._authority = authority
        self._on_change = on_change

    async def follow(self) -> None:
        """Follow the sessions until cancelled. While the authority is away, the last known state stays."""
        async for known in followed(self._authority, keys.SESSIONS, Session):
            self._on_change({seen.value.host: seen.value for seen in known.values()})


def connect_authority(
    description: Description,
    endpoint: ConnectionSettings,
    layout: Layout | None = None,
    *,
    config: ClientConfig | None = None,
    moves: FollowerConfig | None = None,
) -> FollowingAuthority:
    """Connect to the domain's authority; the client reconnects by itself, and follows it when it moves (A8).

    With *layout*, it begins where the authority was found last and writes down where it is found, and it
    looks up before each attempt where the embedded authority is by now: its machine may have moved to another
    address (`holdfast machine set --domain`).
    """
    start = description.first_place if layout is None else layout.authority_place(description)
    connect = authority_connector(description, endpoint, layout, config)

    def remember(seen: SeenSeat) -> None:
        # A machine that is about to join asks before it has a directory.
        if layout is not None and layout.directory.is_dir() and seen.seat.stay > 1:
            try:
                write_whereabouts(layout.directory, Whereabouts(stay=seen.seat.stay, place=seen.place))
            except (OSError, InvalidRequest) as error:
                # The seals show the way again next time.
                log.warning("where the authority is cannot be written down", why=str(error))

    def others() -> tuple[Place, ...]:
        """Where another process of this machine has found it meanwhile, or a person says that it is."""
        if layout is None:
            return ()
        try:
            described = layout.read()
            return tuple(dict.fromkeys((layout.authority_place(described), described.first_place)))
        except (InvalidRequest, OSError):
            return ()  # somebody is editing it

    return FollowingAuthority(start, connect, on_moved=remember, others=others, config=moves)


def authority_connector(
    description: Description,
    endpoint: ConnectionSettings,
    layout: Layout | None = None,
    config: ClientConfig | None = None,
) -> Callable[[Place], Backend]:
    """How a process of this machine connects to an authority, wherever that is."""
    directory = Path() if layout is None else layout.directory
    authority = expecting(endpoint, Role.AUTHORITY)

    def connect(place: Place) -> Backend:
        where = None
        if layout is not None and place.address and place.address == description.authority_address:
            where = partial(_authority_address, layout, Address.parse(place.address))
        return connect_place(place, authority, directory, where=where, config=config)

    return connect


def _authority_address(layout: Layout, known: Address) -> Address:
    try:
        address = layout.read().authority_address
    except (InvalidRequest, OSError):
        return known  # somebody is editing it, or the directory is gone: what was known still holds
    return known if address is None else Address.parse(address)
