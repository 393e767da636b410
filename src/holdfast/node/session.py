"""A host's session with the authority: opened once, kept alive, put back when its lease was lost.

Losing the authority stops nothing: a host without its session goes on and tries again (a restarted
authority lets no session expire for one full lease, A4). Only one thing ends it: that a later process of
the same host has begun (V2).
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeVar

import structlog

from holdfast.authority.contract import LeaseGone, LeaseGrant, LeaseGranted, LeaseKeep
from holdfast.authority.outcome import Contended, InDoubt, NoAnswer, Seen
from holdfast.authority.recipe import Authority, Recipe, perform
from holdfast.authority.sessions import NoSession, Session, close_session, open_session, resume_session
from holdfast.model.errors import Rejected
from holdfast.model.ids import HostId, LeaseId, Nonce

LEASE_S: Final = 6
"""Of a session. No failover waits for it (A3); it only decides when a silent host leaves the list."""
KEEP_ALIVE_S: Final = LEASE_S / 3
RETRY_S: Final = 0.2

log = structlog.get_logger("holdfast.session")
Answer = TypeVar("Answer")


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
        self.is_held = False
        """The authority has confirmed the session within the last lease."""

    @property
    def session(self) -> Session:
        if self._session is None:
            raise Rejected("the session has not been opened")
        return self._session

    async def open(
        self, host: HostId, *, address: str, heartbeat_address: str, agent_address: str
    ) -> Session:
        """Open the session, however long the authority takes to answer."""
        nonce = self._nonces()

        def attempt(lease: LeaseId) -> Recipe[object]:
            return open_session(
                host,
                lease=lease,
                address=address,
                nonce=nonce,
                heartbeat_address=heartbeat_address,
                agent_address=agent_address,
            )

        self._session = await self._under_a_lease(attempt)
        return self._session

    async def keep(self) -> None:
        """Keep the session until cancelled. Raises :class:`Replaced` when it is a later process's turn."""
        while True:
            await asyncio.sleep(KEEP_ALIVE_S)
            result = await self._authority.ask(LeaseKeep(self._lease))
            if isinstance(result, LeaseGone):
                self.is_held = False
                log.warning("the session's lease ended; putting the session back")
                await self._under_a_lease(lambda lease: resume_session(self.session, lease=lease))
            else:
                self.is_held = isinstance(result, LeaseGranted)

    async def close(self) -> None:
        """Let the authority forget this process at once; if it does not answer, the lease will."""
        session = self.session
        await perform(self._authority, close_session(session.host, session.incarnation, nonce=self._nonces()))
        self.is_held = False

    async def _under_a_lease(self, attempt: Callable[[LeaseId], Recipe[object]]) -> Session:
        while True:
            granted = await self._insist(lambda: self._authority.ask(LeaseGrant(LEASE_S)), LeaseGranted)
            outcome = await self._settle(partial(attempt, granted.lease))
            if isinstance(outcome, NoSession):
                raise Replaced(f"a later process of {outcome.host} has begun")
            if isinstance(outcome, Seen):
                self._lease = granted.lease
                self.is_held = True
                session: Session = outcome.value
                return session

    async def _settle(self, recipe: Callable[[], Recipe[object]]) -> object:
        """Run *recipe* again while its outcome is in doubt: it is idempotent by its nonce (A1)."""
        while True:
            outcome = await perform(self._authority, recipe())
            if not isinstance(outcome, InDoubt | NoAnswer | Contended):
                return outcome
            log.info("waiting for the authority", outcome=str(outcome))
            await asyncio.sleep(RETRY_S)

    async def _insist(self, ask: Callable[[], Awaitable[object]], kind: type[Answer]) -> Answer:
        while not isinstance(answer := await ask(), kind):
            log.info("waiting for the authority", answer=str(answer))
            await asyncio.sleep(RETRY_S)
        return answer
