"""The same without an event loop of one's own: a thread runs one, and every call waits for its outcome."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, cast, overload

from holdfast.calling.config import CallPolicy, ClientConfig
from holdfast.client.domain import Domain, connect
from holdfast.client.faults import Faults
from holdfast.client.properties import Properties
from holdfast.client.proxy import Group
from holdfast.faults.events import StructuredEvent
from holdfast.faults.reports import FaultReport
from holdfast.faults.told import Gap, Told
from holdfast.model.calls import RequestId
from holdfast.model.errors import Unavailable
from holdfast.model.object_orders import GroupReference
from holdfast.model.orders import GroupInfo

T = TypeVar("T")


def connect_sync(
    url: str,
    *,
    certs: str | Path | None = None,
    name: str | None = None,
    policy: CallPolicy | None = None,
    config: ClientConfig | None = None,
    insecure: bool = False,
) -> "SyncDomain":
    """A domain to be entered: ``with connect_sync(url) as domain``. As :func:`.domain.connect`."""

    def make() -> Domain:
        return connect(url, certs=certs, name=name, policy=policy, config=config, insecure=insecure)

    return SyncDomain(make)


class SyncDomain:
    """A domain for ordinary functions. May be used from any number of threads."""

    def __init__(self, make: Callable[[], Domain]) -> None:
        self._make = make
        self._domain: Domain | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="holdfast client", daemon=True)
        self._thread.start()
        try:
            self._domain = self.run(self._open())
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        domain, self._domain = self._domain, None
        try:
            if domain is not None:
                self.run(domain.close())
        finally:
            self._stop()

    @overload
    def group(self, name: str) -> Any: ...

    @overload
    def group(self, name: str, cls: type[T]) -> T: ...

    def group(self, name: str, cls: type[Any] | None = None) -> Any:
        """The group of that name: its methods return what the group's do. With *cls* the type checker, too,
        takes it for one."""
        found = self.run(self._group(name, cls))
        return SyncGroup(self, found)

    def create(self, cls: str | type[Any], *, name: str, **properties: Any) -> Any:
        """As :meth:`.domain.Domain.create`; the group, as :meth:`group` gives it."""
        return SyncGroup(self, self.run(self._running().create(cls, name=name, **properties)))

    def delete(self, name: str) -> None:
        """As :meth:`.domain.Domain.delete`."""
        self.run(self._running().delete(name))

    def groups(self) -> tuple[GroupInfo, ...]:
        """All groups of the domain."""
        return self.run(self._running().groups())

    def outcome(self, request: RequestId | str) -> Any:
        """As :meth:`.domain.Domain.outcome`."""
        return self.run(self._running().outcome(request))

    @property
    def faults(self) -> "SyncFaults":
        """As :attr:`.domain.Domain.faults`."""
        return SyncFaults(self, self._running().faults)

    @property
    def properties(self) -> "SyncProperties":
        """As :attr:`.domain.Domain.properties`."""
        return SyncProperties(self, self._running().properties)

    def type_properties(self, cls: str | type[Any]) -> "SyncProperties":
        """As :meth:`.domain.Domain.type_properties`."""
        return SyncProperties(self, self._running().type_properties(cls))

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Wait for *coroutine*, which runs in the domain's own thread."""
        if self._loop is None:
            coroutine.close()
            raise Unavailable("the domain is closed: use it within `with`")
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

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
        loop, thread = cast(asyncio.AbstractEventLoop, self._loop), cast(threading.Thread, self._thread)
        self._loop = self._thread = None
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


class SyncFaults:
    """As :class:`.faults.Faults`, waiting for each answer."""

    def __init__(self, domain: SyncDomain, faults: Faults) -> None:
        self._domain = domain
        self._faults = faults

    def watch(
        self, where: str = "", *, after: int | None = None, parts: bool = False
    ) -> Generator[Told | Gap, None, None]:
        """Events as they come; each ``next`` waits for one."""
        news = self._faults.watch(where, after=after, parts=parts)
        try:
            while True:
                yield self._domain.run(_next(news))
        finally:
            self._domain.run(_close(news))

    def list(self, where: str = "", *, after: int = 0, parts: bool = False) -> "list[Told]":
        return self._domain.run(self._faults.list(where, after=after, parts=parts))

    def push(self, fault: FaultReport | StructuredEvent, *, once: str = "") -> int:
        return self._domain.run(self._faults.push(fault, once=once))


async def _next(news: AsyncGenerator[Told | Gap, None]) -> Told | Gap:
    return await anext(news)


async def _close(news: AsyncGenerator[Told | Gap, None]) -> None:
    await news.aclose()


class SyncProperties:
    """As :class:`.properties.Properties`, waiting for each answer."""

    def __init__(self, domain: SyncDomain, properties: Properties) -> None:
        self._domain = domain
        self._properties = properties

    def get(self) -> dict[str, Any]:
        return self._domain.run(self._properties.get())

    def own(self) -> dict[str, Any]:
        return self._domain.run(self._properties.own())

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
        """As :meth:`.proxy.Group.options`."""
        return SyncGroup(self._domain, self._group.options(**options))

    def add_member(self, host: str, own: str = "") -> GroupInfo:
        """As :meth:`.members.Members.add`."""
        return self._domain.run(self._group.add_member(host, own))

    def remove_member(self, host: str) -> GroupInfo:
        """As :meth:`.members.Members.remove`."""
        return self._domain.run(self._group.remove_member(host))

    def create_member(self, location: str, **options: Any) -> GroupReference:
        """As :meth:`.members.Members.create`."""
        return self._domain.run(self._group.create_member(location, **options))

    def reference(self) -> GroupReference:
        """As :meth:`.members.Members.reference`."""
        return self._domain.run(self._group.reference())

    @property
    def properties(self) -> SyncProperties:
        """As :attr:`.proxy.Group.properties`."""
        return SyncProperties(self._domain, self._group.properties)

    def set_primary(self, host: str) -> GroupInfo:
        """As :meth:`.members.Members.set_primary`."""
        return self._domain.run(self._group.set_primary(host))

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
