"""Wishing for changes of the domain's state, through whichever host was asked.

A wish is tried again until something definite is known of it: coordinators die, and are elected, while it
waits. Its id makes sure that it is granted once. What was perhaps granted is never said to have failed.
"""

import asyncio
from dataclasses import dataclass
from typing import Final

from holdfast.control.manager import Manager
from holdfast.control.once import NeverGranted, Wish, decode_settled, encode_wish
from holdfast.control.ports import Accepted, Failed, Outcome, Unsettled
from holdfast.model.errors import HoldfastError, InvalidRequest, OutcomeUnknown, Unavailable
from holdfast.model.ids import HostId
from holdfast.node.forwarding import Forwarding, NoWord


@dataclass(frozen=True, slots=True)
class Patience:
    """How long is waited for what."""

    wish_s: float = 15.0
    """A wish is tried for so long: longer than it takes to elect when a coordinator falls silent."""
    pause_s: float = 0.1
    """Between two attempts."""
    seen_s: float = 2.0
    """A host waits so long to see for itself what another has granted."""


PATIENCE: Final = Patience()


@dataclass(slots=True)
class _Tried:
    """What is known of one wish so far."""

    why: HoldfastError
    """Why it was not granted the last time."""
    is_doubtful: bool = False
    """One of the attempts may have been granted, or may yet be."""
    cas: int = 0
    """Of the update that was left unsettled, if a coordinator named one."""


class Wishing:
    """Of *host*."""

    def __init__(
        self, host: HostId, manager: Manager, forwarding: Forwarding, patience: Patience = PATIENCE
    ) -> None:
        self._host = host
        self._manager = manager
        self._forwarding = forwarding
        self._patience = patience
        self._waiting: dict[asyncio.Future[None], int] = {}
        """Who waits to see which context here."""

    async def wish(self, change: bytes, id: str) -> Outcome:
        outcome, is_doubtful = await self._try(Wish(id, change))
        if isinstance(outcome, Failed) and is_doubtful:
            # An earlier copy of it may still be on its way: make sure that it comes to nothing.
            settled = await self.settle(id)
            return outcome if isinstance(settled, Failed) else settled
        return outcome

    async def settle(self, id: str) -> Outcome:
        outcome, _ = await self._try(Wish(id))
        is_answered = not isinstance(outcome, Failed) or isinstance(outcome.why, InvalidRequest)
        return outcome if is_answered else Unsettled(0)

    def on_context(self, cas: int) -> None:
        """That context is known here."""
        for waiting, awaited in self._waiting.items():
            if awaited <= cas and not waiting.done():
                waiting.set_result(None)

    # --- until something is known

    async def _try(self, wish: Wish) -> tuple[Outcome, bool]:
        """What became of it; and, if it failed, whether an earlier attempt may yet be granted."""
        tried = _Tried(Unavailable("nobody coordinates the domain now: its groups serve on, and wishes wait"))
        encoded = encode_wish(wish)
        try:
            async with asyncio.timeout(self._patience.wish_s):
                while (outcome := await self._attempt(encoded, tried)) is None:
                    await asyncio.sleep(self._patience.pause_s)
        except TimeoutError:
            return (Unsettled(tried.cas) if tried.is_doubtful else Failed(tried.why)), False
        if isinstance(outcome, Accepted):
            await self._see(outcome.cas)
        return outcome, tried.is_doubtful

    async def _attempt(self, wish: bytes, tried: _Tried) -> Outcome | None:
        """Once; None when it is worth another attempt."""
        coordinator = self._manager.coordinator
        if coordinator is None:
            return None
        was_doubtful, tried.is_doubtful = tried.is_doubtful, True
        try:
            outcome = await self._ask(coordinator, wish)
        except NoWord:
            return None
        if isinstance(outcome, Unsettled):
            tried.cas = outcome.cas
            return None
        tried.is_doubtful = was_doubtful
        if isinstance(outcome, Failed) and not isinstance(outcome.why, InvalidRequest):
            tried.why = outcome.why
            return None
        return _plain(outcome)

    async def _ask(self, coordinator: HostId, wish: bytes) -> Outcome:
        if coordinator != self._host:
            return await self._forwarding.ask(coordinator, wish)
        told: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

        def tell(outcome: Outcome) -> None:
            if not told.done():
                told.set_result(outcome)

        try:
            self._manager.update(wish, tell)
        except HoldfastError as error:
            return Failed(error)
        return await told

    async def _see(self, cas: int) -> None:
        """Whoever wished for something here shall find it here afterwards, if that does not take long."""
        if self._manager.context.cas >= cas:
            return
        self._manager.look()
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[waiting] = cas
        try:
            await asyncio.wait_for(waiting, self._patience.seen_s)
        except TimeoutError:
            pass  # it is granted all the same
        finally:
            del self._waiting[waiting]


def granted(outcome: Outcome) -> Accepted:
    """What was granted. Raises why it was not, or ``OutcomeUnknown``."""
    match outcome:
        case Accepted():
            return outcome
        case Failed(why=why):
            raise why
        case Unsettled(cas=cas):
            update = f"update {cas} of the domain's state" if cas else "a change of the domain's state"
            raise OutcomeUnknown(update, waited_s=PATIENCE.wish_s)


def _plain(outcome: Outcome) -> Outcome:
    """The application's own reply, and a wish that is never granted as a failure."""
    if not isinstance(outcome, Accepted):
        return outcome
    settled = decode_settled(outcome.reply)
    if not settled.is_granted:
        return Failed(NeverGranted(f"wish {settled.id} was not granted, and never is"))
    return Accepted(outcome.cas, settled.reply)
