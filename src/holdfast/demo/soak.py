"""A soak: groups of every style are called under all kinds of faults for a long time, then counted."""

import asyncio
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, structs

from holdfast.calling.config import CallPolicy
from holdfast.client.domain import connect
from holdfast.demo.calls import Count, Load, count
from holdfast.demo.domain import Ending, LocalDomain, temporary_domain
from holdfast.demo.faults import Chaos
from holdfast.demo.running import CLASS, definition_in, read_members
from holdfast.model.admin.groups import GroupInfo
from holdfast.model.ids import SECOND
from holdfast.node.messages import DomainStatus

STYLES: Final = ("cold_passive", "warm_passive", "active")
CALLERS: Final = 8
PACE_S: Final = 0.02
PATIENCE_S: Final = 60.0
"""A group that still lacks members in sync this long after a fault ended does not recover."""
REST_S: Final = (0.1, 3.0)
"""The pause between the recovery from one fault and the next fault."""
HURRIED: Final = 0.3
"""The probability that the next fault does not wait for the recovery from the last."""


class GroupSoaked(Struct, frozen=True, kw_only=True):
    """What became of one group's calls."""

    style: str
    count: Count
    wrong_replies: int


class Soaked(Struct, frozen=True, kw_only=True):
    """What a soak found. Scripts read this interface, so only add to it."""

    minutes: float
    seed: int
    tried: dict[str, int]
    """The number of faults, by kind."""
    calls_acknowledged: int
    calls_lost: int
    calls_duplicated: int
    calls_unknown: int
    not_recovered: list[str]
    """Groups that were not whole again in time, with the fault before; and cuts that could not be mended."""
    groups: list[GroupSoaked]
    files: str = ""
    """Where the hosts' files and logs are, when something was wrong."""
    ended_early: bool = False
    """Whether the end was requested before the minutes were over."""
    minutes_taken: float = 0.0
    """The minutes from the first call to the last."""

    @property
    def is_whole(self) -> bool:
        wrong = sum(each.wrong_replies + each.count.records_differing for each in self.groups)
        return not (self.calls_lost + self.calls_duplicated + wrong + len(self.not_recovered))


class Watcher(Struct, frozen=True):
    """Callbacks for a display of the progress."""

    on_starting: Callable[[DomainStatus | None], None]
    on_fault: Callable[[float, str, dict[str, int], int], None]
    """Called with the seconds since the load began, the fault's kind, all faults so far, and the answers so
    far."""
    on_stage: Callable[[str], None]


async def run_soak(app: Path, *, minutes: float, seed: int, watcher: Watcher, ending: Ending) -> Soaked:
    """Soak for that many minutes, or until *ending* is requested; then count.

    Raises ``InvalidRequest`` when there is no ledger in *app*, ``Unavailable`` when the domain does not
    start.
    """
    definition = definition_in(app)
    loads = {style: Load.of(CALLERS, pace_s=PACE_S) for style in STYLES}
    policy = CallPolicy(duration_ns=120 * SECOND)
    async with temporary_domain(app, progress=watcher.on_starting) as domain:
        async with connect(await domain.url(), dir=domain.layout.directory, policy=policy) as client:
            ledgers = {style: await client.create(CLASS, name=style, style=style) for style in STYLES}
            numbers = {style: (await domain.group(style)).group for style in STYLES}
            chaos = Chaos(domain, STYLES, random.Random(seed))
            began = time.monotonic()
            not_recovered = await _soak(domain, loads, ledgers, chaos, minutes, seed, watcher, ending)
            ended_early, taken_s = ending.is_asked, time.monotonic() - began
            watcher.on_stage("waiting until every member is in sync, to read all of them")
            whole = await _whole(domain)
            not_recovered += [f"{style} at the end" for style, info in whole.items() if info is None]
            # Some members stayed out of sync too long: those in sync must have everything, the others need
            # not.
            in_sync = {style: (info or await domain.group(style)).in_sync for style, info in whole.items()}
        watcher.on_stage("stopping all hosts, and counting from the files of each member")
        await domain.stop()
        counts = {
            style: count(
                loads[style].callers,
                await asyncio.to_thread(
                    read_members, domain.files, in_sync[style], numbers[style], definition
                ),
            )
            for style in STYLES
        }
        found = _found(minutes, seed, chaos, loads, counts, not_recovered)
        found = structs.replace(found, ended_early=ended_early, minutes_taken=round(taken_s / 60, 2))
        if found.is_whole:
            return found
        domain.is_kept = True
        return structs.replace(found, files=str(domain.layout.directory))


def _found(
    minutes: float,
    seed: int,
    chaos: Chaos,
    loads: dict[str, Load],
    counts: dict[str, Count],
    not_recovered: list[str],
) -> Soaked:
    return Soaked(
        minutes=minutes,
        seed=seed,
        tried=dict(sorted(chaos.tried.items())),
        calls_acknowledged=sum(each.acknowledged for each in counts.values()),
        calls_lost=sum(each.lost for each in counts.values()),
        calls_duplicated=sum(each.duplicated for each in counts.values()),
        calls_unknown=sum(each.unknown for each in counts.values()),
        not_recovered=not_recovered,
        groups=[
            GroupSoaked(style=style, count=counts[style], wrong_replies=loads[style].wrong_replies)
            for style in STYLES
        ],
    )


async def _soak(
    domain: LocalDomain,
    loads: dict[str, Load],
    ledgers: dict[str, Any],
    chaos: Chaos,
    minutes: float,
    seed: int,
    watcher: Watcher,
    ending: Ending,
) -> list[str]:
    stop = asyncio.Event()
    rng = random.Random(f"pace/{seed}")
    not_recovered: list[str] = []
    began = time.monotonic()

    async def cause_faults() -> None:
        try:
            while time.monotonic() - began < minutes * 60 and not not_recovered and not ending.is_asked:
                kind = await chaos.strike()
                answers = sum(len(load.answered_at) for load in loads.values())
                watcher.on_fault(time.monotonic() - began, kind, dict(chaos.tried), answers)
                if rng.random() >= HURRIED:
                    not_recovered.extend(f"{each} after {kind}" for each in await _missing(domain))
                not_recovered.extend(chaos.unmended)
                await ending.rest(rng.uniform(*REST_S))
        finally:
            stop.set()

    ending.on_load()
    async with asyncio.TaskGroup() as tasks:
        for style, load in loads.items():
            tasks.create_task(load.run(ledgers[style], stop))
        tasks.create_task(cause_faults())
    return not_recovered


async def _missing(domain: LocalDomain) -> list[str]:
    """Return the groups that do not become whole."""
    return [style for style, whole in (await _whole(domain)).items() if whole is None]


async def _whole(domain: LocalDomain) -> dict[str, GroupInfo | None]:
    """Return every group once all its members are in sync; None for one that takes too long."""
    members = len(domain.layout.read().hosts)
    return {style: await domain.wait_in_sync(style, members=members, within_s=PATIENCE_S) for style in STYLES}
