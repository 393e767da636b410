"""The domain's authority as asynchronous code uses it, wherever it is: the follower on an event loop (A8).

:class:`FollowingAuthority` is the ``Authority`` of every process. It connects to a place when it is first
asked there, and closes the connections to places that the domain has left. :func:`perform_at` runs the
recipes of a move.
"""

import asyncio
import itertools
import secrets
from collections.abc import AsyncIterator, Callable, Hashable, Iterable
from contextlib import aclosing
from functools import partial
from typing import Protocol, TypeVar

import structlog

from holdfast.authority.contract import Compacted, Events, Request, Result, Unknown, WatchEvent
from holdfast.authority.move.follower import Follower, FollowerConfig
from holdfast.authority.move.place import Place
from holdfast.authority.move.seat import MoveRecipe, SeenSeat
from holdfast.authority.recipe import Authority, CallsBack
from holdfast.machine import LogTrace, LoopTimers, MachineClock
from holdfast.model.errors import HoldfastError, Overloaded
from holdfast.model.ids import Nonce, Revision

Answer = TypeVar("Answer")
log = structlog.get_logger("holdfast.authority")


class Backend(Authority, Protocol):
    """An authority at one place, which can be watched under its seat."""

    def watch(self, prefix: str, revision: Revision, seat: Revision = ...) -> AsyncIterator[WatchEvent]: ...


class Places:
    """The connections to authorities, one for each place, made when first needed."""

    def __init__(self, connect: Callable[[Place], Backend]) -> None:
        self._connect = connect
        self._backends: dict[Place, Backend] = {}

    def at(self, place: Place) -> Backend:
        if place not in self._backends:
            self._backends[place] = self._connect(place)
        return self._backends[place]

    async def ask(self, place: Place, request: Request) -> Result:
        """Ask the authority at *place*. One that cannot even be asked, as for want of a file, is silent."""
        try:
            return await self.at(place).ask(request)
        except HoldfastError as error:
            return Unknown(str(error))

    async def leave_all_but(self, place: Place | None) -> None:
        left = {each: backend for each, backend in self._backends.items() if each != place}
        for each, backend in left.items():
            del self._backends[each]
            await backend.close()


async def perform_at(places: Places, recipe: MoveRecipe[Answer]) -> Answer:
    """Run a recipe of a move and return its answer."""
    try:
        asked = next(recipe)
        while True:
            asked = recipe.send(await places.ask(asked.place, asked.request))
    except StopIteration as done:
        answer: Answer = done.value
        return answer


