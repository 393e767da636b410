"""Runs a benchmark on a three-member etcd cluster started for it, and measures etcd's own leader failover.

The failover is measured for comparison with Holdfast's: three members, the leader killed -9 under load.
"""

import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import uvloop

from holdfast.bench import Progress
from holdfast.bench.systems import Absent
from holdfast.bench.systems.etcd import Etcd
from holdfast.model.ids import MILLISECOND, SECOND

Measure = Callable[[Sequence[str]], Awaitable[dict[str, Any]]]
"""Measures, given the endpoints of the cluster."""


def run_on_etcd(measure: Measure, progress: Progress) -> dict[str, Any]:
    """Start an etcd and measure on it.

    Without etcd on this machine nothing is measured, and no row counts as missing.
    """
    try:
        return uvloop.run(_measured(measure))
    except Absent as why:
        progress(f"not measured: {why}")
        return {"results": [], "absent": str(why)}


async def _measured(measure: Measure) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="holdfast-on-etcd-") as directory:
        async with Etcd().running(Path(directory)) as etcd:
            return await measure(etcd.endpoints)


PEER = "etcd's leader"


async def etcd_fail_over_ms(progress: Progress) -> float | None:
    """Return the time from the kill to the next acknowledged write; None without an etcd on this machine."""
    try:
        with tempfile.TemporaryDirectory(prefix="holdfast-election-") as directory:
            async with Etcd().running(Path(directory)) as running:
                found_ms = await running.fail_over() * SECOND / MILLISECOND
    except Absent as why:
        progress(f"not measured beside etcd: {why}")
        return None
    progress(f"etcd's leader killed: the next write after {found_ms:.0f} ms")
    return found_ms
