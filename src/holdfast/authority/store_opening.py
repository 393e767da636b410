"""Opens a store under a number of its own: an exchange between the disk and the authority (V5, decision
0002).

If the authority does not know the store in its present state, the store cannot be trusted, and whoever owns
it begins a new one.
"""

import secrets
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

import structlog

from holdfast.authority import stores
from holdfast.authority.driver import insist
from holdfast.authority.identity import AuthorityBehind
from holdfast.authority.recipe import Authority, Seen, perform
from holdfast.model.errors import BrokenInvariant
from holdfast.model.ids import HostId, Nonce, StoreId
from holdfast.storage.identity import Behind, Ours, Store, StoreIdentity, Stranger, plan

Durably = Callable[[Callable[[Callable[[], None]], None]], Awaitable[None]]
"""Begins a step and waits until it says that it is durable; raises the disk's error if it never is."""

log: Final = structlog.get_logger("holdfast.store")


class StoreOpening:
    """Numbers the openings of one store of *host*."""

    def __init__(
        self,
        identity: StoreIdentity,
        host: HostId,
        authority: Authority,
        nonces: Callable[[], Nonce],
        durably: Durably,
    ) -> None:
        self._identity = identity
        self._host = host
        self._authority = authority
        self._nonces = nonces
        self._durably = durably

    @property
    def store(self) -> Store:
        if self._identity.store is None:
            raise BrokenInvariant("a store has an identity before anything is asked of it")
        return self._identity.store

    async def open(self) -> None:
        """Get a number for this opening, of a new store if need be; waits while the authority is away.

        Raises ``AuthorityBehind`` if the authority was restored.
        """
        store = self._identity.store
        if store is None or store.host != self._host or not await self.settle():
            await self.found()
        while not await self.number():
            await self.found()

    async def settle(self) -> bool:
        """End the opening that an earlier process began, if one did; False if the authority does not know the
        store in this state. Its number is not used: a copy of this disk may have settled the same opening,
        and no two processes share one."""
        store = self._identity.store
        if store is None or store.intent is None or store.host != self._host:
            return True
        return await self.number()

    async def verdict(self) -> Ours | Stranger | Behind:
        """Whether the authority knows this disk's store as the one that left."""
        store = self._identity.store
        if store is None:
            return plan(None, self._host, None)
        found = await insist(lambda: perform(self._authority, stores.read_opening(store.store)), Seen)
        recorded = None if found.value is None else (found.value.opening, found.value.nonce)
        return plan(store, self._host, recorded)

    async def found(self) -> None:
        """Begin a new store on this disk."""
        store = StoreId(f"store-{secrets.token_hex(8)}")
        await self._durably(lambda then: self._identity.found(store, self._host, then))
        log.info("a new store", store=store)

    async def number(self) -> bool:
        """Get a number for an opening; False if the authority does not know the store in this state."""
        await self._durably(lambda then: self._identity.begin_opening(self._nonces(), then))
        outcome = await self._raise_number()
        if isinstance(outcome, stores.Behind):
            raise AuthorityBehind(
                f"{self.store.store} was opened {self.store.opening} times, and the authority knows of "
                "fewer: it was restored from an older state; see `holdfast authority restore`"
            )
        if isinstance(outcome, stores.Stranger):
            log.warning("this disk was wiped, copied or rolled back: it joins as new", store=self.store.store)
            return False
        await self._durably(self._identity.finish_opening)
        return True

    async def _raise_number(self) -> object:
        store = self.store
        if store.intent is None:
            raise BrokenInvariant("an opening is begun before it is numbered")
        attempt = partial(
            stores.raise_opening,
            store.store,
            expected=store.opening,
            expected_nonce=store.nonce,
            nonce=store.intent,
        )
        # Repeat while the outcome is in doubt: the intent's nonce makes it one opening (A1).
        return await insist(lambda: perform(self._authority, attempt()), Seen, stores.Behind, stores.Stranger)
