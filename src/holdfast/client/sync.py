"""The client for programs without an event loop: a thread runs one, and every call waits for its outcome.

:class:`LoopThread` runs the event loop in a separate thread, to which other threads submit coroutines.
"""

import asyncio
import concurrent.futures
import os
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar, overload

from holdfast.calling.config import CallPolicy, ClientConfig
from holdfast.client.admin_client import OrderUnsettled
from holdfast.client.destination import Destination
from holdfast.client.domain import Collector, Domain, connect
from holdfast.client.faults import Faults
from holdfast.client.proxy import Group
from holdfast.client.resources import Properties
from holdfast.client.source import Source
from holdfast.execution.outputs import OutputId
from holdfast.faults.events import StructuredEvent
from holdfast.faults.reports import FaultReport
from holdfast.faults.told_events import Gap, Told
from holdfast.model.admin.groups import GroupInfo
from holdfast.model.admin.objects import GroupReference
from holdfast.model.calls import RequestId
from holdfast.model.errors import Unavailable
from holdfast.streams.collecting import Collected

T = TypeVar("T")

END_S: Final = 10.0
"""How long cancelled tasks may take to clean up at the end; those that take longer are left behind."""


class LoopThread:
    """An event loop in a thread, running from its creation until :meth:`stop`.

    It belongs to the process that made it: a forked process has a copy of everything but the thread.
    """

    def __init__(self) -> None:
        self._process = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._handing = threading.Lock()
        """Held to submit something and to stop, so that a stop sees everything that was submitted."""
        self._is_stopped = False
        self._thread = threading.Thread(target=self._loop.run_forever, name="holdfast client", daemon=True)
        self._thread.start()

    @property
    def is_inherited(self) -> bool:
        """Whether this is a copy in a forked process."""
        return os.getpid() != self._process

    def run(self, coroutine: Coroutine[Any, Any, T], *, is_question: bool = False) -> T:
        """Wait for *coroutine*. Raises ``Unavailable`` if it cannot run.

        If :meth:`stop` ends it, a *question* raises ``Unavailable`` as well; the outcome of anything else is
        unknown (``OutcomeUnknown``).
        """
        future = self._hand_in(coroutine)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            if is_question:
                raise Unavailable("the domain was closed") from None
            raise OrderUnsettled("the domain was closed; it may have been carried out") from None

    def stop(self) -> None:
        """Cancel everything that runs, and end the thread. In a forked copy this does nothing: its loop's
        files are the parent's."""
        if self.is_inherited:
            return
        with self._handing:
            self._is_stopped = True
            ending = asyncio.run_coroutine_threadsafe(self._end_all(), self._loop)
        ending.result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _hand_in(self, coroutine: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        if self.is_inherited:  # first: another thread may have held the lock at the fork
            coroutine.close()
            raise Unavailable("this process was forked since the domain was entered: connect anew")
        with self._handing:
            if self._is_stopped:
                coroutine.close()
                raise Unavailable("the domain is closed: use it within `with`")
            return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    async def _end_all(self) -> None:
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=END_S)
        await self._loop.shutdown_asyncgens()


def connect_sync(
    url: str,
    *,
    certs: str | Path | None = None,
    name: str | None = None,
    key: str | None = None,
    dir: str | Path | None = None,
    policy: CallPolicy | None = None,
    config: ClientConfig | None = None,
    insecure: bool = False,
    collector: Collector = "as_is",
) -> "SyncDomain":
    """A domain to be entered: ``with connect_sync(url) as domain``. The arguments are those of
    :func:`.domain.connect`."""

    def make() -> Domain:
        return connect(
            url,
            certs=certs,
            name=name,
            key=key,
            dir=dir,
            policy=policy,
            config=config,
            insecure=insecure,
            collector=collector,
        )

    return SyncDomain(make)


