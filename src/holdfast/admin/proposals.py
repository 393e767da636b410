"""Requests changes of the domain's state through any host, and carries them to the coordinator.

A requested change, called a wish, is retried until its outcome is known: coordinators die and are elected
meanwhile. Its id ensures that it is made once. A change that may have been made is never reported as failed.
:class:`Proposals` does this; :func:`changed` is how orders use it.

:class:`ProposalForwarding` carries the wish from the host that was asked to the coordinator, and the outcome
back. Messages between hosts may be lost and coordinators change, so the asking host repeats it until it is
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
"""How long to wait for an answer before a wish is sent again."""


class Wanted(Struct, frozen=True, array_like=True, tag="control/wanted"):
    """Asks the coordinator to grant a wish."""

    number: int
    """The number of this message; each repetition has a new one."""
    wish: bytes


class Told(Struct, frozen=True, array_like=True, tag="control/told"):
    """The outcome of the request with that number."""

    number: int
    what: Literal["accepted", "failed", "unsettled"]
    cas: int = 0
    reply: bytes = b""
    code: str = ""
    text: str = ""
    kind: Literal["invalid", "rejected", "unavailable"] = "unavailable"
    """For a failure: which kind of error it is, and so whether the caller may try again."""


class RefusedThere(InvalidRequest):
    """Raised when the coordinator refuses another host's change; carries the coordinator's error code."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code  # type: ignore[misc]  # the class has one of its own, and each of these another


class NoWord(Exception):
    """Raised when the coordinator has not answered: it may have granted the wish, or may yet do so."""


Send = Callable[[HostId, object], None]


class ProposalForwarding:
    """Sends wishes to the coordinator and answers those of other hosts; both ends on one host."""

    def __init__(self, send: Send, *, again_s: float = AGAIN_S) -> None:
        self._send = send
        self._again_s = again_s
        self._number = 0
        self._awaited: dict[int, asyncio.Future[Outcome]] = {}

    async def ask(self, coordinator: HostId, wish: bytes) -> Outcome:
        """Send *wish* to *coordinator*. Raises :class:`NoWord` if there is or will be no answer."""
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
        """Stop waiting: the coordinator is gone or another was elected, so the waiting callers ask again."""
        for awaited in self._awaited.values():
            if not awaited.done():
                awaited.set_exception(NoWord("who was asked does not coordinate any more"))

    def on_told(self, told: Told) -> None:
        awaited = self._awaited.get(told.number)
        if awaited is not None and not awaited.done():
            awaited.set_result(_outcome(told))

    def on_wanted(self, peer: HostId, wanted: Wanted, manager: Manager) -> None:
        """Handle another host's wish as the coordinator; if this host does not coordinate, it says so."""

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
    """Time limits of a request."""

    wish_s: float = 15.0
    """How long to retry: longer than an election takes after a coordinator falls silent."""
    pause_s: float = 0.1
    """The pause between two attempts."""
    seen_s: float = 2.0
    """How long a host waits to see a granted change in its own state."""


PATIENCE: Final = ProposalPatience()


@dataclass(slots=True)
class _Tried:
    """What is known of one wish so far."""

    why: HoldfastError
    """Why the last attempt failed."""
    is_doubtful: bool = False
    """Whether an attempt may have been granted, or may yet be."""
    cas: int = 0
    """The number of the update that was left unsettled, if a coordinator named one."""


class Proposals:
    """Requests changes on behalf of *host* and waits for their outcomes."""

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
        """Maps each waiting caller to the context number that it waits to see here."""

    async def wish(self, change: bytes, id: str) -> Outcome:
        outcome, is_doubtful = await self._try(Wish(id, change))
        if isinstance(outcome, Failed) and is_doubtful:
            # An earlier copy may still be on its way: make sure that it is never granted.
            settled = await self.settle(id)
            return outcome if isinstance(settled, Failed) else settled
        return outcome

    async def settle(self, id: str) -> Outcome:
        outcome, _ = await self._try(Wish(id))
        is_answered = not isinstance(outcome, Failed) or isinstance(outcome.why, InvalidRequest)
        return outcome if is_answered else Unsettled(0)

    def on_context(self, cas: int) -> None:
        """Wake the callers that wait for context *cas*, which is known here now."""
        for waiting, awaited in self._waiting.items():
            if awaited <= cas and not waiting.done():
                waiting.set_result(None)

    # --- until something is known

    async def _try(self, wish: Wish) -> tuple[Outcome, bool]:
        """Retry until the outcome is known; for a failure, also whether an earlier attempt may yet
        succeed.
        """
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
        """Try once; returns None if another attempt is worthwhile."""
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
        """Wait a while for the granted change to reach this host, so that its caller can see it here."""
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
    """The accepted outcome. Raises the error of a failed one, or ``OutcomeUnknown``."""
    match outcome:
        case Accepted():
            return outcome
        case Failed(why=why):
            raise why
        case Unsettled(cas=cas):
            update = f"update {cas} of the domain's state" if cas else "a change of the domain's state"
            raise OutcomeUnknown(update, waited_s=PATIENCE.wish_s)


def _plain(outcome: Outcome) -> Outcome:
    """The outcome with the application's own reply; a wish that will never be granted becomes a failure."""
    if not isinstance(outcome, Accepted):
        return outcome
    settled = decode_settled(outcome.reply)
    if not settled.is_granted:
        return Failed(NeverGranted(f"wish {settled.id} was not granted, and never is"))
    return Accepted(outcome.cas, settled.reply)


class DesiredStateView(Protocol):
    """What :class:`holdfast.admin.control_plane.ControlPlane` offers."""

    def state(self) -> DomainState: ...

    async def wish(self, change: Change, *, id: str = "") -> Outcome: ...


async def changed(desired: DesiredStateView, change: Change, *, id: str = "") -> Any:
    """Make *change*; returns the reply. Raises the reason if it was not made, or ``OutcomeUnknown``.

    It is first tried on this host's own state: the coordinator may be elsewhere, and its refusal arrives only
    as text, without the name and value that were wrong. But the coordinator decides: it may know a newer
    state, and whether this very change was made before.
    """
    mistake: InvalidRequest | None = None
    try:
        change.applied(desired.state())
    except InvalidRequest as error:
        mistake = error
    outcome = await desired.wish(change, id=id)
    if mistake is not None and isinstance(outcome, Failed):
        raise mistake
    return msgspec.msgpack.decode(granted(outcome).reply)
