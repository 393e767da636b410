"""As :mod:`.claims`, on an etcd of three members that is started for it."""

import tempfile
from pathlib import Path
from typing import Any

import uvloop

from holdfast.bench import Progress
from holdfast.bench.claims import measure_claims
from holdfast.bench.systems import Absent
from holdfast.bench.systems.etcd import Etcd


def run_claims_on_etcd_bench(
    *, rounds: int = 3, groups: int = 1_000, progress: Progress = lambda _: None
) -> dict[str, Any]:
    """Without an etcd on this machine nothing is measured, and no row is missing for it."""
    try:
        return uvloop.run(_measure(rounds, groups, progress))
    except Absent as why:
        progress(f"not measured: {why}")
        return {"results": [], "absent": str(why)}


async def _measure(rounds: int, groups: int, progress: Progress) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="holdfast-claims-") as directory:
        async with Etcd().running(Path(directory)) as etcd:
            return await measure_claims(rounds, groups, etcd.endpoints, progress)
