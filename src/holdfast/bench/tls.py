"""What TLS costs: a domain whose processes and client all talk by mutual TLS, beside one on plain loopback.

In every round each domain is started anew, warmed up, and measured with one caller and with a thousand calls
in flight. All bytes of a call are encrypted four times, on its way to the primary, to each backup, and back,
and everything runs on one machine, so nothing hides the cost.
"""

import tempfile
from pathlib import Path
from typing import Any, Final

import msgspec
import uvloop

from holdfast.bench import Progress, compare
from holdfast.bench.callers import Load
from holdfast.bench.report import MANY
from holdfast.bench.systems.ours import Holdfast

WARM_UP_S: Final = 0.5
TARGETS: Final = {1: 0.8, MANY: 0.6}
"""For each number of calls in flight, the share of the rate without TLS that must be reached."""

Loads = dict[int, Load]


def run_tls_bench(
    *, rounds: int = 5, seconds: float = 2.0, progress: Progress = lambda _: None
) -> dict[str, Any]:
    """Measure both domains in turn; *seconds* is the time of each load in each round."""
    plain, by_tls = Holdfast(), Holdfast(has_tls=True)
    found: dict[str, list[Loads]] = {plain.name: [], by_tls.name: []}
    for number in range(1, rounds + 1):
        for system in (plain, by_tls):
            loads = uvloop.run(_measure(system, seconds))
            found[system.name].append(loads)
            told = ", ".join(f"{load.rate:,.0f}/s with {many:,} in flight" for many, load in loads.items())
            progress(f"round {number} of {rounds}: {system.name}: {told}")
    results = [
        compare(
            f"tls: {many:,} in flight, synced",
            [loads[many].rate for loads in found[by_tls.name]],
            [loads[many].rate for loads in found[plain.name]],
            unit="calls/s",
            other_name="without TLS",
            target=target,
        )
        for many, target in TARGETS.items()
    ]
    return {"results": [msgspec.to_builtins(result) for result in results], "rounds": rounds}


async def _measure(system: Holdfast, seconds: float) -> Loads:
    with tempfile.TemporaryDirectory(prefix="holdfast-tls-") as directory:
        async with system.running(Path(directory)) as running:
            loads = {}
            for many in TARGETS:
                await running.load(in_flight=many, seconds=WARM_UP_S)
                loads[many] = await running.load(in_flight=many, seconds=seconds)
            return loads
