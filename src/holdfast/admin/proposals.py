"""Wishing for changes of the domain's state, through whichever host was asked.

A wish is tried again until something definite is known of it: coordinators die, and are elected, while it
waits. Its id makes sure that it is granted once. What was perhaps granted is never said to have failed.

The domain's wishes, as the orders of people read and change them.

A wish, told from the host that was asked to the one that coordinates, and what became of it told back.

Messages between hosts may be lost, and coordinators change: the asking host says it again until it is
answered. The wish's id makes that harmless (:mod:`holdfast.control.coordination.dedup`).
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

import msgspec
from msgspec import Struct

from holdfast.control.coordination.dedup import NeverGranted, Wish, decode_settled, encode_wish
from holdfast.control.coordination.participant import Manager, NotCoordinator
from holdfast.control.coordination.ports import Accepted, Failed, Outcome, Unsettled
from holdfast.control.desired.changes import Change
from holdfast.control.desired.state import DomainState
from holdfast.model.errors import HoldfastError, InvalidRequest, OutcomeUnknown, Rejected, Unavailable
from holdfast.model.ids import HostId

AGAIN_S: Final = 1.0
"""Until a wish that is not answered is told again."""


class Wanted(Struct, frozen=True, array_like=True, tag="control/wanted"):
    """Let this be granted."""

    number: int
    """Of the question; another one each time it is told."""
    wish: bytes


class Told(Struct, frozen=True, array_like=True, tag="control/told"):
    """What became of *number*."""

    number: int
    what: Literal["accepted", "failed", "unsettled"]
    cas: int = 0
    reply: bytes = b""
    code: str = ""
    text: str = ""
    kind: Literal["invalid", "rejected", "unavailable"] = "unavailable"
    """Of a failure: what its wisher may do next."""


class RefusedThere(InvalidRequest):
    """Raised when the coordinator refuses a change that another host wished for; under its own code."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code  # type: ignore[misc]  # the class has one of its own, and each of these another


class NoWord(Exception):
    """Raised when the coordinator has not answered: it may have granted the wish, or may yet."""


Send = Callable[[HostId, object], None]


class ProposalForwarding:
    """Both ends of it, on one host."""

    def __init__(self, send: Send, *, again_s: float = AGAIN_S) -> None:
        self._send = send
        self._again_s = again_s
        self._number = 0
        self._awaited: dict[int, asyncio.Future[Outcome]] = {}

    async def ask(self, coordinator: HostId, wish: bytes) -> Outcome:
        """Raises :class:`NoWord` when nothing was heard for a while, or nothing will be."""
        self._number += 1
        number = self._number
        self._awaited[number] = asyncio.get_running_loop().create_future()
        try:
            self._send(coordinator, Wanted(number, wish))
            async with asyncio.timeout(self._again_s):
                return await self._awaited[number]
        except TimeoutError:
            raise NoWord(f"{coordinator} does not answer") from None
        finally:
            del self._awaited[number]

    def give_up(self) -> None:
        """The coordinator is gone, or another was elected: whoever waits for its word asks anew."""
        for awaited in self._awaited.values():
            if not awaited.done():
                awaited.set_exception(NoWord("who was asked does not coordinate any more"))

    def on_told(self, told: Told) -> None:
        awaited = self._awaited.get(told.number)
        if awaited is not None and not awaited.done():
            awaited.set_result(_outcome(told))

    def on_wanted(self, peer: HostId, wanted: Wanted, manager: Manager) -> None:
        """As the coordinator; if this host is not, it says so."""

        def tell(outcome: Outcome) -> None:
            self._send(peer, _told(wanted.number, outcome))

        try:
            manager.update(wanted.wish, tell)
        except HoldfastError as error:
            tell(Failed(error))


def _told(number: int, outcome: Outcome) -> Told:
    match outcome:
        case Accepted(cas=cas, reply=reply):
            return Told(number, "accepted", cas, reply)
        case Unsettled(cas=cas):
            return Told(number, "unsettled", cas)
        case Failed(why=InvalidRequest() as why):
            return Told(number, "failed", code=why.code, text=str(why), kind="invalid")
        case Failed(why=Rejected() as why):
            return Told(number, "failed", code=why.code, text=str(why), kind="rejected")
        case Failed(why=why):
            return Told(number, "failed", code=why.code, text=str(why))


def _outcome(told: Told) -> Outcome:
    match told.what, told.kind:
        case "accepted", _:
            return Accepted(told.cas, told.reply)
        case "unsettled", _:
            return Unsettled(told.cas)
        case _, "invalid":
            return Failed(RefusedThere(told.code, told.text))
        case _, "rejected":
            return Failed(Rejected(told.text))
        case _ if told.code == NotCoordinator.code:
            return Failed(NotCoordinator(None))
    return Failed(Unavailable(told.text))


@dataclass(frozen=True, slots=True)
class ProposalPatience:
    """How long is waited for what."""

    wish_s: float = 15.0
    """A wish is tried for so long: longer than it takes to elect when a coordinator falls silent."""
    pause_s: float = 0.1
    """Between two attempts."""
    seen_s: float = 2.0
    """A host waits so long to see for itself what another has granted."""


PATIENCE: Final = ProposalPatience()


@dataclass(slots=True)
class _Tried:
    """What is known of one wish so far."""

    why: HoldfastError
    """Why it was not granted the last time."""
    is_doubtful: bool = False
    """One of the attempts may have been granted, or may yet be."""
    cas: int = 0
    """Of the update that was left unsettled, if a coordinator named one."""


class Proposals:
    """Of *host*."""

    def __init__(
        self,
        host: HostId,
        manager: Manager,
        forwarding: ProposalForwarding,
        patience: ProposalPatience = PATIENCE,
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


class DesiredStateView(Protocol):
    """What :class:`holdfast.admin.control_plane.Control` offers."""

    def state(self) -> DomainState: ...

    async def wish(self, change: Change, *, id: str = "") -> Outcome: ...


async def changed(wished: DesiredStateView, change: Change, *, id: str = "") -> Any:
    """What *change* is answered with, once it is made. Raises why it was not, or ``OutcomeUnknown``.

    It is tried on what this host knows first: the coordinator may be elsewhere, and what it says of a change
    that cannot be made arrives in words, without the name and the value that was wrong. But the coordinator
    has the word: it may know newer wishes, and whether this very one was granted before.
    """
    mistake: InvalidRequest | None = None
    try:
        change.applied(wished.state())
    except InvalidRequest as error:
        mistake = error
    outcome = await wished.wish(change, id=id)
    if mistake is not None and isinstance(outcome, Failed):
        raise mistake
    return msgspec.msgpack.decode(granted(outcome).reply)
