"""What is read off each system in each round, and what of it is held against a target."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from msgspec import Struct

from holdfast.bench.load import Load
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
    """One row: what it says of a sample; None when the sample has none."""

    name: str
    unit: str
    of: Callable[[Sample], float | None]
    is_less_better: bool = True


@dataclass(frozen=True, slots=True)
class Target:
    """Ours beside *peer*: at least, or for times and costs at most, *ratio* times as much."""

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
