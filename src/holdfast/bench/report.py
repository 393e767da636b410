"""What is measured of each system in each round, its targets, and the tables that show it.

One table has a row for each measure and a column for each system; another shows the CPU time of each process
of each system.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from msgspec import Struct

from holdfast.bench import Result, number
from holdfast.bench.measuring.callers import Load
from holdfast.bench.systems import Durability

MANY: Final = 1_000


class Sample(Struct, frozen=True, kw_only=True):
    """One system in one round."""

    one: Load
    """One caller, one call at a time."""
    many: Load
    """A thousand calls in flight."""
    fail_over_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Measure:
    """One measure: its value in a sample; None when the sample has none."""

    name: str
    unit: str
    of: Callable[[Sample], float | None]
    is_less_better: bool = True


@dataclass(frozen=True, slots=True)
class Target:
    """A target compared with *peer*: at least *ratio* times as much, or for times and costs at most that."""

    measure: Measure
    durability: Durability
    peer: str
    ratio: float


ONE_RATE: Final = Measure("1 caller", "calls/s", lambda sample: sample.one.rate, is_less_better=False)
MANY_RATE: Final = Measure(
    "1,000 in flight", "calls/s", lambda sample: sample.many.rate, is_less_better=False
)
FAIL_OVER: Final = Measure("kill -9 to the next answer", "ms", lambda sample: sample.fail_over_ms)
MEASURES: Final = (
    ONE_RATE,
    Measure("1 caller: p50", "ms", lambda sample: sample.one.p50_ms),
    Measure("1 caller: p99", "ms", lambda sample: sample.one.p99_ms),
    Measure("1 caller: CPU per 1,000 calls", "s", lambda sample: sample.one.cpu_s_per_1000),
    MANY_RATE,
    Measure("1,000 in flight: p50", "ms", lambda sample: sample.many.p50_ms),
    Measure("1,000 in flight: p99", "ms", lambda sample: sample.many.p99_ms),
    Measure("1,000 in flight: CPU per 1,000 calls", "s", lambda sample: sample.many.cpu_s_per_1000),
    FAIL_OVER,
)

TARGETS: Final = (
    Target(ONE_RATE, "disk", "etcd", 2.5),
    Target(MANY_RATE, "disk", "etcd", 8.0),
    Target(MANY_RATE, "disk", "Redis", 1.2),
    Target(MANY_RATE, "memory", "PySyncObj tuned", 1.5),
    Target(FAIL_OVER, "disk", "etcd", 0.1),
)
FAIL_OVER_MS_MAX: Final = 100.0


LIMIT: Final = "limit"
CLIENT: Final = "client"
CPU_COLUMNS: Final = (
    "CPU ms per 1,000 calls",
    *("1 caller: client", "members"),
    *("1,000 in flight: client", "members"),
)


def side_by_side(results: Sequence[Result]) -> tuple[list[str], list[list[str]]]:
    """Return columns and rows.

    A peer's cell shows its median and, as ×, the ratio of Holdfast to the peer with its spread.
    """
    peers = list(dict.fromkeys(each.other_name for each in results if each.other_name != LIMIT))
    rows = []
    for name in dict.fromkeys(each.name for each in results):
        beside = {each.other_name: each for each in results if each.name == name}
        first = next(iter(beside.values()))
        rows.append(
            [
                name,
                f"{number(first.ours)} {first.unit}",
                *(_cell(beside[peer]) if peer in beside else "" for peer in peers),
                "\n".join(_wanted(each) for each in beside.values() if each.target is not None),
                "\n".join(
                    "met" if each.met else "MISSED" for each in beside.values() if each.target is not None
                ),
            ]
        )
    return ["", "Holdfast", *peers, "wanted", ""], rows


def _cell(result: Result) -> str:
    spread = f"{result.ratio_low:.2g}–{result.ratio_high:.2g}"
    return f"{number(result.other)}  ×{result.ratio:.2g} ({spread})"


def _wanted(result: Result) -> str:
    sign = "≤" if result.is_at_most else "≥"
    if result.other_name == LIMIT:
        return f"{sign} {number(result.other)} {result.unit}"
    return f"{sign} {result.target:g} × {result.other_name}"


def cpu_row(system: str, samples: Sequence[Sample]) -> tuple[str, ...]:
    """Return what each process of *system* spent on calls, as medians over the rounds.

    The busiest member comes first.
    """
    one, many = [each.one for each in samples], [each.many for each in samples]
    return (system, *_cpu_cells(one), *_cpu_cells(many))


def _cpu_cells(loads: Sequence[Load]) -> tuple[str, str]:
    clients = [_ms_per_1000(each, each.cpu_s[CLIENT]) for each in loads if CLIENT in each.cpu_s]
    members = [
        sorted(
            (_ms_per_1000(each, used) for role, used in each.cpu_s.items() if role != CLIENT), reverse=True
        )
        for each in loads
    ]
    busiest_first = " + ".join(number(median(rank)) for rank in zip(*members, strict=True))
    # Where the callers run inside the leader, there is no client.
    return (number(median(clients)) if clients else "-", busiest_first)


def _ms_per_1000(load: Load, used_s: float) -> float:
    return used_s * 1_000_000 / load.calls
