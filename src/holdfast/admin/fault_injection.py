"""What an admin may break of a host: whom it hears, and how busy its workers are.

:class:`PartitionFilter` has the hosts from which it accepts nothing: a simulated network partition. On one
machine there is no link to cut, so the receiver drops what arrives, heartbeats and members' messages alike,
and neither side can tell the difference. It ends with the process.

:class:`BusyWorkers` has a worker process compute or keep its interpreter, to show that the host's loop and
its heartbeats do not mind (W4).
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from holdfast.machine.busy_work import BusyJob, BusyResult
from holdfast.machine.workers import WorkerKind, Workers
from holdfast.model.admin.hosts import KeepBusy, KeptBusy
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import HostId

BUSY: Final = WorkerKind("busy", "holdfast.machine.busy_work:work")


class PartitionFilter:
    """The hosts whose messages this host drops. Its loop and heartbeat thread read it; only the loop
    writes.
    """

    def __init__(self) -> None:
        self.to: tuple[HostId, ...] = ()

    def begin(self, hosts: Iterable[HostId]) -> None:
        self.to = tuple(sorted({*self.to, *hosts}))

    def end(self, hosts: Iterable[HostId]) -> None:
        self.to = tuple(each for each in self.to if each not in hosts)


class BusyWorkers:
    """Keeps workers of one host busy."""

    def __init__(self, host: HostId, workers: Workers) -> None:
        self._host = host
        self._workers = workers

    async def do(self, order: KeepBusy) -> KeptBusy:
        """Have it done. Raises ``Overloaded`` when too many jobs wait, and ``JobFailed``."""

        def check(result: bytes) -> BusyResult:
            found = msgspec.msgpack.decode(result, type=BusyResult)
            if found.seconds < order.seconds:
                raise InvalidRequest(f"it was busy for {found.seconds:g} s only")
            return found

        job = msgspec.msgpack.encode(BusyJob(order.how, order.seconds))
        found = await self._workers.run(BUSY, job, check)
        return KeptBusy(host=self._host, pid=found.pid, seconds=found.seconds)
