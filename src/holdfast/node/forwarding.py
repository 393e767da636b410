"""A wish, told from the host that was asked to the one that coordinates, and what became of it told back.

Messages between hosts may be lost, and coordinators change: the asking host says it again until it is
answered. The wish's id makes that harmless (:mod:`holdfast.control.once`).
"""

import asyncio
from collections.abc import Callable
from typing import Final, Literal

from msgspec import Struct

from holdfast.control.manager import Manager, NotCoordinator
from holdfast.control.ports import Accepted, Failed, Outcome, Unsettled
from holdfast.model.errors import HoldfastError, InvalidRequest, Rejected, Unavailable
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


class Forwarding:
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
