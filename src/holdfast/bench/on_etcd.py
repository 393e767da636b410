"""Measuring on an etcd of three members that is started for it."""

import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import uvloop

from holdfast.bench import Progress
from holdfast.bench.systems import Absent
from holdfast.bench.systems.etcd import Etcd

Measure = Callable[[Sequence[str]], Awaitable[dict[str, Any]]]
"""Given the endpoints."""


def run_on_etcd(measure: Measure, progress: Progress) -> dict[str, Any]:
    """Without an etcd on this machine nothing is measured, and no row is missing for it."""
    try:
        return uvloop.run(_measured(measure))
    except Absent as why:
        progress(f"not measured: {why}")
        return {"results": [], "absent": str(why)}


async def _measured(measure: Measure) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="holdfast-on-etcd-") as directory:
        async with Etcd().running(Path(directory)) as etcd:
            return await measure(etcd.endpoints)
