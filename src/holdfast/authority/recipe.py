"""Recipes: procedures on the authority's contract, written once for every backend and for the simulator.

A recipe is a generator. It yields one request, is sent that request's result, and returns its answer; it uses
no socket, clock or event loop. :func:`perform` runs one on an asynchronous authority, a core runs them with
tokens and callbacks (A2) through :class:`Recipes`, and a test runs one by hand.

Every change carries its writer's nonce, and every recipe is **idempotent by nonce**. Run again with the same
arguments, it finds its own nonce, or wins a compare-and-set, or finds that what it compares has moved on, and
then the earlier attempt can never be applied either. An unknown outcome (:class:`InDoubt`) is therefore
settled by running the recipe again with the same nonce. It is given up only by winning a different change of
the same key, never by reading that nothing is there (A1, M2).

This holds because each transaction compares something that never returns to an earlier state: a key's last
change (:class:`~.contract.Unchanged`), or a key's absence *and* a guard that every removal of such keys
changes.

Values are JSON, so that people can read them with ``etcdctl`` and ``sqlite3``.
"""

from collections.abc import AsyncIterator, Callable, Generator, Hashable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final, Generic, ParamSpec, Protocol, TypeVar, runtime_checkable

import msgspec

from holdfast.authority.contract import (
    Absent,
    Applied,
    Change,
    Compare,
    Get,
    Got,
    Invalid,
    KeyValue,
    LeaseGone,
    List,
    Listed,
    Put,
    Refused,
    Request,
    Result,
    Txn,
    Unchanged,
    Unknown,
    WatchEvent,
)
from holdfast.model.errors import BrokenInvariant, Corruption, InvalidRequest
from holdfast.model.ids import LeaseId, Nonce, Revision

Answer = TypeVar("Answer")
Recipe = Generator[Request, Result, Answer]


class Authority(Protocol):
    """The authority as asynchronous code uses it. Every call ends within the backend's own deadline."""

    async def ask(self, request: Request) -> Result: ...

    def watch(self, prefix: str, revision: Revision) -> AsyncIterator[WatchEvent]:
        """Yield the changes below *prefix* from *revision* on, without gap or repetition.

        The iterator survives reconnections and ends after a :class:`Compacted`. Close it (``aclose``) to stop
        watching.
        """
        ...

    async def close(self) -> None: ...


@runtime_checkable
class CallsBack(Protocol):
    """An authority that answers a core directly, without a task for each request."""

    def request(self, request: Request, then: Callable[[Result], None]) -> None: ...


class AuthorityPort(Protocol):
    """The authority as a core uses it (A2): ``on_authority(token, result)`` follows every request."""

    def request(self, request: Request, token: Hashable) -> None: ...


async def perform(authority: Authority, recipe: Recipe[Answer]) -> Answer:
    """Run *recipe* and return its answer."""
    try:
        request = next(recipe)
        while True:
            request = recipe.send(await authority.ask(request))
    except StopIteration as done:
        answer: Answer = done.value
        return answer


class Recipes:
    """Runs recipes for a core: start each with its continuation, and pass every ``on_authority`` in here."""

    def __init__(self, port: AuthorityPort) -> None:
        self._port = port
        self._running: dict[int, tuple[Recipe[Any], Callable[[Any], None]]] = {}
        self._next = 0

    def start(self, recipe: Recipe[Answer], then: Callable[[Answer], None]) -> None:
        """Begin *recipe* and call *then* with its answer, possibly before this returns."""
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


Value = TypeVar("Value")
Record = TypeVar("Record", bound=msgspec.Struct)
Parameters = ParamSpec("Parameters")

NO_LEASE: Final = LeaseId(0)

ATTEMPTS_MAX: Final = 8
"""How often a recipe starts over when others keep changing what it reads."""


# --- how a recipe may end without doing what it was asked


class NoAnswer(msgspec.Struct, frozen=True, tag="no_answer"):
    """A read was not answered. This run changed nothing; an earlier doubt remains."""

    reason: str


class InDoubt(msgspec.Struct, frozen=True, tag="in_doubt"):
    """The change may have been applied or may still be (A1): run the recipe again with the same nonce."""

    nonce: Nonce
    reason: str


class Contended(msgspec.Struct, frozen=True, tag="contended"):
    """Others changed what was read, ``ATTEMPTS_MAX`` times in a row; this run changed nothing."""

    what: str


Failure = NoAnswer | InDoubt | Contended


class Removed(msgspec.Struct, frozen=True, tag="removed"):
    """The item to be removed is not there (any more)."""


# --- what a recipe saw


@dataclass(frozen=True, slots=True)
class Seen(Generic[Value]):
    """The value at a key and the revision of its last change, against which a compare-and-set is made."""

    key: str
    value: Value
    modified: Revision
    lease: LeaseId = NO_LEASE

    def unchanged(self) -> Compare:
        """A compare that holds while the key is as it was seen (for an absent key, while it is absent)."""
        return Absent(self.key) if self.value is None else Unchanged(self.key, self.modified)