class FollowingAuthority:
    """An ``Authority`` that follows the domain. Create it in a running loop; close it at the end.

    *on_moved* is called with the authority that serves, whenever that is another one than before. *others*
    says where else the domain might be, when the one that is known does not answer.
    """

    def __init__(
        self,
        start: Place,
        connect: Callable[[Place], Backend],
        *,
        on_moved: Callable[[SeenSeat], None] = lambda seen: None,
        others: Callable[[], Iterable[Place]] = tuple,
        config: FollowerConfig | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._places = Places(connect)
        self._tell = on_moved
        self._tokens = itertools.count(1)
        self._asked: dict[Hashable, Callable[[Result], None]] = {}
        self._is_asking = False
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._moved = asyncio.Event()
        self._timers: LoopTimers | None = None
        self._is_closed = False
        self._follower = Follower(
            start,
            clock=MachineClock(),
            timers=self._make_timers,
            trace=LogTrace(process="authority client"),
            nonces=lambda: Nonce(secrets.token_hex(8)),
            ask=self._ask_backend,
            on_authority=self._on_authority,
            on_moved=self._on_moved,
            others=others,
            config=config,
        )
        self._places.at(start)

    @property
    def place(self) -> Place:
        """Where the authority served when it was last asked."""
        return self._follower.seen.place

    @property
    def backend(self) -> Backend:
        """The connection to that place."""
        return self._places.at(self.place)

    async def ask(self, request: Request) -> Result:
        answer: asyncio.Future[Result] = self._loop.create_future()
        self.request(request, partial(_settle, answer))
        return await answer

    def request(self, request: Request, then: Callable[[Result], None]) -> None:
        """Ask as a core does: *then* is called with the result, never before this returns: a core has not
        noted yet what it asked."""
        if self._is_closed:
            self._loop.call_soon(then, Unknown("this client of the authority is closed"))
            return
        token = f"asked {next(self._tokens)}"
        self._asked[token] = then
        self._is_asking = True
        try:
            self._follower.request(request, token)
        except Overloaded as error:
            self._on_authority(token, Unknown(str(error)))
        finally:
            self._is_asking = False

    async def watch(self, prefix: str, revision: Revision) -> AsyncIterator[WatchEvent]:
        """Yield the changes below *prefix*; a move ends the watch with ``Compacted``, so its owner lists
        again."""
        seen, translation, moved = self._follower.seen, self._follower.translation, self._moved
        there = revision - translation.offset
        if seen.revision and there <= translation.base:
            yield Compacted(Revision(translation.base + translation.offset + 1))
            return
        left = asyncio.ensure_future(moved.wait())
        events = self._places.at(seen.place).watch(prefix, Revision(there), seen.revision)
        try:
            async with aclosing(events):  # type: ignore[type-var]  # both backends' watches are generators
                while not self._is_closed:
                    step = asyncio.ensure_future(anext(events, None))
                    try:
                        await asyncio.wait((step, left), return_when=asyncio.FIRST_COMPLETED)
                    finally:
                        if not step.done():
                            step.cancel()
                            await asyncio.gather(step, return_exceptions=True)
                    event = None if step.cancelled() else step.result()
                    if isinstance(event, Events):
                        yield translation.events(event)
                        continue
                    yield Compacted(revision)
                    return
        finally:
            left.cancel()

    async def close(self) -> None:
        self._is_closed = True
        self._moved.set()
        if self._timers is not None:
            self._timers.close()
        asked, self._asked = self._asked, {}
        for then in asked.values():
            then(Unknown("this client of the authority was closed"))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._places.leave_all_but(None)

    # --- the follower's ports

    def _make_timers(self, on_timer: Callable[[Hashable], None]) -> LoopTimers:
        self._timers = LoopTimers(self._loop, on_timer)
        return self._timers

    def _ask_backend(self, place: Place, request: Request, token: Hashable) -> None:
        try:
            backend = self._places.at(place)
        except HoldfastError as error:
            # In a later turn: whoever is answered may ask again at once, and so without end.
            self._loop.call_soon(self._on_result, token, Unknown(str(error)))
            return
        if isinstance(backend, CallsBack):
            backend.request(request, partial(self._on_result, token))
            return
        task = self._loop.create_task(self._carry(place, request, token))
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)

    async def _carry(self, place: Place, request: Request, token: Hashable) -> None:
        try:
            result = await self._places.ask(place, request)
        except Exception as error:
            # Whoever asked must have an answer (A2): a client that was closed meanwhile raises what it likes.
            log.exception("a question to the authority failed", place=str(place))
            result = Unknown(f"{place} could not be asked: {error!r}")
        if not self._is_closed:
            # call_soon leaves this task: an exception of the core must reach the loop and end the process.
            self._loop.call_soon(self._follower.on_result, token, result)

    def _on_result(self, token: Hashable, result: Result) -> None:
        if not self._is_closed:
            self._follower.on_result(token, result)

    def _on_authority(self, token: Hashable, result: Result) -> None:
        then = self._asked.pop(token, None)
        if then is None:
            return
        if self._is_asking:
            self._loop.call_soon(then, result)
        else:
            then(result)

    def _on_moved(self, seen: SeenSeat) -> None:
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()
        log.info("the authority serves", place=str(seen.place), stay=seen.seat.stay)
        self._tell(seen)
        task = self._loop.create_task(self._leave_others(seen.place))
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)

    async def _leave_others(self, place: Place) -> None:
        await asyncio.sleep(LEAVE_S)
        if self._follower.seen.place == place:
            await self._places.leave_all_but(place)


def _settle(answer: "asyncio.Future[Result]", result: Result) -> None:
    if not answer.done():  # or whoever asked was cancelled
        answer.set_result(result)


LEAVE_S = 5.0
"""A place is left this long after the domain: requests to it may still be under way."""