class SyncDomain:
    """A domain for ordinary functions. May be used from any number of threads."""

    def __init__(self, make: Callable[[], Domain]) -> None:
        self._make = make
        self._domain: Domain | None = None
        self._thread: LoopThread | None = None

    def __enter__(self) -> Self:
        self._thread = LoopThread()
        try:
            self._domain = self.run(self._open(), is_question=True)
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        domain, self._domain = self._domain, None
        try:
            if domain is not None and self._thread is not None and not self._thread.is_inherited:
                self.run(domain.close())
        finally:
            self._stop()

    @overload
    def group(self, name: str) -> Any: ...

    @overload
    def group(self, name: str, cls: type[T]) -> T: ...

    def group(self, name: str, cls: type[Any] | None = None) -> Any:
        """The group of that name; its methods return what the group's methods return. With *cls*, type
        checkers treat it as one."""
        found = self.run(self._group(name, cls), is_question=True)
        return SyncGroup(self, found)

    def create(self, cls: str | type[Any], *, name: str, **properties: Any) -> Any:
        """Create a group as :meth:`.domain.Domain.create` does; returns it as :meth:`group` does."""
        return SyncGroup(self, self.run(self._running().create(cls, name=name, **properties)))

    def delete(self, name: str) -> None:
        """See :meth:`.domain.Domain.delete`."""
        self.run(self._running().delete(name))

    def groups(self) -> tuple[GroupInfo, ...]:
        """All groups of the domain."""
        return self.run(self._running().groups(), is_question=True)

    @overload
    def outcome(self, request: RequestId | str) -> Any: ...

    @overload
    def outcome(self, request: RequestId | str, returns: type[T]) -> T: ...

    def outcome(self, request: RequestId | str, returns: Any = None) -> Any:
        """See :meth:`.domain.Domain.outcome`."""
        return self.run(self._running().outcome(request, returns))

    @property
    def faults(self) -> "SyncFaults":
        """See :attr:`.domain.Domain.faults`."""
        return SyncFaults(self, self._running().faults)

    @property
    def properties(self) -> "SyncProperties":
        """See :attr:`.domain.Domain.properties`."""
        return SyncProperties(self, self._running().properties)

    def type_properties(self, cls: str | type[Any]) -> "SyncProperties":
        """See :meth:`.domain.Domain.type_properties`."""
        return SyncProperties(self, self._running().type_properties(cls))

    def source(self, *, stream: str, group: str = "", **options: Any) -> "SyncSource":
        """A source of a stream, to be entered; the arguments are those of :class:`.source.Source`."""
        return SyncSource(self, lambda: Source(self._running(), stream=stream, group=group, **options))

    def destination(self, *, group: str, **options: Any) -> "SyncDestination":
        """A destination of a group's outputs, to be entered; the arguments are those of
        :class:`.destination.Destination`."""
        return SyncDestination(self, lambda: Destination(self._running(), group=group, **options))

    def run(self, coroutine: Coroutine[Any, Any, T], *, is_question: bool = False) -> T:
        """Wait for *coroutine*, which runs in the domain's own thread.

        If another thread leaves the domain meanwhile, it ends; a *question*, which changes nothing, with
        ``Unavailable``.
        """
        thread = self._thread
        if thread is None:
            coroutine.close()
            raise Unavailable("the domain is closed: use it within `with`")
        return thread.run(coroutine, is_question=is_question)

    async def _open(self) -> Domain:
        domain = self._make()
        await domain.__aenter__()
        return domain

    async def _group(self, name: str, cls: type[Any] | None) -> Group[Any]:
        domain = self._running()
        return await (domain.group(name) if cls is None else domain.group(name, cls))

    def _running(self) -> Domain:
        if self._domain is None:
            raise Unavailable("the domain is closed: use it within `with`")
        return self._domain

    def _stop(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.stop()


class SyncFaults:
    """:class:`.faults.Faults` with methods that wait for each answer."""

    def __init__(self, domain: SyncDomain, faults: Faults) -> None:
        self._domain = domain
        self._faults = faults

    def watch(
        self, where: str = "", *, after: int | None = None, parts: bool = False
    ) -> Generator[Told | Gap, None, None]:
        """Yield events as they come; each ``next`` waits for one."""
        news = self._faults.watch(where, after=after, parts=parts)
        try:
            while True:
                yield self._domain.run(_next(news), is_question=True)
        finally:
            self._domain.run(_close(news), is_question=True)

    def list(self, where: str = "", *, after: int = 0, parts: bool = False) -> "list[Told]":
        return self._domain.run(self._faults.list(where, after=after, parts=parts), is_question=True)

    def push(self, fault: FaultReport | StructuredEvent, *, once: str = "") -> int:
        return self._domain.run(self._faults.push(fault, once=once))


async def _next(news: AsyncGenerator[Told | Gap, None]) -> Told | Gap:
    return await anext(news)


async def _close(news: AsyncGenerator[Told | Gap, None]) -> None:
    await news.aclose()


class SyncSource:
    """:class:`.source.Source` with methods that wait."""

    def __init__(self, domain: SyncDomain, make: Callable[[], Source]) -> None:
        self._domain = domain
        self._make = make
        self._source: Source | None = None

    def __enter__(self) -> Self:
        async def enter() -> Source:
            return await self._make().__aenter__()

        self._source = self._domain.run(enter())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        source, self._source = self._source, None
        if source is not None:
            self._domain.run(source.__aexit__(kind, error, trace))

    def send(self, payload: bytes, *, topic: str = "", priority: int = 0) -> int:
        return self._domain.run(self._opened().send(payload, topic=topic, priority=priority))

    def send_many(self, payloads: Sequence[bytes], *, topic: str = "", priority: int = 0) -> int:
        return self._domain.run(self._opened().send_many(payloads, topic=topic, priority=priority))

    def delivered(self, number: int | None = None, *, timeout_s: float | None = None) -> None:
        self._domain.run(self._opened().delivered(number, timeout_s=timeout_s), is_question=True)

    def _opened(self) -> Source:
        if self._source is None:
            raise Unavailable("the source is closed: use it within `with`")
        return self._source


class SyncDestination:
    """:class:`.destination.Destination` as an iterator whose every step waits."""

    def __init__(self, domain: SyncDomain, make: Callable[[], Destination]) -> None:
        self._domain = domain
        self._make = make
        self._destination: Destination | None = None

    def __enter__(self) -> Self:
        async def enter() -> Destination:
            return await self._make().__aenter__()

        self._destination = self._domain.run(enter())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        destination, self._destination = self._destination, None
        if destination is not None:
            self._domain.run(destination.close())

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Collected:
        if self._destination is None:
            raise Unavailable("the destination is closed: use it within `with`")
        return self._domain.run(self._destination.next(), is_question=True)

    @property
    def last(self) -> OutputId | None:
        """The id of the last output that came."""
        return None if self._destination is None else self._destination.last


class SyncProperties:
    """:class:`.resources.Properties` with methods that wait for each answer."""

    def __init__(self, domain: SyncDomain, properties: Properties) -> None:
        self._domain = domain
        self._properties = properties

    def get(self) -> dict[str, Any]:
        return self._domain.run(self._properties.get(), is_question=True)

    def own(self) -> dict[str, Any]:
        return self._domain.run(self._properties.own(), is_question=True)

    def set(self, **properties: Any) -> dict[str, Any]:
        return self._domain.run(self._properties.set(**properties))

    def remove(self, *names: str) -> dict[str, Any]:
        return self._domain.run(self._properties.remove(*names))


class SyncGroup:
    """A group whose methods wait for their outcome."""

    def __init__(self, domain: SyncDomain, group: Group[Any]) -> None:
        self._domain = domain
        self._group = group

    def options(self, **options: Any) -> "SyncGroup":
        """See :meth:`.proxy.Group.options`."""
        return SyncGroup(self._domain, self._group.options(**options))

    def add_member(self, host: str, own: str = "") -> GroupInfo:
        """See :meth:`.resources.Members.add`."""
        return self._domain.run(self._group.add_member(host, own))

    def remove_member(self, host: str) -> GroupInfo:
        """See :meth:`.resources.Members.remove`."""
        return self._domain.run(self._group.remove_member(host))

    def create_member(self, location: str, **options: Any) -> GroupReference:
        """See :meth:`.resources.Members.create`."""
        return self._domain.run(self._group.create_member(location, **options))

    def reference(self) -> GroupReference:
        """See :meth:`.resources.Members.reference`."""
        return self._domain.run(self._group.reference(), is_question=True)

    @property
    def properties(self) -> SyncProperties:
        """See :attr:`.proxy.Group.properties`."""
        return SyncProperties(self._domain, self._group.properties)

    def set_primary(self, host: str) -> GroupInfo:
        """See :meth:`.resources.Members.set_primary`."""
        return self._domain.run(self._group.set_primary(host))

    def hand_over(self, host: str) -> GroupInfo:
        """See :meth:`.resources.Members.hand_over`."""
        return self._domain.run(self._group.hand_over(host))

    def call(self, method: str, /, *args: Any, **kwargs: Any) -> Any:
        return self._domain.run(self._call(method, args, kwargs))

    def __repr__(self) -> str:
        return repr(self._group)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(f"{name} is private to the group")
        return lambda *args, **kwargs: self.call(name, *args, **kwargs)

    async def _call(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return await self._group.call(method, *args, **kwargs)