@dataclass(frozen=True, slots=True)
class Listing(Generic[Value]):
    """Everything below a prefix; watch it from ``revision + 1``."""

    items: tuple[Seen[Value], ...]
    revision: Revision


class Guard(msgspec.Struct, frozen=True, kw_only=True, tag="guard"):
    """A record that each removal below a prefix changes, so that no delayed creation can follow it."""

    nonce: Nonce


# --- the steps that recipes are made of


class Silence(Exception):
    """Raised when a read had no answer; :func:`answering` turns it into the recipe's answer."""


def answering(
    recipe: Callable[Parameters, Recipe[Answer]],
) -> Callable[Parameters, Recipe[Answer | NoAnswer]]:
    """Make *recipe* end with :class:`NoAnswer` when one of its reads has no answer."""

    @wraps(recipe)
    def answered(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Recipe[Answer | NoAnswer]:
        try:
            return (yield from recipe(*args, **kwargs))
        except Silence as silence:
            return NoAnswer(str(silence))

    return answered


def read(key: str, kind: type[Value]) -> Recipe[Seen[Value | None]]:
    """Read the value at *key*; it is None when the key does not exist."""
    result = yield Get(key)
    match result:
        case Got(item=None):
            return Seen(key, None, Revision(0))
        case Got(item=KeyValue() as item):
            return decoded(item, kind)
        case Unknown(reason=reason):
            raise Silence(reason)
        case Invalid(reason=reason):
            raise InvalidRequest(reason)
    raise BrokenInvariant(f"a read was answered with {result}")


def list_page(prefix: str, *, after: str = "") -> Recipe[Listed]:
    """Read the next page below *prefix*: one snapshot of at most ``LIST_ITEMS_MAX`` keys."""
    result = yield List(prefix, after=after)
    match result:
        case Listed():
            return result
        case Unknown(reason=reason):
            raise Silence(reason)
        case Invalid(reason=reason):
            raise InvalidRequest(reason)
    raise BrokenInvariant(f"a list was answered with {result}")


def read_all(prefix: str, kind: type[Value]) -> Recipe[Listing[Value]]:
    """Read every value below *prefix*, page by page; the revision is that of the first page."""
    page = yield from list_page(prefix)
    revision = page.revision
    found: list[Seen[Value]] = [decoded(item, kind) for item in page.items]
    while page.more:
        page = yield from list_page(prefix, after=page.items[-1].key)
        found += [decoded(item, kind) for item in page.items]
    return Listing(tuple(found), revision)


def change(
    compares: Sequence[Compare], changes: Sequence[Change], *, nonce: Nonce
) -> Recipe[Applied | Refused | LeaseGone | InDoubt]:
    """Send one transaction."""
    result = yield Txn(tuple(compares), tuple(changes))
    match result:
        case Applied() | Refused() | LeaseGone():
            return result
        case Unknown(reason=reason):
            return InDoubt(nonce, reason)
        case Invalid(reason=reason):
            raise InvalidRequest(reason)
    raise BrokenInvariant(f"a transaction was answered with {result}")


def unseen(key: str) -> Seen[Any | None]:
    """The guess that there is nothing at *key*: a transaction that is refused says what is there."""
    return Seen(key, None, Revision(0))


def stood(refused: Refused, *compared: tuple[Seen[Any], type[Any]]) -> tuple[Seen[Any], ...]:
    """What a refused transaction found at the keys that it *compared*, each of one kind, as :func:`read`
    would give it: without a round trip, and all of it from one moment."""
    return tuple(
        unseen(seen.key) if item is None else decoded(item, kind)
        for item, (seen, kind) in zip(refused.found, compared, strict=True)
    )


def edited(
    key: str, kind: type[Record], edit: Callable[[Record], Record], *, nonce: Nonce, what: str
) -> Recipe[Seen[Record] | Contended | InDoubt | None]:
    """Change a record by *edit*, which is called again if others change it meanwhile, and may return it as it
    is. None if there is no such record."""
    for _ in range(ATTEMPTS_MAX):
        found = yield from read(key, kind)
        if found.value is None:
            return None
        wanted = edit(found.value)
        if wanted == found.value:
            return Seen(key, wanted, found.modified)
        result = yield from change([found.unchanged()], [put(key, wanted)], nonce=nonce)
        if isinstance(result, Applied):
            return Seen(key, wanted, result.revision)
        if isinstance(result, InDoubt):
            return result
    return Contended(what)


def put(key: str, value: msgspec.Struct, *, lease: LeaseId = NO_LEASE) -> Put:
    return Put(key, msgspec.json.encode(value), lease)


def decoded(item: KeyValue, kind: type[Value]) -> Seen[Value]:
    """Decode *item* into the struct it was stored from. Raises Corruption when it is something else."""
    try:
        value = msgspec.json.decode(item.value, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Corruption(
            "the authority holds something foreign",
            file=item.key,
            offset=0,
            expected=kind.__name__,
            found=str(error),
        ) from error
    return Seen(item.key, value, item.modified, item.lease)
