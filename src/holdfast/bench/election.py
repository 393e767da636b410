"""etcd's own leader failover, measured beside ours: three members, the leader killed -9 under load."""

import tempfile
from pathlib import Path

from holdfast.bench import Progress
from holdfast.bench.systems import Absent
from holdfast.bench.systems.etcd import Etcd
from holdfast.model.units import MILLISECOND, SECOND

PEER = "etcd's leader"


async def etcd_fail_over_ms(progress: Progress) -> float | None:
    """From the kill to the next acknowledged write; None without an etcd on this machine."""
    try:
        with tempfile.TemporaryDirectory(prefix="holdfast-election-") as directory:
            async with Etcd().running(Path(directory)) as running:
                found_ms = await running.fail_over() * SECOND / MILLISECOND
    except Absent as why:
        progress(f"not measured beside etcd: {why}")
        return None
    progress(f"etcd's leader killed: the next write after {found_ms:.0f} ms")
    return found_ms
