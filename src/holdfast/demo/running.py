"""One demo from beginning to end: it starts a domain, loads it, breaks it, stops it, and counts."""

import asyncio
import itertools
import statistics
import time
from array import array
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct, structs

from holdfast.app_code.loader import load_code, offer_classes
from holdfast.demo.calls import Count, Load, Remains, count, read_member
from holdfast.demo.domain import Ending, LocalDomain, temporary_domain
from holdfast.demo.faults import RECOVERY_S, Fault, PrimaryFaults
from holdfast.execution.definition import Definition
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import GroupId, HostId
from holdfast.node.messages import DomainStatus
from holdfast.node.store import STORE

GROUP: Final = "ledger"
CLASS: Final = "ledger:Ledger"
TICK_S: Final = 0.2
Machines = Literal["one", "three", "three with etcd"]
"""Where a demo's domain is. Three are network namespaces of this machine (:mod:`.machines`)."""


class Result(Struct, frozen=True, kw_only=True):
    """What a demo found. Scripts read this interface, so only add to it."""

    seconds: float
    callers: int
    calls_acknowledged: int
    calls_lost: int
    calls_duplicated: int
    calls_unknown: int
    """Calls that ended without an outcome; the next field says how many of them were executed."""
    calls_unknown_executed: int
    replies_wrong: int
    failovers: int
    failover_ms: list[float]
    """After kills: milliseconds from the kill to the next answer that a caller got."""
    failover_ms_median: float | None
    pause_failover_ms: list[float]
    cut_failover_ms: list[float] = []
    """After cuts: the same."""
    ready_ms_median: float | None = None
    """After proofs of death: from the proof until the new primary was ready, as it measured it."""
    p50_ms: float
    p99_ms: float
    calls_per_s: float
    longest_silence_ms: float
    """The longest time between any two answers, whatever the reason."""
    members_counted: list[HostId]
    records_compared: int
    records_differing: int
    faults: list[Fault]
    ended_early: bool = False
    """Whether the end was requested before the seconds were over."""

    @property
    def is_whole(self) -> bool:
        """Whether the guarantees held."""
        wrong = self.calls_lost + self.calls_duplicated + self.replies_wrong + self.records_differing
        return wrong == 0 and bool(self.members_counted)


@dataclass(frozen=True, slots=True)
class Watcher:
    """Callbacks for a display of the progress."""

    on_starting: Callable[[DomainStatus | None], None]
    on_tick: Callable[[float, int], None]
    """Called with the seconds since the load began, and the answers so far."""
    on_fault: Callable[[Fault], None]
    on_stage: Callable[[str], None]


async def run_demo(
    app: Path,
    *,
    seconds: float,
    callers: int,
    every_s: float,
    watcher: Watcher,
    ending: Ending,
    machines: Machines = "one",
) -> Result:
    """Load and break a domain for that many seconds, or until *ending* is requested; then count.

    Raises ``InvalidRequest`` when there is no ledger in *app*, ``Unavailable`` when the domain does not
    start.
    """
    definition = definition_in(app)
    async with _domain(app, machines, watcher) as (domain, break_primary):
        load = Load.of(callers)
        async with await domain.client() as client:
            ledger = await client.create(CLASS, name=GROUP)
            info = await domain.group(GROUP)
            members = len(info.placed_on)
            await domain.wait_in_sync(GROUP, members=members, within_s=RECOVERY_S)
            primary_faults = break_primary(
                domain, GROUP, every_s=every_s, on_fault=watcher.on_fault, ending=ending
            )
            began = time.monotonic()
            await _load(load, ledger, primary_faults, began, seconds, watcher, ending)
            ended_early, ended = ending.is_asked, time.monotonic()
            watcher.on_stage("waiting until every member is in sync, to read all of them")
            last = await domain.wait_in_sync(GROUP, members=members, within_s=RECOVERY_S)
            # Some members stayed out of sync too long: those in sync must have everything, the others need
            # not.
            in_sync = (last or await domain.group(GROUP)).in_sync
            faults = await primary_faults.explained(load.answered_at)
        watcher.on_stage("stopping all hosts")
        await domain.stop()
        watcher.on_stage("counting from the files of each member")
        remains = await asyncio.to_thread(read_members, domain.files, in_sync, info.group, definition)
        counted = count(load.callers, remains)
    return structs.replace(_result(load, counted, faults, ended - began), ended_early=ended_early)


