"""Which host acts for the domain: the one that the authority's election names (PROTOCOL T2, T3; IM-35).

Every host joins the control plane under its session and looks now and then; when the elected process is not a
member any more, whoever looks first elects. Whoever leads may be mistaken for a moment: what is done on the
strength of it must be a compare-and-set of its own.
"""

from collections.abc import Callable

import structlog

from holdfast.authority.election import elect
from holdfast.authority.membership import join
from holdfast.authority.outcome import NoAnswer, answering
from holdfast.authority.recipe import Authority, perform
from holdfast.authority.sessions import Session
from holdfast.authority.standing import Standing, read_standing
from holdfast.model.ids import HostId, Nonce

log = structlog.get_logger("holdfast.manager")


class Leading:
    """One process's part in it."""

    def __init__(self, authority: Authority, session: Session, nonces: Callable[[], Nonce]) -> None:
        self._authority = authority
        self._session = session
        self._nonces = nonces
        self.leader: HostId | None = None
        """Who leads, as far as is known."""
        self.is_leading = False

    async def look(self) -> bool:
        """Join and elect as needed; whether this process leads."""
        standing = await perform(self._authority, answering(read_standing)())
        if isinstance(standing, NoAnswer):
            self._know(None)  # and nothing can be done without the authority
            return False
        await self._join_if_absent(standing)
        elected = standing.coordinator()
        if elected is None:
            recipe = elect(standing.current_term, nonce=self._nonces(), prefer=self._session.host)
            await perform(self._authority, recipe)
        self._know(elected.value.host if elected is not None else None)
        return self.is_leading

    async def _join_if_absent(self, standing: Standing) -> None:
        found = standing.member(self._session.host)
        if found is None or found.value.incarnation != self._session.incarnation:
            # It holds what has been committed so far: nothing, while nothing is kept in the state context.
            recipe = join(self._session, context_cas=standing.committed_cas, nonce=self._nonces())
            await perform(self._authority, recipe)

    def _know(self, leader: HostId | None) -> None:
        was_leading, self.is_leading = self.is_leading, leader == self._session.host
        self.leader = leader
        if self.is_leading and not was_leading:
            log.info("this host manages the domain", host=leader)
