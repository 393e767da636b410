"""Recipes: what is built on the authority's contract, written once for every backend and for the simulator.

A recipe is a generator. It yields one request, is sent that request's result, and returns its answer;
it holds no socket, no clock and no loop. :func:`perform` drives one on an asynchronous authority, a core
drives one by tokens and call-backs (A2) with :class:`Recipes`, and a test by hand.
"""

from collections.abc import AsyncIterator, Callable, Generator, Hashable
from typing import Any, Protocol, TypeVar

from holdfast.authority.contract import Request, Result, WatchEvent
from holdfast.model.ids import Revision

Answer = TypeVar("Answer")
Recipe = Generator[Request, Result, Answer]


class Authority(Protocol):
    """An authority as asynchronous code sees it. Every call ends within the backend's own deadline."""

    async def ask(self, request: Request) -> Result: ...

    def watch(self, prefix: str, revision: Revision) -> AsyncIterator[WatchEvent]:
        """Changes below *prefix* from *revision* on, across reconnections, without gap or repetition.

        Ends after a :class:`Compacted`. Close the iterator (``aclose``) to stop watching.
        """
        ...

    async def close(self) -> None: ...


class AuthorityPort(Protocol):
    """An authority as a core sees it (A2): ``on_authority(token, result)`` follows every request."""

    def request(self, request: Request, token: Hashable) -> None: ...


async def perform(authority: Authority, recipe: Recipe[Answer]) -> Answer:
    """Run *recipe* to its answer."""
    try:
        request = next(recipe)
        while True:
            request = recipe.send(await authority.ask(request))
    except StopIteration as done:
        answer: Answer = done.value
        return answer


class Recipes:
    """Runs recipes for a core: start one with its continuation, feed every ``on_authority`` in here."""

    def __init__(self, port: AuthorityPort) -> None:
        self._port = port
        self._running: dict[int, tuple[Recipe[Any], Callable[[Any], None]]] = {}
        self._next = 0

    def start(self, recipe: Recipe[Answer], then: Callable[[Answer], None]) -> None:
        """Begin *recipe*; *then* is called with its answer, possibly before this returns."""
        number = self._next = self._next + 1
        self._running[number] = (recipe, then)
        self._step(number, None)

    def on_authority(self, token: Hashable, result: Result) -> None:
        if isinstance(token, int) and token in self._running:
            self._step(token, result)

    def _step(self, number: int, result: Result | None) -> None:
        recipe, then = self._running[number]
        try:
            request = next(recipe) if result is None else recipe.send(result)
        except StopIteration as done:
            del self._running[number]
            then(done.value)
        else:
            self._port.request(request, number)