@asynccontextmanager
async def _domain(
    app: Path, machines: Machines, watcher: Watcher
) -> AsyncIterator[tuple[LocalDomain, Callable[..., PrimaryFaults]]]:
    """The domain that is broken, and what breaks it."""
    if machines == "one":
        async with temporary_domain(app, progress=watcher.on_starting) as domain:
            yield domain, PrimaryFaults
        return
    # Imported only for this: it needs the library that makes certificates.
    from holdfast.demo.machines import MachineFaults, machines_domain

    with_etcd = machines == "three with etcd"
    async with machines_domain(app.absolute(), with_etcd=with_etcd, on_stage=watcher.on_stage) as found:
        yield found, MachineFaults


async def _load(
    load: Load,
    ledger: object,
    primary_faults: PrimaryFaults,
    began: float,
    seconds: float,
    watcher: Watcher,
    ending: Ending,
) -> None:
    stop = asyncio.Event()

    async def tick() -> None:
        while not (stop.is_set() or ending.is_asked):
            watcher.on_tick(time.monotonic() - began, len(load.answered_at))
            await asyncio.sleep(TICK_S)

    async def end() -> None:
        try:
            await primary_faults.run(began, began + seconds)
            await ending.rest(max(0.0, began + seconds - time.monotonic()))
        finally:
            stop.set()

    ending.on_load()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(load.run(ledger, stop))
        tasks.create_task(tick())
        tasks.create_task(end())


def definition_in(app: Path) -> Definition:
    """Return the definition of the ledger of *app*. Raises ``InvalidRequest`` when there is none."""
    if not (app / "ledger.py").is_file():
        raise InvalidRequest(
            f"{app} has no ledger.py; name the examples of a clone of Holdfast with --app DIR"
        )
    offer_classes(app.absolute())
    cls, found = load_code(CLASS)
    return Definition(group=GROUP, cls=cls, fresh=cls, code=found.code)


def read_members(
    files: Callable[[HostId], Path], hosts: tuple[HostId, ...], group: GroupId, definition: Definition
) -> list[Remains]:
    """Read what the members of a stopped domain left on their disks."""
    return [read_member(host, files(host) / STORE, group, definition) for host in sorted(hosts)]


def _result(load: Load, counted: Count, faults: list[Fault], took_s: float) -> Result:
    kills = [each.silent_ms for each in faults if each.kind == "kill" and each.silent_ms is not None]
    proven = [each.ready_ms for each in faults if each.why == "dead" and each.ready_ms is not None]
    cuts = [each.silent_ms for each in faults if each.kind.startswith("cut") and each.silent_ms is not None]
    pauses = [each.silent_ms for each in faults if each.kind == "pause" and each.silent_ms is not None]
    took_ms = sorted(each * 1000 for each in load.took_s)
    return Result(
        seconds=round(took_s, 1),
        callers=len(load.callers),
        calls_acknowledged=counted.acknowledged,
        calls_lost=counted.lost,
        calls_duplicated=counted.duplicated,
        calls_unknown=counted.unknown,
        calls_unknown_executed=counted.unknown_executed,
        replies_wrong=load.wrong_replies,
        failovers=sum(each.took_over is not None for each in faults),
        failover_ms=kills,
        failover_ms_median=round(statistics.median(kills), 1) if kills else None,
        pause_failover_ms=pauses,
        cut_failover_ms=cuts,
        ready_ms_median=round(statistics.median(proven), 1) if proven else None,
        p50_ms=_share(took_ms, 0.50),
        p99_ms=_share(took_ms, 0.99),
        calls_per_s=round(len(took_ms) / took_s, 1),
        longest_silence_ms=_longest_silence_ms(load.answered_at),
        members_counted=list(counted.members),
        records_compared=counted.records_compared,
        records_differing=counted.records_differing,
        faults=faults,
    )


def _share(ordered: list[float], share: float) -> float:
    return round(ordered[int(share * (len(ordered) - 1))], 2) if ordered else 0.0


def _longest_silence_ms(answered_at: "array[float]") -> float:
    gaps = (later - earlier for earlier, later in itertools.pairwise(answered_at))
    return round(max(gaps, default=0.0) * 1000, 1)
