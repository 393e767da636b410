"""What TLS costs: a domain whose processes and client all talk by mutual TLS, beside one on plain loopback.

In every round both domains are started anew and warmed up, and then take turns of a fraction of a second,
with one caller and then with a thousand calls in flight: what else happens on the machine strikes both alike.
All bytes of a call are encrypted four times, on its way to the primary, to each backup, and back, and
everything runs on one machine, so nothing hides the cost.
"""

import tempfile
from pathlib import Path
from typing import Any, Final

import msgspec
import uvloop

from holdfast.bench import Progress, compare
from holdfast.bench.measuring.callers import Load
from holdfast.bench.report import MANY
from holdfast.bench.systems.ours import Holdfast

WARM_UP_S: Final = 0.5
TARGETS: Final = {1: 0.8, MANY: 0.6}
"""For each number of calls in flight, the share of the rate without TLS that must be reached."""

TURNS: Final = 8
"""How many turns each domain has per load and round; who begins alternates."""

Rates = dict[int, float]
"""Calls per second, by the number of calls in flight."""


def run_tls_bench(
    *, rounds: int = 5, seconds: float = 2.0, progress: Progress = lambda _: None
) -> dict[str, Any]:
    """Measure both domains in turn; *seconds* is the time of each load in each round, for each domain."""
    found: list[tuple[Rates, Rates]] = []
    for number in range(1, rounds + 1):
        plain, by_tls = uvloop.run(_measure(seconds))
        found.append((plain, by_tls))
        told = ", ".join(
            f"{by_tls[many]:,.0f}/s with {many:,} in flight beside {plain[many]:,.0f}" for many in TARGETS
        )
        progress(f"round {number} of {rounds}: {told} without TLS")
    results = [
        compare(
            f"tls: {many:,} in flight, synced",
            [by_tls[many] for _, by_tls in found],
            [plain[many] for plain, _ in found],
            unit="calls/s",
            other_name="without TLS",
            target=target,
        )
        for many, target in TARGETS.items()
    ]
    return {"results": [msgspec.to_builtins(result) for result in results], "rounds": rounds}


async def _measure(seconds: float) -> tuple[Rates, Rates]:
    with tempfile.TemporaryDirectory(prefix="holdfast-tls-") as directory:
        places = Path(directory) / "plain", Path(directory) / "tls"
        for place in places:
            place.mkdir()
        async with (
            Holdfast().running(places[0]) as plain,
            Holdfast(has_tls=True).running(places[1]) as by_tls,
        ):
            rates: tuple[Rates, Rates] = {}, {}
            for many in TARGETS:
                loads: tuple[list[Load], list[Load]] = [], []
                sides = [(plain, loads[0]), (by_tls, loads[1])]
                for running, _ in sides:
                    await running.load(in_flight=many, seconds=WARM_UP_S)
                for _ in range(TURNS):
                    for running, turns in sides:
                        turns.append(await running.load(in_flight=many, seconds=seconds / TURNS))
                    sides.reverse()
                for rate, turns in zip(rates, loads, strict=True):
                    rate[many] = sum(load.calls for load in turns) / sum(load.seconds for load in turns)
            return rates
