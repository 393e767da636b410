"""Benchmarks: each compares Holdfast with a peer, or with the machine's own limit, in the same run.

Machines differ and noise comes in waves, so nothing is judged by an absolute number. Rounds of Holdfast and
of the other side alternate, each pair gives a ratio, and the median ratio is compared with the target. A
target that is missed is reported as missed.
"""

import statistics
from collections.abc import Callable, Sequence

from msgspec import Struct

Progress = Callable[[str], None]
"""Receives a line about what is being measured, for people; it is not part of the result."""


class Result(Struct, frozen=True, kw_only=True):
    """One row of a benchmark."""

    name: str
    unit: str
    ours: float
    """The median over the rounds."""
    other: float
    """The peer's median, or the limit."""
    other_name: str
    ratio: float
    """The median of the rounds' ratios of Holdfast to the other side (lower is better where
    ``is_at_most``)."""
    ratio_low: float
    ratio_high: float
    """The spread: the worst and the best round."""
    rounds: int
    target: float | None = None
    is_at_most: bool = False
    """Whether the target is an upper bound: for a time, not for a rate."""
    met: bool = True


def compare(
    name: str,
    ours: Sequence[float],
    others: Sequence[float],
    *,
    unit: str,
    other_name: str,
    target: float | None,
    is_at_most: bool = False,
) -> Result:
    """Judge what was measured in pairs.

    The median of ours/other per round must reach *target*, or with *is_at_most* (times, costs) not exceed it.
    """
    ratios = [mine / other for mine, other in zip(ours, others, strict=True)]
    ratio = round(statistics.median(ratios), 3)
    return Result(
        name=name,
        unit=unit,
        ours=statistics.median(ours),
        other=statistics.median(others),
        other_name=other_name,
        ratio=ratio,
        ratio_low=round(min(ratios), 3),
        ratio_high=round(max(ratios), 3),
        rounds=len(ratios),
        target=target,
        is_at_most=is_at_most,
        met=target is None or (ratio <= target if is_at_most else ratio >= target),
    )


def within(name: str, times: Sequence[float], *, unit: str, limit: float) -> Result:
    """Judge times against a fixed limit: their median must not exceed it."""
    ratios = [time / limit for time in times]
    ratio = round(statistics.median(ratios), 3)
    return Result(
        name=name,
        unit=unit,
        ours=statistics.median(times),
        other=limit,
        other_name="limit",
        ratio=ratio,
        ratio_low=round(min(ratios), 3),
        ratio_high=round(max(ratios), 3),
        rounds=len(ratios),
        target=1.0,
        is_at_most=True,
        met=ratio <= 1.0,
    )


COLUMNS = ("benchmark", "ours", "beside", "ratio", "spread", "target", "")


def row(result: Result) -> tuple[str, ...]:
    """Return *result* as a row of the table that every benchmark prints."""
    sign = "≤" if result.is_at_most else "≥"
    verdict = "" if result.target is None else "met" if result.met else "MISSED"
    return (
        result.name,
        f"{number(result.ours)} {result.unit}",
        f"{result.other_name} {number(result.other)}",
        f"{result.ratio:.2f}",
        f"{result.ratio_low:.2f}-{result.ratio_high:.2f} of {result.rounds}",
        "-" if result.target is None else f"{sign} {result.target:g}",
        verdict,
    )


def number(value: float) -> str:
    """Format *value* with as many digits as are meaningful."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
