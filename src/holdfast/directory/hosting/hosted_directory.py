"""One directory of the domain on this host: its replica lives while the domain wants one here.

What the domain knows of it says so: the host has not left the directory, which has its first entries or is
begun here. The replica's files, its links to other masters and its orders are its own.
"""

import asyncio
from collections.abc import Awaitable, Callable

from holdfast.directory.hosting.administration import Administration
from holdfast.directory.hosting.hosted_replica import HostedReplica, ReplicaSurroundings
from holdfast.directory.hosting.serving import ServedReplica
from holdfast.model.ports import Trace

Door = Callable[[str, ServedReplica | None], Awaitable[None]]
"""Is told which replica of a suffix serves, and None when it stops."""


class SuffixTrace:
    """Says with every note of which suffix it is."""

    def __init__(self, trace: Trace, suffix: str) -> None:
        self._trace = trace
        self._suffix = suffix

    def note(self, kind: str, **fields: object) -> None:
        self._trace.note(kind, suffix=self._suffix, **fields)


class HostedDirectory:
    """*on_failed* hears of an error that keeps its replica from living."""

    def __init__(
        self, around: ReplicaSurroundings, door: Door, on_failed: Callable[[Exception], None]
    ) -> None:
        self._around = around
        self._door = door
        self._on_failed = on_failed
        self._living: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._is_open = True
        self.suffix = around.follower.record.suffix
        self.links = around.links
        self.follower = around.follower
        self.replica: HostedReplica | None = None
        self.administration = Administration(around, lambda: self.replica)

    def on_record(self) -> None:
        """The domain knows something new of it."""
        record, host = self.follower.record, self._around.host
        is_wanted = host not in record.left and (record.is_founded or record.founder == host)
        if not self._is_open or self._stopping is not None:
            return
        if is_wanted and self._living is None:
            self.replica = HostedReplica(self._around, self._on_serving)
            self._living = asyncio.get_running_loop().create_task(self._live(self.replica))
        elif not is_wanted and self._living is not None:
            self._stopping = asyncio.get_running_loop().create_task(self._stop_replica())
        elif self.replica is not None and (self.replica.served or self.replica.copying):
            self.links.set_peers(record.peers_of(host))

    async def close(self) -> None:
        self._is_open = False
        await self._stop_replica()
        await self.links.shut()

    async def _live(self, replica: HostedReplica) -> None:
        try:
            await replica.run()
        except Exception as error:  # whatever it was: nobody else hears of it, and people must
            replica.state = "failed"
            self._on_failed(error)

    async def _stop_replica(self) -> None:
        living, self._living, self.replica = self._living, None, None
        if living is not None:
            living.cancel()
            await asyncio.gather(living, return_exceptions=True)
        self._stopping = None
        self.on_record()  # it may be wanted again by now

    async def _on_serving(self, served: ServedReplica | None) -> None:
        await self._door(self.suffix, served)
